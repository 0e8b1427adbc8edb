"""The one object of the API that a server pod may read and write the status of.

Only the standard library: a pod of this family needs no more of Kubernetes than this. Conflicts and
passing failures are tried again; what is refused raises.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["ObjectError", "Status"]

SECRETS: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TRIES: Final = 8
_AGAIN: Final = (409, 429, 500, 502, 503, 504)


class ObjectError(Exception):
    """The object cannot be read or written; one line that says why."""


class Status:
    """One object, by its path in the API."""

    def __init__(
        self,
        server: str,
        path: str,
        *,
        token: Callable[[], str],
        ca: str | None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = f"{server.rstrip('/')}{path}"
        self._token = token
        self._context = ssl.create_default_context(cafile=ca) if ca else None
        self._sleep = sleep

    @classmethod
    def in_pod(cls, env: Mapping[str, str], path: str, folder: Path = SECRETS) -> Status:
        """As the pod's service account. Raises ObjectError."""
        host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT")
        token = folder / "token"
        if not host or not port or not token.is_file():
            raise ObjectError("this is no pod with a service account")
        return cls(
            f"https://{host}:{port}",
            path,
            token=lambda: token.read_text().strip(),
            ca=str(folder / "ca.crt"),
        )

    def get(self) -> dict[str, Any]:
        """Raises ObjectError."""
        return self._ask("GET", "", None)

    def change(self, make: Callable[[dict[str, Any]], Mapping[str, Any] | None]) -> None:
        """Write the status that ``make`` makes of the object; none: nothing is to be written.

        Nobody else's change is lost: it is made anew of what they wrote. Raises ObjectError.
        """
        for attempt in range(TRIES):
            obj = self.get()
            status = make(obj)
            if status is None:
                return
            version = obj["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version}, "status": dict(status)}
            try:
                self._ask("PATCH", "/status", patch, tries=1)
                return
            except _Again:
                self._sleep(min(0.1 * 2**attempt, 5.0))
        raise ObjectError("the object's status is written by others all the time")

    def _ask(
        self, method: str, part: str, body: Mapping[str, Any] | None, *, tries: int = TRIES
    ) -> dict[str, Any]:
        why = ""
        for attempt in range(tries):
            request = urllib.request.Request(
                self._url + part,
                data=None if body is None else json.dumps(body).encode(),
                method=method,
                headers={
                    "Authorization": f"Bearer {self._token()}",
                    "Content-Type": "application/merge-patch+json",
                    "Accept": "application/json",
                },
            )
            try:
                with urllib.request.urlopen(request, timeout=30, context=self._context) as answer:
                    found: dict[str, Any] = json.load(answer)
                    return found
            except urllib.error.HTTPError as error:
                with error:
                    why = _words(error)
                if error.code not in _AGAIN:
                    raise ObjectError(why) from error
            except OSError as error:
                why = f"the API server does not answer: {error}"
            if attempt + 1 < tries:
                self._sleep(min(0.2 * 2**attempt, 10.0))
        raise _Again(why)


class _Again(ObjectError):
    """It may be possible later."""


def _words(error: urllib.error.HTTPError) -> str:
    try:
        said = json.load(error)
        return str(said.get("message") or error)
    except (ValueError, AttributeError):
        return str(error)
