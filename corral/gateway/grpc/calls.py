"""What happens to every call before and after its method, as REST does it for its requests.

In this order: a request id, the token, the rate, a place, the message; then the method, within its
time and the caller's deadline; then metrics and the audit line. Limits are the same objects that
REST has: whoever has used up a rate there has used it up here. A call that is cancelled, or whose
caller has gone, is cancelled inside too, down to the requests to the Kubernetes API. A message of
a stream is made when the one before it was taken by the transport, never earlier.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.descriptor import MethodDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

from corral.client import JobKind, kind_of
from corral.gateway.audit import Entry
from corral.gateway.auth import Caller
from corral.gateway.grpc.failures import DETAILS, code_of, details_of, readable
from corral.gateway.grpc.objects import Face
from corral.gateway.grpc.operations import STREAMS, UNARIES, Call
from corral.gateway.problems import Problem, Refused, problem_of
from corral.gateway.rest.answers import Open
from corral.gateway.service import Gateway
from corral.gateway.shared import Shared
from corral.gateway.warnings import as_header, collected

__all__ = ["Calls", "Method", "Shared"]

logger = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._\-]{1,64}")


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service."""

    face: Face
    descriptor: MethodDescriptor
    generic: str
    """Its name in JobService."""

    @property
    def path(self) -> str:
        return f"/{self.face.service.full_name}/{self.descriptor.name}"


@dataclass(slots=True)
class _Course:
    """How a call went, for metrics and the audit line."""

    verb: str
    method: str
    """Its path, as the caller wrote it."""
    request_id: str
    address: str
    started: float
    caller: Caller | None = None
    kind: JobKind | None = None
    namespace: str = ""
    name: str = ""
    status: int = 0
    """As REST would have answered."""
    sent: int = 0
    """Bytes of messages."""
    whole: bool = True


