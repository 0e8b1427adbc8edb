"""The ASGI application: what happens to every request before and after its view.

In this order: a request id, the limits, the token, the path, the query; then the view, within its
time; then metrics and the audit line. Every refusal is a problem with the request id in it. Answers
carry headers that keep browsers from guessing, framing or storing them.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from corral.gateway.audit import Entry
from corral.gateway.auth import Caller
from corral.gateway.problems import problem_of
from corral.gateway.rest.answers import Flow, Open, problem_answer
from corral.gateway.rest.asks import Ask, Where
from corral.gateway.rest.fanout import Fanout
from corral.gateway.rest.pages import Pages
from corral.gateway.rest.params import read_query
from corral.gateway.rest.paths import MethodNotAllowed, locate
from corral.gateway.rest.routes import Operation
from corral.gateway.warnings import as_header, collected

if TYPE_CHECKING:
    from corral.gateway.service import Gateway
    from corral.gateway.shared import Shared

__all__ = ["RestApp"]

logger = logging.getLogger(__name__)

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._\-]{1,64}")
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)


@dataclass(slots=True)
class _Course:
    """How a request went, for metrics and the audit line."""

    request_id: str
    started: float
    status: int = 0
    sent: int = 0
    """Bytes of the body."""
    caller: Caller | None = None
    operation: Operation | None = None
    where: Where | None = None
    whole: bool = True
    """Whether the answer was sent to its end."""


class RestApp:
    """The application of one gateway."""

    def __init__(
        self,
        gateway: Gateway,
        shared: Shared,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.flows = Open()
        self._gateway, self._shared, self._clock = gateway, shared, clock
        self._fanout = Fanout(gateway)
        self._pages = Pages(shared.reach, shared.metrics)

    async def close(self) -> None:
        """End what is open: watches and logs, and what feeds them."""
        self._pages.stopping = True
        self.flows.end_all()
        await self._fanout.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        course = _Course(_request_id(request), self._clock())

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                course.status = message["status"]
                mark = (b"x-request-id", course.request_id.encode())
                message["headers"] = [*message.get("headers", ()), *_HEADERS, mark]
            else:
                course.sent += len(message.get("body", b""))
            await send(message)

        page = self._pages.get(request)
        if page is not None:
            await (await page(request))(scope, receive, sending)
            return
        try:
            await self._serve(request, course, sending)
        finally:
            await self._finish(request, course)

    async def _serve(self, request: Request, course: _Course, send: Send) -> None:
        try:
            async with AsyncExitStack() as held:
                answer = await self._answer(request, course, held)
                await answer(request.scope, request.receive, send)
        except asyncio.CancelledError:
            course.whole = False
            raise
        except Exception as error:
            if course.status:  # too late for another answer: break it off
                course.whole = False
                logger.warning("%s broke off: %s", course.request_id, problem_of(error).detail)
                raise
            refusal = self._refusal(error, request, course)
            await refusal(request.scope, request.receive, send)

    def _refusal(self, error: Exception, request: Request, course: _Course) -> Response:
        problem = problem_of(error)
        if problem.kind == "internal":
            logger.exception("request %s failed", course.request_id, exc_info=error)
        answer = problem_answer(problem, instance=request.url.path, request_id=course.request_id)
        if isinstance(error, MethodNotAllowed):
            answer.headers["Allow"] = ", ".join(error.allowed)
        return answer

    async def _answer(self, request: Request, course: _Course, held: AsyncExitStack) -> Response:
        address = request.client.host if request.client else ""
        course.caller = await self._shared.admit(
            request.headers.get("authorization"), address=address, request_id=course.request_id
        )
        course.operation, course.where = locate(
            request.method, request.scope.get("raw_path") or request.url.path.encode()
        )
        query = read_query(request.scope["query_string"], course.operation.params)
        ask = Ask(
            request,
            course.where,
            query,
            course.caller,
            self._gateway,
            self._shared.limits,
            self.flows,
            self._fanout,
            self._shared.uploads,
        )
        if course.operation.streams:
            held.enter_context(self._shared.streams.one(course.caller.flow))
            answer = await course.operation.view(ask)
            if isinstance(answer, Flow):
                await answer.begin()
            return answer
        async with (
            asyncio.timeout(self._shared.limits.request_seconds),
            self._shared.places.one(course.caller.flow),
        ):
            with collected() as found:
                answer = await course.operation.view(ask)
        for warning in found:
            answer.headers.append("Warning", as_header(warning))
        return answer

    async def _finish(self, request: Request, course: _Course) -> None:
        seconds = self._clock() - course.started
        operation, where = course.operation, course.where
        verb = operation.verb if operation else request.method.lower()
        resource = where.kind.plural if where else ""
        self._shared.metrics.finished(
            verb, resource, course.status, seconds=seconds, sent=course.sent
        )
        self._shared.audit.record(
            Entry(
                request_id=course.request_id,
                protocol="rest",
                user=await self._shared.user(course.caller, course.status),
                address=request.client.host if request.client else "",
                verb=verb,
                resource=resource,
                namespace=(where.namespace or "") if where else "",
                name=where.name if where else "",
                code=course.status,
                result=_result(course),
                seconds=round(seconds, 6),
            )
        )


def _request_id(request: Request) -> str:
    given = request.headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def _result(course: _Course) -> str:
    if not course.whole:
        return "ended early"
    if course.status >= 500 or not course.status:
        return "failed"
    return "refused" if course.status >= 400 else "ok"
