"""JSON over HTTP to a cloud's own API, with patience.

Everything that is sent can be sent again: reads, deletions, and creations that carry a request id
or a condition. So an answer that is lost, late or a server's fault is simply asked for anew, a few
times with growing pauses, before `Transient` is raised.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from corral.clouds.calls import MAX_ANSWER, Calls, Reply
from corral.clouds.errors import AccountRefused, BadRequest, Scope, Transient
from corral.egress.policy import EgressPolicy, EndpointRefused
from corral.egress.reading import load_json

__all__ = ["Answer", "Patience", "RestClient", "TokenSource"]

_OAUTH: Final = frozenset(
    {
        "access_denied", "invalid_client", "invalid_grant", "invalid_request", "invalid_scope",
        "server_error", "temporarily_unavailable", "unauthorized_client", "unsupported_grant_type",
    }
)  # fmt: skip
"""What RFC 6749 lets a token service say."""
_AZURE: Final = re.compile(r"AADSTS\d{4,8}\b")
_LED: Final = re.compile(r"[?#%\\\s\x00-\x1f]|(?:^|/)\.{1,2}(?:/|$)")
"""What would lead a path elsewhere: to another project, or another kind of thing."""
_AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how often a cloud is asked."""

    attempts: int = 5
    """For one request, the first one included."""
    request_s: float = 60.0
    """Seconds to wait for one answer."""
    first_pause_s: float = 0.5
    """Doubled each time, with up to a half added at random."""
    longest_pause_s: float = 20.0
    operation_s: float = 300.0
    """For the cloud to finish what it has accepted."""
    poll_s: float = 1.0
    """Between two looks at something that goes on."""


class TokenSource(Protocol):
    """Gives what goes into the Authorization header."""

    @property
    def trusted(self) -> tuple[str, ...]:
        """Addresses that it calls and that no user's Secret named."""
        ...

    async def header(self, calls: Calls) -> str:
        """The Authorization header; raises CloudError or OSError."""
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
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    """What may be called beside the endpoint: a Secret names token services."""
    _calls: Calls | None = None
    _closed: bool = False

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
            BadRequest: a name in the path is more than a name, or the address is not of this API.
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
            except EndpointRefused as error:
                raise AccountRefused(str(error), scope=Scope.CLOUD) from error
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
            f"{self.patience.attempts} times: {_words(last)}"
        ) from last

    async def fetch_text(self, url: str) -> str:
        """What is at an address that needs no token of ours. Raises Transient."""
        where = urlsplit(url).netloc
        try:
            reply = await self._opened().ask("GET", url, limit=MAX_ANSWER)
        except (OSError, TimeoutError) as error:
            raise Transient(f"cannot read {where}: {_words(error)}") from error
        if reply.status != 200:
            raise Transient(f"cannot read {where}: it answers {reply.status}")
        return reply.body.decode(errors="replace")

    async def close(self) -> None:
        self._closed = True
        if self._calls is not None:
            await self._calls.close()
            self._calls = None

    def _opened(self) -> Calls:
        if self._closed:
            raise Transient("the account is closed: nothing names it any more")
        if self._calls is None:
            # what our own configuration names is called wherever it is
            policy = self.egress.allowing(self.endpoint, *self.tokens.trusted)
            self._calls = Calls(policy, self.patience.request_s)
        return self._calls

    def _url(self, path: str) -> str:
        if not path.startswith(("http://", "https://")):
            if _LED.search(path):
                # project, zone, resource group: objects say them, and accounts are lent by them
                raise BadRequest(f"a project, group, zone or name is none: {path[:300]!r}")
            return self.endpoint.rstrip("/") + path
        ours, theirs = urlsplit(self.endpoint), urlsplit(path)
        if (ours.scheme, ours.netloc) != (theirs.scheme, theirs.netloc):
            # a token must never go to another host, whatever an answer says
            raise BadRequest(f"the cloud sent us to {theirs.netloc}, which is not {ours.netloc}")
        return path

    def _pause(self, attempt: int, last: Answer | Exception | None) -> float:
        requested = last.retry_after if isinstance(last, Answer) else None
        base = self.patience.first_pause_s * 2.0 ** (attempt - 1)
        wait = max(requested or 0.0, base * (1 + self.rng.random() / 2))
        return min(wait, self.patience.longest_pause_s)

    async def _send(
        self,
        method: str,
        url: str,
        params: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> Answer:
        calls = self._opened()
        sent = dict(headers or {})
        authorization = await self.tokens.header(calls)
        if authorization:
            sent["Authorization"] = authorization
        reply = await calls.ask(
            method, url, limit=MAX_ANSWER, headers=sent, params=params, json=body
        )
        return Answer(reply.status, _json(reply.body), reply.headers)


def _json(text: bytes) -> Mapping[str, Any]:
    if not text.strip():
        return {}
    try:
        value = load_json(text)
    except ValueError:  # a proxy's page
        return {}
    return value if isinstance(value, dict) else {"value": value}


def _oauth_code(body: Mapping[str, Any]) -> str:
    """Codes of OAuth and of Azure's own; nothing else that an answer says."""
    code = body.get("error")
    found = [code] if isinstance(code, str) and code in _OAUTH else []
    found += _AZURE.findall(str(body.get("error_description"))[:1000])[:1]
    return "".join(f", {each}" for each in found)


def _words(error: BaseException | None) -> str:
    return str(error) or type(error).__name__


class StaticToken:
    """A token that somebody else renews; empty sends none."""

    def __init__(self, token: str) -> None:
        self._token = token

    @property
    def trusted(self) -> tuple[str, ...]:
        return ()

    async def header(self, calls: Calls) -> str:
        return f"Bearer {self._token}" if self._token else ""

    def forget(self) -> None:
        """Nothing to forget: a fixed token cannot be renewed."""


@dataclass(slots=True)
class Renewed:
    """A token with an end, fetched when it is needed. Subclasses say how."""

    clock: Callable[[], float]
    _token: str = field(default="", init=False)
    _until: float = field(default=0.0, init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    MARGIN = 120.0
    """Seconds before its end at which a token is no longer used."""

    @property
    def trusted(self) -> tuple[str, ...]:
        return ()

    async def header(self, calls: Calls) -> str:
        async with self._lock:
            if self.clock() >= self._until:
                self._token, lasts = await self._fetch(calls)
                self._until = self.clock() + max(lasts - self.MARGIN, lasts / 2)
        return f"Bearer {self._token}"

    def forget(self) -> None:
        self._until = 0.0

    async def _fetch(self, calls: Calls) -> tuple[str, float]:
        raise NotImplementedError

    @staticmethod
    def _read(reply: Reply, who: str) -> tuple[str, float]:
        """A token and its seconds from an OAuth answer. Raises AccountRefused, ConnectionError.

        Whoever answered may be anybody: of a refusal only the status and OAuth's own codes are
        repeated.
        """
        if reply.status >= 500 or reply.status == 429:
            raise ConnectionError(f"{who} has no token for us now ({reply.status})")
        body = _json(reply.body)
        token = body.get("access_token")
        if reply.status != 200 or not isinstance(token, str) or not token.isascii():
            why = f"status {reply.status}{_oauth_code(body)}"
            raise AccountRefused(f"{who} refuses our credentials ({why})")
        lasts = str(body.get("expires_in", 300))  # some write it as text
        return token, float(lasts) if lasts.isdecimal() and len(lasts) < 9 else 300.0
