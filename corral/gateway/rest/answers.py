"""Answers: JSON in one piece, problems, and bodies that go on.

A `Flow` is an answer whose body is made as it is sent: nothing is sent before its first part is
known or some time has passed, so that a refusal is still a problem with a status of its own. It
ends when its source does, when the caller leaves, when its time is over or when the gateway stops;
whatever way, its source is closed. A source that fails in the middle is told of where the body has
words for that (an event of a watch); elsewhere the connection is broken off: the caller sees that
the body is not whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

import orjson
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from corral.gateway.problems import MEDIA_TYPE, Problem

__all__ = ["Flow", "Open", "json_answer", "problem_answer"]

_PATIENCE: Final = 2.0
"""Seconds that the first part of a flow is waited for before the headers are sent."""
_JSON: Final = "application/json"


def json_answer(
    content: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer of one JSON value."""
    return Response(orjson.dumps(content), status, headers=dict(headers or {}), media_type=_JSON)


def problem_answer(problem: Problem, *, instance: str, request_id: str) -> Response:
    """An answer that is a refusal."""
    headers = {"Cache-Control": "no-store"}
    if problem.retry_after:
        headers["Retry-After"] = str(problem.retry_after)
    if problem.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="kubernetes"'
    body = orjson.dumps(problem.as_object(instance=instance, request_id=request_id))
    return Response(body, problem.status, headers=headers, media_type=MEDIA_TYPE)


class Open:
    """The flows that are open, so that they can be ended together."""

    def __init__(self) -> None:
        self._scopes: set[asyncio.Timeout] = set()
        self._closing = False

    def __len__(self) -> int:
        return len(self._scopes)

    def end_all(self) -> None:
        """End every flow, now and from now on."""
        self._closing = True
        now = asyncio.get_running_loop().time()
        for scope in self._scopes:
            if not scope.expired():
                scope.reschedule(now)

    def scope(self, seconds: float) -> asyncio.Timeout:
        """How long a flow may last."""
        return asyncio.timeout(0 if self._closing else seconds)

    def add(self, scope: asyncio.Timeout) -> None:
        self._scopes.add(scope)

    def discard(self, scope: asyncio.Timeout) -> None:
        self._scopes.discard(scope)


class Flow(Response):
    """An answer whose body goes on; `begin` it before it is sent."""

    def __init__(
        self,
        source: AsyncGenerator[bytes, None],
        *,
        media_type: str,
        seconds: float,
        flows: Open,
        farewell: bytes = b"",
        failure: Callable[[Exception], bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """``farewell`` is sent where the flow is ended by time or by the gateway.

        ``failure`` words what goes wrong once the answer has begun; without it, and wherever words
        could be taken for contents, the connection is broken off.
        """
        super().__init__(None, 200, headers=dict(headers or {}), media_type=media_type)
        del self.headers["content-length"]
        self.headers["Cache-Control"] = "no-store"
        self.headers["X-Accel-Buffering"] = "no"  # proxies must not hold it back
        self._source, self._seconds, self._flows = source, seconds, flows
        self._farewell, self._failure = farewell, failure
        self._first: asyncio.Task[bytes | None] | None = None

    async def begin(self) -> None:
        """Wait for the first part for a moment. Raises whatever the source refuses with."""
        self._first = asyncio.create_task(self._next())
        try:
            done, _ = await asyncio.wait({self._first}, timeout=_PATIENCE)
            if done:
                self._first.result()
        except BaseException:
            await self._drop()
            raise

    async def _next(self) -> bytes | None:
        try:
            return await anext(self._source)
        except StopAsyncIteration:
            return None

    async def _drop(self) -> None:
        if self._first is not None and not self._first.done():
            self._first.cancel()
            with suppress(asyncio.CancelledError):
                await self._first
        await self._source.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. The caller's leaving is no error; a failing source is."""
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not sending.done():
                sending.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await self._drop()
        if not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": 200, "headers": list(self.raw_headers)}
        )
        rest = self._farewell
        limit = self._flows.scope(self._seconds)
        try:
            async with limit:
                self._flows.add(limit)
                await self._parts(send)
                rest = b""
        except Exception as error:
            if not (isinstance(error, TimeoutError) and limit.expired()):
                if self._failure is None:
                    raise
                rest = self._failure(error)
        finally:
            self._flows.discard(limit)
        await send(_part(rest, more=False))

    async def _parts(self, send: Send) -> None:
        if self._first is not None:
            part = await self._first
            if part is None:
                return
            await send(_part(part))
        async with aclosing(self._source) as parts:
            async for part in parts:
                await send(_part(part))


def _part(content: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": more}


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
