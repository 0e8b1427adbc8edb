"""Saying who we are: a token as it is, Basic, or a token bought from the registry's token service.

Tokens are kept until shortly before they end. A password goes only where the registry is, or to a
token service over TLS.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from corral.egress.reading import load_json
from corral.oci.challenges import Challenge, challenges
from corral.oci.credentials import Login
from corral.oci.errors import Denied, RegistryError
from corral.oci.reference import Reference
from corral.oci.registries import Registries, is_loopback

__all__ = ["Ask", "Authorization"]

Ask = Callable[[str, str, Mapping[str, str], bytes | None], Awaitable[bytes]]
"""Method, URL, headers and body of a request to a token service → its answer."""

_LIFE: Final = 60.0
"""Seconds of a token that does not say how long it holds."""
_SLACK: Final = 10.0
"""Seconds before its end that a token is no longer used."""


@dataclass(frozen=True, slots=True)
class _Shown:
    header: str
    until: float


class Authorization:
    """The ``Authorization`` header of each repository."""

    def __init__(
        self, registries: Registries, ask: Ask, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._registries = registries
        self._ask = ask
        self._clock = clock
        self._shown: dict[tuple[str, str], _Shown] = {}

    def header(self, reference: Reference, actions: str) -> str:
        """What to send with the first try; empty: nothing."""
        endpoint = self._registries.endpoint(reference.registry)
        if endpoint.token is not None:
            return f"Bearer {endpoint.token().strip()}"
        shown = self._shown.get((reference.name, actions))
        if shown is None or shown.until < self._clock():
            return ""
        return shown.header

    async def answer(
        self, reference: Reference, actions: str, *, offered: list[str], used: str
    ) -> str:
        """What to send after a refusal; empty where nothing else can be tried.

        Raises:
            RegistryError: the token service refused or cannot be used.
        """
        endpoint = self._registries.endpoint(reference.registry)
        if endpoint.token is not None:
            again = self.header(reference, actions)
            return again if again != used else ""
        login = self._registries.login(reference)
        wanted = {challenge.scheme: challenge for challenge in challenges(offered)}
        if "bearer" in wanted:
            shown = await self._bought(reference, actions, wanted["bearer"], login)
        elif "basic" in wanted and login is not None and login.username:
            shown = _Shown(_basic(login), float("inf"))
        else:
            return ""
        if shown.header == used:
            return ""
        self._shown[reference.name, actions] = shown
        return shown.header

    async def _bought(
        self, reference: Reference, actions: str, challenge: Challenge, login: Login | None
    ) -> _Shown:
        realm = challenge.parameters.get("realm", "")
        self._check_realm(reference, realm)
        scope = challenge.parameters.get("scope") or f"repository:{reference.repository}:{actions}"
        query = {"service": challenge.parameters.get("service", ""), "scope": scope}
        if login is not None and login.identity_token:
            form = {
                **query,
                "grant_type": "refresh_token",
                "client_id": "corral",
                "refresh_token": login.identity_token,
            }
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            raw = await self._ask("POST", realm, headers, urlencode(form).encode())
        else:
            known = login is not None and login.username
            headers = {"Authorization": _basic(login)} if login is not None and known else {}
            joint = "&" if "?" in realm else "?"
            given = {name: value for name, value in query.items() if value}
            raw = await self._ask("GET", f"{realm}{joint}{urlencode(given)}", headers, None)
        return self._token(raw, realm)

    def _token(self, raw: bytes, realm: str) -> _Shown:
        try:
            content: Any = load_json(raw)
            token = content.get("token") or content.get("access_token")
            life = float(content.get("expires_in") or _LIFE)
        except (ValueError, TypeError, AttributeError):
            token, life = None, 0.0
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise RegistryError(f"the token service of {_host(realm)} answered without a token")
        return _Shown(f"Bearer {token}", self._clock() + max(life - _SLACK, 1.0))

    def _check_realm(self, reference: Reference, realm: str) -> None:
        parts = urlsplit(realm)
        if parts.scheme == "https" and parts.netloc:
            return
        plain = urlsplit(self._registries.endpoint(reference.registry).url)
        if parts.scheme == "http" and plain.scheme == "http":
            if parts.netloc == plain.netloc or is_loopback(parts.netloc):
                return
        raise Denied(
            f"{reference.registry} wants a token from a service that is not safe to ask: "
            "a token service must be reached by https"
        )


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _basic(login: Login) -> str:
    packed = base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
    return f"Basic {packed}"