class Calls:
    """The calls of one server."""

    def __init__(
        self, gateway: Gateway, shared: Shared, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.flows = Open()
        """Streams that are open, so that they can be ended together."""
        self._gateway, self._shared, self._clock = gateway, shared, clock
        self._finishing: set[asyncio.Task[None]] = set()

    def handler(self, method: Method) -> Any:
        """What grpc calls for a method."""
        if method.generic in STREAMS:

            async def stream(content: bytes, context: Context) -> None:
                await self._stream(method, content, context)

            return grpc.unary_stream_rpc_method_handler(stream)

        async def unary(content: bytes, context: Context) -> bytes:
            return await self._unary(method, content, context)

        return grpc.unary_unary_rpc_method_handler(unary)

    async def finished(self) -> None:
        """Until the audit line of every call is written."""
        while self._finishing:
            await asyncio.wait(self._finishing)

    async def _unary(self, method: Method, content: bytes, context: Context) -> bytes:
        verb, operation = UNARIES[method.generic]
        course = self._course(verb, method, context)
        limits = self._shared.limits
        try:
            async with asyncio.timeout(_within(limits.request_seconds, context)):
                caller = await self._admit(course, context)
                async with self._shared.places.one(caller.flow):
                    call = self._call(course, method, content)
                    with collected() as found:
                        answer: bytes = (await operation(call)).SerializeToString()
            warnings = [("warning", as_header(warning)) for warning in found]
            context.set_trailing_metadata((("x-request-id", course.request_id), *warnings))
            course.status, course.sent = 200, len(answer)
            return answer
        except asyncio.CancelledError:
            course.whole = False
            raise
        except Exception as error:
            problem = self._problem(error, course)
        finally:
            self._finish(course)
        await self._refuse(problem, course, context)

    async def _stream(self, method: Method, content: bytes, context: Context) -> None:
        verb, operation = STREAMS[method.generic]
        course = self._course(verb, method, context)
        try:
            async with AsyncExitStack() as held:
                caller = await self._admit(course, context)
                held.enter_context(self._shared.streams.one(caller.flow))
                await held.enter_async_context(self._time(verb, context))
                call = self._call(course, method, content)
                answers = await held.enter_async_context(aclosing(operation(call)))
                async for answer in answers:
                    message = answer.SerializeToString()
                    await context.write(message)
                    course.sent += len(message)
            course.status = 200
            return
        except asyncio.CancelledError:
            course.whole = False
            raise
        except Exception as error:
            problem = self._problem(error, course)
            course.whole = not course.sent
        finally:
            self._finish(course)
        await self._refuse(problem, course, context)

    def _time(self, verb: str, context: Context) -> _StreamTime:
        limits = self._shared.limits
        seconds = limits.log_seconds if verb == "logs" else limits.watch_seconds
        return _StreamTime(self.flows, seconds, left=context.time_remaining())

    # --- before --------------------------------------------------------------------------------

    def _course(self, verb: str, method: Method, context: Context) -> _Course:
        given = _metadata(context, "x-request-id")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        address = _address(context.peer())
        return _Course(verb, method.path, request_id, address, self._clock())

    async def _admit(self, course: _Course, context: Context) -> Caller:
        """Who calls, and whether they may call again already."""
        context.set_trailing_metadata((("x-request-id", course.request_id),))
        course.caller = await self._shared.admit(
            _metadata(context, "authorization"),
            address=course.address,
            request_id=course.request_id,
        )
        return course.caller

    def _call(self, course: _Course, method: Method, content: bytes) -> Call:
        asked, answer = method.descriptor.input_type, method.descriptor.output_type
        try:
            request = GetMessageClass(asked).FromString(content)
        except DecodeError as error:
            raise Refused("bad-request", f"the message is no {asked.full_name}") from error
        course.namespace = getattr(request, "namespace", "")
        course.name = getattr(request, "name", "")
        course.kind = method.face.kind or kind_of(request.kind)
        assert course.caller is not None
        return Call(
            self._gateway, course.caller, method.face, course.kind, request, GetMessageClass(answer)
        )

    # --- after ---------------------------------------------------------------------------------

    def _problem(self, error: Exception, course: _Course) -> Problem:
        problem = problem_of(error)
        course.status = problem.status
        if problem.kind == "internal":
            logger.exception("call %s failed", course.request_id, exc_info=error)
        return problem

    async def _refuse(self, problem: Problem, course: _Course, context: Context) -> NoReturn:
        details = details_of(problem, instance=course.method, request_id=course.request_id)
        trailer = (("x-request-id", course.request_id), (DETAILS, details))
        await context.abort(code_of(problem), readable(problem), trailer)

    def _finish(self, course: _Course) -> None:
        """Count the call; its audit line must not make the caller wait."""
        seconds = self._clock() - course.started
        resource = course.kind.plural if course.kind else ""
        self._shared.metrics.finished(
            course.verb, resource, course.status, seconds=seconds, sent=course.sent
        )
        task = asyncio.create_task(self._record(course, resource, seconds))
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    async def _record(self, course: _Course, resource: str, seconds: float) -> None:
        user = await self._shared.user(course.caller, course.status)
        self._shared.audit.record(
            Entry(
                request_id=course.request_id,
                protocol="grpc",
                user=user,
                address=course.address,
                verb=course.verb,
                resource=resource,
                namespace=course.namespace[:253],
                name=course.name[:253],
                code=course.status,
                result=_result(course),
                seconds=round(seconds, 6),
            )
        )


class _StreamTime:
    """How long a stream may last; what ends it tells the caller to go on where it ended."""

    def __init__(self, flows: Open, seconds: float, *, left: float | None) -> None:
        """``left`` is what the caller's own deadline leaves."""
        self._flows = flows
        self._deadline = math.inf if left is None else asyncio.get_running_loop().time() + left
        self._limit = flows.scope(seconds if left is None else max(0.0, min(seconds, left)))

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()
        self._flows.add(self._limit)

    async def __aexit__(self, *raised: Any) -> None:
        self._flows.discard(self._limit)
        try:
            await self._limit.__aexit__(*raised)
        except TimeoutError as error:
            if asyncio.get_running_loop().time() >= self._deadline:
                raise Refused("timeout", "the deadline of the call is over") from error
            detail = "the time of this stream is over: go on where it ended"
            raise Refused("unavailable", detail) from error


def _within(seconds: float, context: Context) -> float:
    """The time of a call: ours, or the caller's where that is less."""
    left = context.time_remaining()
    return seconds if left is None else max(0.0, min(seconds, left))


def _metadata(context: Context, name: str) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == name:
            return str(value) if isinstance(value, str) else ""
    return ""


def _address(peer: str) -> str:
    """``ipv4:10.0.0.1:4711`` → ``10.0.0.1``."""
    scheme, _, rest = peer.partition(":")
    if scheme not in ("ipv4", "ipv6"):
        return peer
    return rest.rpartition(":")[0].replace("%5B", "[").replace("%5D", "]").strip("[]")


def _result(course: _Course) -> str:
    if not course.whole:
        return "ended early"
    if course.status >= 500 or not course.status:
        return "failed"
    return "refused" if course.status >= 400 else "ok"
