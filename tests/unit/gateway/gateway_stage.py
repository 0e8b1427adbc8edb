"""An application in front of a gateway that says what it is told to, and somebody who asks it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from corral.client.errors import Unauthorized
from corral.client.kinds import kind_of
from corral.client.logs.marks import Position
from corral.client.logs.query import LogChunk
from corral.client.queries import Page
from corral.client.roles import Role
from corral.client.watching import Change
from corral.gateway.audit import Audit, Names
from corral.gateway.auth import Caller
from corral.gateway.limits import LimitSettings, Places, RateLimiter, StreamPlaces
from corral.gateway.rest.app import RestApp
from corral.gateway.service import Created
from corral.gateway.shared import Shared

TOKEN = "very-secret-token"


async def settle(condition: Callable[[], Any]) -> None:
    """Until it holds: a turn of the loop at a time."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # what is waited for has no event of its own
            await asyncio.sleep(0)


def job(name: str = "pi", version: str = "7", phase: str = "Running") -> dict[str, Any]:
    return {
        "apiVersion": "training.corral.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {
            "name": name,
            "namespace": "a",
            "uid": f"u-{name}",
            "resourceVersion": version,
        },
        "spec": {},
        "status": {"phase": phase},
    }


def change(version: str, phase: str = "Running", *, type_: Any = "MODIFIED") -> Change:
    return Change(type_, job(version=version, phase=phase), phase)


class FakeGateway:
    """Answers as it is told; remembers who asked what."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {}
        self.changes: asyncio.Queue[Change | Exception | None] = asyncio.Queue()
        self.chunks: list[bytes] = []
        self.hold: asyncio.Event | None = None
        """Where set, answers and the end of logs wait for it."""
        self.watches = 0
        self.closed_watches = 0
        self.users: dict[str, str] = {}
        """By token; the others are somebody's."""
        self.forged: set[str] = set()
        self.reviews = 0

    async def who(self, caller: Caller) -> str:
        self.reviews += 1
        if caller.token in self.forged or caller.token.startswith("forged"):
            raise Unauthorized("the API server does not know this token")
        return self.users.get(caller.token, "somebody")

    async def _say(self, verb: str, caller: Caller, **asked: Any) -> Any:
        self.asked.append((verb, asked))
        if self.hold is not None:
            await self.hold.wait()
        answer = self.answers.get(verb, job())
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __getattr__(self, verb: str) -> Any:
        if verb.startswith("_"):
            raise AttributeError(verb)

        async def say(caller: Caller, kind: Any, **asked: Any) -> Any:
            return await self._say(verb, caller, kind=kind, **asked)

        return say

    async def may(self, caller: Caller, kind: Any, **asked: Any) -> bool:
        self.asked.append(("may", {"kind": kind, **asked}))
        return bool(self.answers.get("may", True))

    async def create(self, caller: Caller, kind: Any, **asked: Any) -> Any:
        answer = await self._say("create", caller, kind=kind, **asked)
        return answer if isinstance(answer, Created) else Created(answer)

    async def list(self, caller: Caller, kind: Any, **asked: Any) -> Any:
        answer = await self._say("list", caller, kind=kind, **asked)
        return answer if isinstance(answer, Page) else Page([answer], total=1)

    async def watch(self, caller: Caller, kind: Any, **asked: Any) -> AsyncGenerator[Change, None]:
        self.asked.append(("watch", asked))
        self.watches += 1
        try:
            while (item := await self.changes.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.closed_watches += 1

    async def logs(self, caller: Caller, kind: Any, **asked: Any) -> AsyncGenerator[LogChunk, None]:
        await self._say("logs", caller, kind=kind, **asked) if self.hold is None else None
        self.asked.append(("logs", asked))
        for at, data in enumerate(self.chunks):
            place = Position.unread(f"place-{at}")
            yield LogChunk("pi-0", Role("replica", 0), "main", data, place)
        if self.hold is not None:
            await self.hold.wait()


class FakeReach:
    def __init__(self) -> None:
        self.error: Exception | None = None

    async def check(self) -> None:
        if self.error is not None:
            raise self.error


@dataclass
class Reply:
    """An answer, whole."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    whole: bool = False

    def json(self) -> Any:
        return json.loads(self.body)


class Stage:
    """The application and its surroundings."""

    def __init__(self, limits: LimitSettings | None = None) -> None:
        chosen = limits or LimitSettings()
        self.gateway = FakeGateway()
        self.lines: list[bytes] = []
        self.reach = FakeReach()
        fake: Any = self.gateway
        reach: Any = self.reach
        self.shared = Shared(
            limits=chosen,
            rates=RateLimiter(chosen.rate, chosen.burst),
            places=Places(chosen.requests, chosen.waiting),
            streams=StreamPlaces(chosen.streams, chosen.streams_each),
            audit=Audit(self.lines.append),
            names=Names(fake.who),
            reach=reach,
        )
        self.app = RestApp(fake, self.shared)

    @property
    def audit(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = TOKEN,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """A request and its whole answer."""
        reply = Reply()
        async with self.open(method, path, body, token=token, headers=headers, reply=reply):
            pass
        return reply

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = TOKEN,
        headers: dict[str, str] | None = None,
        reply: Reply | None = None,
        silent: bool = False,
    ) -> AsyncIterator[tuple[Reply, asyncio.Event, asyncio.Event]]:
        """A request under way: its answer so far, to leave it, and that more has come.

        One that is ``silent`` promises a body and never sends it.
        """
        found = reply or Reply()
        leave, news = asyncio.Event(), asyncio.Event()
        content = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        sent = {"content-type": "application/json"} if body is not None else {}
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        sent |= {name.lower(): value for name, value in (headers or {}).items()}
        raw, _, query = path.partition("?")
        scope = {
            "type": "http", "method": method, "path": raw, "raw_path": raw.encode(),
            "query_string": query.encode(), "client": ("192.0.2.1", 5), "scheme": "https",
            "server": ("gateway", 443), "root_path": "", "http_version": "1.1",
            "headers": [(k.encode(), v.encode()) for k, v in sent.items()],
        }  # fmt: skip
        messages = [] if silent else [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await leave.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                found.status = message["status"]
                found.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            else:
                found.body += message.get("body", b"")
                found.whole = not message.get("more_body", False)
            news.set()

        async with asyncio.timeout(30):
            task = asyncio.create_task(self.app(scope, receive, send))
            try:
                yield found, leave, news
            except BaseException:
                leave.set()
                raise
            finally:
                await task


def path(rest: str = "", plural: str = "trainingjobs") -> str:
    return f"/api/v1/namespaces/a/{kind_of(plural).plural}{rest}"
