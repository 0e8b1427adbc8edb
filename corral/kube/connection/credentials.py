"""Who the client is, request by request: fixed, read from a file again and again, or from a plugin.

A `CredentialSource` gives the credential for the next request and is told when the server refused
one. Sources never block the event loop for long: files are read in a thread, plugins are child
processes.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from corral.kube.connection.config import ClusterConfig, ConfigError, Impersonation

__all__ = [
    "Credential",
    "CredentialSource",
    "FileTokenSource",
    "StaticSource",
    "credential_source",
    "impersonation_headers",
]

TOKEN_REREAD_SECONDS = 60.0
"""How long a token read from a file is used before the file is looked at again."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What one request carries. An empty ``authorization`` sends no such header."""

    authorization: str = field(default="", repr=False)
    cert_data: bytes = field(default=b"", repr=False)
    key_data: bytes = field(default=b"", repr=False)


class CredentialSource(Protocol):
    """Gives credentials and renews them when the server refuses one."""

    async def current(self) -> Credential:
        """The credential for a request that starts now."""
        ...

    async def renew(self, refused: Credential) -> bool:
        """Told that the server answered 401; true if `current` now gives another credential."""
        ...


class StaticSource:
    """A source that always has the same credential."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        return self._credential

    async def renew(self, refused: Credential) -> bool:
        return False


class FileTokenSource:
    """A bearer token in a file that someone else replaces, as the kubelet does in pods."""

    def __init__(
        self, path: str, fallback: str = "", *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._fallback = fallback
        self._clock = clock
        self._credential: Credential | None = None
        self._read_at = 0.0

    async def current(self) -> Credential:
        if self._credential is None or self._clock() - self._read_at >= TOKEN_REREAD_SECONDS:
            await self._read()
        assert self._credential is not None
        return self._credential

    async def renew(self, refused: Credential) -> bool:
        await self._read()
        return self._credential != refused

    async def _read(self) -> None:
        try:
            token = (await asyncio.to_thread(Path(self._path).read_text)).strip()
        except OSError as e:
            # The last good token outlives a file that is missing for a moment.
            token = "" if self._credential else self._fallback
            if self._credential is None and not token:
                raise ConfigError(f"cannot read token file {self._path}: {e.strerror}") from e
        self._read_at = self._clock()
        if token:
            self._credential = Credential(f"Bearer {token}")
        elif self._credential is None:
            raise ConfigError(f"token file {self._path} is empty")


def credential_source(config: ClusterConfig) -> CredentialSource:
    """The source a configuration asks for; a token file wins over a token, as in kubectl."""
    if config.token_file:
        return FileTokenSource(config.token_file, config.token)
    if config.token:
        return StaticSource(Credential(f"Bearer {config.token}"))
    if config.username:
        pair = base64.b64encode(f"{config.username}:{config.password}".encode()).decode()
        return StaticSource(Credential(f"Basic {pair}"))
    if config.exec_plugin is not None and not (config.cert_file or config.cert_data):
        from corral.kube.connection.execplugin import ExecSource  # only few users have one

        return ExecSource(config.exec_plugin)
    return StaticSource(Credential())


# Characters a header name may have, without the percent sign that escapes the others.
_HEADER_SAFE = "!#$&'*+.^_`|~-"


def impersonation_headers(who: Impersonation | None) -> list[tuple[str, str]]:
    """The headers that ask the server to treat the request as somebody else's."""
    if who is None:
        return []
    headers = [("Impersonate-User", who.user)]
    if who.uid:
        headers.append(("Impersonate-Uid", who.uid))
    headers += [("Impersonate-Group", group) for group in who.groups]
    for key, values in who.extra.items():
        name = f"Impersonate-Extra-{quote(key, safe=_HEADER_SAFE)}"
        headers += [(name, value) for value in values]
    return headers
