"""The log of one container from a mark to its end, whatever happens on the way.

Guarantees, for every server that gives logs with times:
- Every line is given once and in order, however often and wherever the connection is cut. That an
  answer ended in order is not believed, for some servers end it so when a node is lost, too; those
  that do not say so (`corral.kube.podstreams.logs.LOG_COMPLETE_HEADER`), which saves looking again.
- A container that is started again goes on in the same log: first the rest of what it wrote
  before, then what it writes now. What two starts ago was written is gone on most nodes.
- Nothing is read ahead of who takes it: `emit` is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import aiohttp

from corral.client.logs.lines import Cutter
from corral.client.logs.marks import Mark, SourceKey, second_of
from corral.client.logs.pods import PodView, attempt_of
from corral.client.logs.query import LogQuery
from corral.client.logs.reach import MAX_FAILURES, ReadContext
from corral.client.phases import section
from corral.client.roles import Role
from corral.client.translate import ApiRequest, translated
from corral.kube import errors as kube
from corral.kube.client import KubeConnectionError
from corral.kube.connection.transport import IdleTimeout
from corral.kube.podstreams.logs import LOG_COMPLETE_HEADER, LogRequest, open_log, read_log
from corral.kube.resources import PODS

__all__ = ["LogSource"]

IDLE = 120.0
"""Seconds without a byte until a followed log is asked for anew: its node may have vanished."""
_LOOKS = 3
"""How often a log that still grows is looked at, for lines behind a silent cut."""
_LAST_FAILURES = 5
"""Failures in a row until it is given up when the job is over."""
_STAMP_BYTES = 48
"""Enough of a line to have its time."""

Emit = Callable[["LogSource", bytes, Mark], Awaitable[None]]
_RETRYABLE = (
    kube.InternalError,
    kube.ServiceUnavailable,
    kube.TooManyRequests,
    kube.ServerTimeout,
    kube.Timeout,
)


class LogSource:
    """One container of one pod."""

    def __init__(
        self,
        reach: ReadContext,
        view: PodView,
        container: str,
        *,
        role: Role,
        query: LogQuery,
        mark: Mark | None,
    ) -> None:
        """``mark`` is none for a log that begins where ``query`` says."""
        self.key = SourceKey(view.name, view.uid, container)
        self.role = role
        self.mark = mark or Mark()
        self._fresh = mark is None
        self._reach = reach
        self._view = view
        self._query = query
        self._failures = 0
        self._closing = False
        self._whole = False
        """The last answer was the whole log: its server would have said if it were not."""
        self._last_look = False
        """If nothing new is found now, nothing will be."""

    def close(self) -> None:
        """What is there now is read, and no more is waited for."""
        self._closing = True
        self._view.nudge()

    @property
    def gone(self) -> bool:
        """Whether its pod is."""
        return self._view.gone

    @property
    def deleting(self) -> bool:
        return self._view.deleting and not self._view.gone

    # -- the course of it -------------------------------------------------------------------------

    async def run(self, emit: Emit) -> None:
        """Give everything to ``emit``. Raises JobError."""
        try:
            if self._query.previous:
                await self._read_out(emit, previous=True)
            elif self._query.follow:
                await self._follow(emit)
            elif attempt_of(self._view.pod, self.key.container).begun:
                await self._begin()
                await self._read_out(emit, previous=False, looks=_LOOKS)
        except (kube.ApiError, KubeConnectionError) as error:
            asked = ApiRequest("get", PODS, self._reach.namespace, self.key.pod, "log")
            raise translated(error, asked) from error

    async def _follow(self, emit: Emit) -> None:
        quiet = 0
        while not self._view.gone:
            now = attempt_of(self._view.pod, self.key.container)
            if not now.begun:
                if now.over or self._closing:
                    return
                await self._view.changed()
                continue
            if self._fresh:
                await self._begin()
            if 0 <= self.mark.restarts < now.restarts:
                await self._read_out(emit, previous=True)
            self.mark = replace(self.mark, restarts=now.restarts)
            if now.over or self._closing:
                await self._read_out(emit, previous=False, looks=0 if now.over else _LOOKS)
                return
            got = await self._attempt(emit, follow=True)
            quiet = 0 if got else quiet + 1
            if quiet and attempt_of(self._view.pod, self.key.container) == now:
                # the log has ended, and the pod's status will say so soon
                await self._view.changed(self._reach.wait(quiet))

    async def _begin(self) -> None:
        """Where to begin, if only the last lines are wanted."""
        tries = 0
        while self._fresh and self._query.tail_lines is not None:
            try:
                self.mark = await self._tail(self._query.tail_lines)
                break
            except (KubeConnectionError, *_RETRYABLE):
                tries += 1
                if tries > MAX_FAILURES:
                    raise
                await self._reach.pause(tries)
            except (kube.NotFound, kube.BadRequest):
                break
        self._fresh = False

    async def _read_out(self, emit: Emit, *, previous: bool, looks: int = 0) -> None:
        """To the present end: until the server is believed, or as often as ``looks`` says.

        Believed is one that says it tells when it was cut off, and any when two looks in a row
        found nothing new.
        """
        empty = made = 0
        while not self._view.gone:
            self._whole, self._last_look = False, empty == 1
            got = await self._attempt(emit, follow=False, previous=previous)
            made += 1
            if self._failures:
                continue
            empty = 0 if got else empty + 1
            if got is None or self._whole or empty == 2 or made == looks:
                return

    # -- one connection ---------------------------------------------------------------------------

    async def _attempt(self, emit: Emit, *, follow: bool, previous: bool = False) -> bool | None:
        """Read over one connection: whether it gave anything; none if there is no such log."""
        before = self.mark
        try:
            await self._read(emit, follow=follow, previous=previous)
            self._failures = 0
        except IdleTimeout:
            self._failures = 0
        except (KubeConnectionError, kube.NotFound, *_RETRYABLE) as error:
            self._failures = 1 if self.mark != before else self._failures + 1
            if self._given_up(error):
                raise
            if isinstance(error, kube.NotFound):
                # the pod is gone, or its node has just begun and does not know it yet
                with suppress(KubeConnectionError, *_RETRYABLE):
                    await self._check_identity()
            await self._pause()
        except kube.BadRequest:
            # it waits for its start, or has no previous attempt
            return None if previous or not follow else False
        return self.mark != before

    def _given_up(self, error: Exception) -> bool:
        """A node that is lost may come back: its pods are waited for while the job goes on."""
        if self._closing:
            return self._failures > _LAST_FAILURES
        waits = self._query.follow and isinstance(error, kube.ApiError)
        return self._failures > MAX_FAILURES and not waits

    async def _read(self, emit: Emit, *, follow: bool, previous: bool) -> None:
        request = LogRequest(
            self.key.pod,
            self._reach.namespace,
            container=self.key.container,
            follow=follow,
            previous=previous,
            timestamps=True,
            since_time=self._since(),
            since_exactly=self.mark.since.decode(),
            idle_timeout=IDLE,
        )
        cutter = Cutter(self.mark, timestamps=self._query.timestamps)
        before = self.mark
        transport = self._reach.client.transport
        async with self._opened(request) as answer:
            checked = False
            while data := await read_log(transport, answer):
                if not checked and not await self._check_identity():
                    return
                checked = True
                await self._give(emit, cutter, cutter.feed(data))
                if self._closing and follow:
                    return
            self._whole = LOG_COMPLETE_HEADER in answer.headers
        if not follow and (self._whole or (self._last_look and self.mark == before)):
            # nothing will come behind it: a line without an end stays without one
            await self._give(emit, cutter, cutter.finish())

    async def _give(self, emit: Emit, cutter: Cutter, data: bytes) -> None:
        if data:
            mark = replace(cutter.mark, restarts=self.mark.restarts)
            await emit(self, data, mark)
            self.mark = mark

    @asynccontextmanager
    async def _opened(self, request: LogRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        """Closed without a farewell when it is left before its end."""
        async with self._reach.opening:
            answer = await open_log(self._reach.client.transport, request)
        stop = asyncio.ensure_future(self._until_closing(answer)) if request.follow else None
        try:
            async with answer:
                try:
                    yield answer
                finally:
                    _abort(answer)
        finally:
            if stop is not None:
                stop.cancel()
                await asyncio.gather(stop, return_exceptions=True)

    async def _until_closing(self, answer: aiohttp.ClientResponse) -> None:
        """A log that is quiet is not waited for when the reader wants to end."""
        while not self._closing:
            await self._view.changed()
        _abort(answer)

    async def _check_identity(self) -> bool:
        """Logs are asked for by name: whether it is still the same pod behind it, if any."""
        try:
            pod = await self._reach.client.get(PODS, self.key.pod, namespace=self._reach.namespace)
        except kube.NotFound:
            self._view.leave()
            return True  # no other was made: what was read is its own
        if section(pod, "metadata").get("uid") == self.key.uid:
            return True
        self._view.leave()
        return False

    def _since(self) -> str:
        marked = second_of(self.mark.since) if self.mark.since else ""
        return max(marked, self._query.since_time or "")

    async def _tail(self, count: int) -> Mark:
        """The place before the last lines, such that it can be found again later.

        The time of the first of them, then how many lines there are from its second on.
        """
        base = LogRequest(
            self.key.pod,
            self._reach.namespace,
            container=self.key.container,
            timestamps=True,
            since_time=self._query.since_time or "",
            tail_lines=max(count, 1),
            limit_bytes=_STAMP_BYTES,
            idle_timeout=IDLE,
        )
        transport = self._reach.client.transport
        begin = b""
        async with self._opened(base) as answer:
            while data := await read_log(transport, answer):
                begin += data
        stamp = begin.partition(b" ")[0]
        try:
            since = max(second_of(stamp), self._query.since_time or "")
        except ValueError:
            return Mark()  # an empty log
        lines = 0
        request = replace(
            base, tail_lines=None, limit_bytes=None, since_time=since, since_exactly=stamp.decode()
        )
        async with self._opened(request) as answer:
            while data := await read_log(transport, answer):
                lines += data.count(b"\n")
        return Mark(since=stamp, lines=max(lines - count, 0))

    async def _pause(self) -> None:
        await self._reach.pause(self._failures)


def _abort(answer: aiohttp.ClientResponse) -> None:
    connection = answer.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
