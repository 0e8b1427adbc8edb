"""HTTP calls to clouds: only where the policy permits, and no more of an answer than is asked for.

Redirects are not followed: a token must not go elsewhere, nor a request to where only this process
can reach.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from corral.egress.dialing import checked_async
from corral.egress.policy import EgressPolicy
from corral.egress.reading import IDENTITY, read_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    import aiohttp

__all__ = ["MAX_ANSWER", "MAX_TOKEN", "Calls", "Reply"]

MAX_ANSWER: Final = 16 << 20
"""Bytes of one answer of a cloud's API: a page of a list has a few."""
MAX_TOKEN: Final = 64 << 10
"""Bytes of an answer of a token service."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one HTTP request."""

    status: int
    headers: Mapping[str, str]
    """With names in lower case."""
    body: bytes


@dataclass(slots=True)
class Calls:
    """Calls of one account; `close` ends its connections."""

    policy: EgressPolicy = field(default_factory=EgressPolicy)
    timeout_s: float = 60.0
    _session: aiohttp.ClientSession | None = None

    async def ask(
        self,
        method: str,
        url: str,
        *,
        limit: int,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Reply:
        """One call.

        Raises:
            EndpointRefused: it is not to be called.
            OSError: no proper answer, or one that is too large.
            TimeoutError: none in time.
        """
        import aiohttp

        await checked_async(self.policy, url)
        try:
            async with self._opened().request(
                method, url, headers={**IDENTITY, **(headers or {})}, allow_redirects=False,
                **options,
            ) as answer:  # fmt: skip
                body = await read_body(answer, limit)
                names = {name.lower(): value for name, value in answer.headers.items()}
                return Reply(answer.status, names, body)
        except aiohttp.ClientError as error:
            # of its words only the kind: they may quote what a server sent
            raise ConnectionError(type(error).__name__) from error

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp

        from corral.egress.http import connector

        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self.timeout_s),
                connector=connector(self.policy, tls=_authorities()),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


@cache
def _authorities() -> ssl.SSLContext:
    """Those of the machine; said, since whoever started us may not have aiohttp know them."""
    return ssl.create_default_context()
