"""Calls of the operator's report endpoint, with the pod's own token.

The token file is read again when it changes, because the kubelet replaces it, and once more when
the endpoint says 401. The calls may all be repeated: the endpoint treats a repetition as the
same call.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from .errors import Fenced, Refused, Unavailable
from .wire import Wire

if TYPE_CHECKING:
    from .environment import Environment
    from .wire import Answer

_LATER = (401, 408, 425, 429)
"""Worth a second try: tokens rotate, and too much now may be little enough later."""


class Client:
    """One connection to the report endpoint; for one thread."""

    def __init__(self, environment: Environment, *, timeout: float = 10.0) -> None:
        self._url = environment.report_url
        self._wire = Wire(ca=environment.ca, timeout=timeout)
        self._token = Token(environment.token_file)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """One call.

        Raises:
            Unavailable: if there is no answer, or one that says to come back.
            Fenced: if a newer attempt of the job has begun.
            Refused: for every other no.
        """
        data = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
        answer = self._send(path, data)
        if answer.status == 401 and self._token.refresh():
            answer = self._send(path, data)
        return _decoded(answer)

    def close(self) -> None:
        self._wire.close()

    def _send(self, path: str, data: bytes) -> Answer:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        token = self._token.read()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return self._wire.send("POST", f"{self._url}/{path}", headers, data)


class Token:
    """A token in a file that somebody else replaces from time to time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read_stamp: tuple[int, int, int] | None = None
        self._value = ""

    def read(self) -> str:
        """The newest token; an unreadable file leaves the last one."""
        if not self._path:
            return ""
        try:
            status = os.stat(self._path)
            stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
            if stamp != self._read_stamp:
                with open(self._path, encoding="ascii") as file:
                    self._value = file.read().strip()
                self._read_stamp = stamp
        except (OSError, ValueError) as error:
            if not self._value:
                raise Unavailable(f"the token {self._path} cannot be read: {error}") from error
        return self._value

    def refresh(self) -> bool:
        """Reads it again, whatever the file's time says; whether it changed."""
        before, self._read_stamp = self._value, None
        return self.read() != before


def _decoded(answer: Answer) -> dict[str, Any]:
    try:
        document = json.loads(answer.data) if answer.data else {}
    except ValueError:
        document = None
    if 200 <= answer.status < 300:
        if isinstance(document, dict):
            return document
        raise Unavailable("the report endpoint answered with something that is no JSON object")
    details = document if isinstance(document, dict) else {}
    message = str(details.get("error") or answer.data[:200].decode(errors="replace") or "refused")
    if answer.status == 409 and details.get("fenced"):
        raise Fenced(message)
    # A refusal without an `error` is not the endpoint's own, but of something on the way to it.
    if answer.status >= 500 or answer.status in _LATER or "error" not in details:
        raise Unavailable(f"the report endpoint answered {answer.status}: {message}")
    raise Refused(answer.status, message)
