"""JSON over HTTP to a cloud's own API, with patience.

Everything that is sent can be sent again: reads, deletions, and creations that carry a request id
or a condition. So an answer that is lost, late or a server's fault is simply asked for anew, a few
times with growing pauses, before `Transient` is raised.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from corral.clouds.errors import AccountRefused, BadRequest, Transient

if TYPE_CHECKING:
    import aiohttp

__all__ = ["Answer", "Patience", "RestClient", "TokenSource"]

_AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how often a cloud is asked."""

    attempts: int = 5
    """For one request, the first one included."""
    request_s: float = 60.0
    """For one answer."""
    first_pause_s: float = 0.5
    """Doubled each time, with up to a half added at random."""
    longest_pause_s: float = 20.0
    operation_s: float = 300.0
    """For the cloud to finish what it has accepted."""
    poll_s: float = 1.0
    """Between two looks at something that goes on."""


class TokenSource(Protocol):
    """Gives what goes into the Authorization header."""

    async def header(self, session: aiohttp.ClientSession) -> str:
        """Raises CloudError."""
        ...

    def forget(self) -> None:
        """Have the next header made anew: the last one was refused."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whatever it says."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    """With names in lower case."""

    @property
    def ok(self) -> bool:
        return self.status < 400

    @property
    def retry_after(self) -> float | None:
        text = self.headers.get("retry-after", "")
        return float(text) if text.isdigit() else None


@dataclass(slots=True)
class RestClient:
    """One API at one address."""

    endpoint: str
    tokens: TokenSource
    patience: Patience = field(default_factory=Patience)
    rng: random.Random = field(default_factory=random.Random)
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    hopeful: Callable[[Answer], bool] = lambda answer: answer.status in _AGAIN
    """Whether the same question may get a better answer soon."""
    _session: aiohttp.ClientSession | None = None

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request, repeated while there is hope. ``path`` may be a whole address of this API.

        Raises:
            Transient: no proper answer after all attempts.
            AccountRefused: there is no token to be had.
        """
        url = self._url(path)
        last: Answer | Exception | None = None
        for attempt in range(self.patience.attempts):
            if attempt:
                await self.pause(self._pause(attempt, last))
            try:
                answer = await self._send(method, url, params, body, headers)
            except (OSError, TimeoutError) as error:
                last = error
                continue
            if answer.status == 401 and attempt == 0:
                self.tokens.forget()
            elif not self.hopeful(answer):
                return answer
            last = answer
        if isinstance(last, Answer):
            return last
        raise Transient(
            f"{urlsplit(url).netloc} did not answer {method} {urlsplit(url).path} properly "
            f"{self.patience.attempts} times: {last!r}"
        ) from last

    async def fetch_text(self, url: str) -> str:
        """What is at an address that needs no token of ours. Raises Transient."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=self.patience.request_s)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(url, ssl=_authorities()) as answer,
            ):
                answer.raise_for_status()
                return await answer.text(errors="replace")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Transient(f"cannot read {urlsplit(url).netloc}: {error!r}") from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _url(self, path: str) -> str:
        if not path.startswith(("http://", "https://")):
            return self.endpoint.rstrip("/") + path
        ours, theirs = urlsplit(self.endpoint), urlsplit(path)
        if (ours.scheme, ours.netloc) != (theirs.scheme, theirs.netloc):
            # a token must never go to another host, whatever an answer says
            raise BadRequest(f"the cloud sent us to {theirs.netloc}, which is not {ours.netloc}")
        return path

    def _pause(self, attempt: int, last: Answer | Exception | None) -> float:
        asked = last.retry_after if isinstance(last, Answer) else None
        base = self.patience.first_pause_s * 2.0 ** (attempt - 1)
        wait = max(asked or 0.0, base * (1 + self.rng.random() / 2))
        return min(wait, self.patience.longest_pause_s)

    async def _send(
        self,
        method: str,
        url: str,
        params: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> Answer:
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self.patience.request_s)
            connector = aiohttp.TCPConnector(ssl=_authorities())
            self._session = aiohttp.ClientSession(timeout=timeout, connector=connector)
        try:
            authorization = await self.tokens.header(self._session)
            sent = dict(headers or {})
            if authorization:
                sent["Authorization"] = authorization
            async with self._session.request(
                method, url, params=params, json=body, headers=sent, allow_redirects=False
            ) as answer:
                text = await answer.read()
                names = {name.lower(): value for name, value in answer.headers.items()}
                return Answer(answer.status, _json(text), names)
        except aiohttp.ClientError as error:
            raise ConnectionError(repr(error)) from error


@cache
def _authorities() -> ssl.SSLContext:
    """Those of the machine; said, since whoever started us may not have aiohttp know them."""
    return ssl.create_default_context()


def _json(text: bytes) -> Mapping[str, Any]:
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except ValueError:  # a proxy's page
        return {"text": text[:500].decode(errors="replace")}
    return value if isinstance(value, dict) else {"value": value}


class StaticToken:
    """A token that somebody else renews; empty sends none."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def header(self, session: aiohttp.ClientSession) -> str:
        return f"Bearer {self._token}" if self._token else ""

    def forget(self) -> None:
        """There is no other."""


@dataclass(slots=True)
class Renewed:
    """A token with an end, fetched when it is needed. Subclasses say how."""

    clock: Callable[[], float]
    _token: str = field(default="", init=False)
    _until: float = field(default=0.0, init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    MARGIN = 120.0
    """Seconds before its end at which a token is no longer used."""

    async def header(self, session: aiohttp.ClientSession) -> str:
        async with self._lock:
            if self.clock() >= self._until:
                self._token, lasts = await self._fetch(session)
                self._until = self.clock() + max(lasts - self.MARGIN, lasts / 2)
        return f"Bearer {self._token}"

    def forget(self) -> None:
        self._until = 0.0

    async def _fetch(self, session: aiohttp.ClientSession) -> tuple[str, float]:
        raise NotImplementedError

    @staticmethod
    async def _read(answer: aiohttp.ClientResponse, who: str) -> tuple[str, float]:
        """A token and its seconds from an OAuth answer. Raises AccountRefused, ConnectionError."""
        body = _json(await answer.read())
        if answer.status >= 500 or answer.status == 429:
            raise ConnectionError(f"{who} has no token for us now ({answer.status})")
        if answer.status >= 400 or "access_token" not in body:
            reason = body.get("error_description") or body.get("error") or answer.status
            raise AccountRefused(f"{who} refuses our credentials: {reason}")
        return str(body["access_token"]), float(body.get("expires_in", 300))
