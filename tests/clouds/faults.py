"""What a fake cloud is told to do wrong, request by request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class Fault:
    """One kind of mischief, so many times."""

    operation: str
    times: int
    answer: Callable[[], web.Response] | None = None
    """Given instead of doing anything."""
    lose: bool = False
    """Do it, then say nothing."""


@dataclass
class Faults:
    """In the order in which they are to happen."""

    planned: list[Fault] = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)
    """How often each operation was asked for."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def asked(self, operation: str, times: int) -> None:
        """Wait until it has been asked for so many times."""
        while self.requests[operation] < times:
            self._news.clear()
            await self._news.wait()

    def refuse(self, operation: str, answer: Callable[[], web.Response], *, times: int = 1) -> None:
        self.planned.append(Fault(operation, times, answer=answer))

    def lose(self, operation: str, *, times: int = 1) -> None:
        self.planned.append(Fault(operation, times, lose=True))

    async def around(
        self, operation: str, request: web.Request, work: Callable[[], Awaitable[web.Response]]
    ) -> web.Response:
        """Do the work, or what was planned instead."""
        self.requests[operation] += 1
        self._news.set()
        fault = next((each for each in self.planned if each.operation == operation), None)
        if fault is None:
            return await work()
        fault.times -= 1
        if not fault.times:
            self.planned.remove(fault)
        if fault.answer is not None:
            return fault.answer()
        answer = await work()
        assert request.transport is not None
        request.transport.abort()
        return answer


class Server:
    """An HTTP server on loopback, in this process."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.endpoint = ""
        self._runner: web.AppRunner | None = None

    def application(self) -> web.Application:
        raise NotImplementedError

    async def start(self) -> None:
        self._runner = web.AppRunner(self.application(), access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, shutdown_timeout=0.1)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.endpoint = f"http://{host}:{port}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()


async def instantly(seconds: float) -> None:
    """A pause that takes no time, but lets others on."""
    await asyncio.sleep(0)
