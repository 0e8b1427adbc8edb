"""Answers that go on: watches as Server-Sent Events, and logs as bytes.

A watch that is ended by its time or by the gateway says so with an ``end`` event; one that the API
server ends with a refusal has an ``error`` event with the problem. Either way ``Last-Event-ID``
goes on where it was. Logs are passed through as they come from `corral.client.logs`; with frames
(`corral.client.logs.frames`) they carry the place to go on from.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import orjson
from starlette.responses import Response

from corral.client.logs.frames import MEDIA_TYPE, MORE, frame
from corral.client.logs.query import LogChunk, LogQuery
from corral.client.queries import ListQuery
from corral.client.watching import is_version
from corral.gateway.problems import Refused, problem_of
from corral.gateway.rest.answers import Flow
from corral.gateway.rest.asks import Ask
from corral.gateway.rest.fanout import WatchTarget
from corral.gateway.rest.params import Param, boolean, choice, number, text, timestamp
from corral.gateway.rest.views import FILTER_PARAMS, list_query

__all__ = ["LOG_PARAMS", "ONE_LOG_PARAMS", "WATCH_ALL_PARAMS", "WATCH_PARAMS", "logs", "watch"]

_WHAT: Final = choice(
    "view", "Whole objects, or only what a list of phases needs.", ("object", "phase"),
    default="object",
)  # fmt: skip
WATCH_PARAMS: Final[tuple[Param, ...]] = (_WHAT,)
WATCH_ALL_PARAMS: Final[tuple[Param, ...]] = (*FILTER_PARAMS, _WHAT)
ONE_LOG_PARAMS: Final[tuple[Param, ...]] = (
    boolean("follow", "Go on with what is written from now on, until the job is over."),
    number("tailLines", "Only the last lines of each container.", least=0, most=10_000_000),
    timestamp("sinceTime", "Only what was written from that time on."),
    boolean("timestamps", "Begin each line with its time."),
    text("container", "Of this container only.", longest=253),
    boolean("previous", "Of the run before the last restart."),
    text("position", "Go on after a piece of a framed log.", longest=60_000),
)
LOG_PARAMS: Final[tuple[Param, ...]] = (
    *ONE_LOG_PARAMS,
    text("role", "Of pods with this role only, such as `worker`.", longest=64),
    number("index", "Of the pod with this index in its role only.", least=0, most=999_999),
)
_END: Final = b"event: end\ndata: {}\n\n"


async def watch(ask: Ask) -> Response:
    since = ask.header("Last-Event-ID")
    if since and not is_version(since):
        detail = "must be the id of an event"
        raise Refused("bad-request", f"Last-Event-ID {detail}", errors=(("Last-Event-ID", detail),))
    query = list_query(ask.query) if not ask.name else ListQuery()
    target = WatchTarget(
        ask.kind,
        ask.where.namespace,
        ask.name or None,
        query,
        full=ask.query["view"] == "object",
    )
    return Flow(
        _told(ask.fanout.events(ask.caller, target, since=since)),
        media_type="text/event-stream",
        seconds=ask.limits.watch_seconds,
        flows=ask.flows,
        farewell=_END,
        failure=_refusal,
    )


async def _told(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        async for event in events:
            yield event
    yield _END


def _refusal(error: Exception) -> bytes:
    """A refusal in the middle of events is an event too."""
    return b"event: error\ndata: %b\n\n" % orjson.dumps(problem_of(error).as_object())


async def logs(ask: Ask) -> Response:
    framed = _framed(ask.header("accept"))
    chunks = ask.gateway.logs(ask.caller, ask.kind, **ask.one, query=_log_query(ask))
    return Flow(
        _frames(chunks) if framed else _bytes(chunks),
        media_type=MEDIA_TYPE if framed else "text/plain",
        seconds=ask.limits.log_seconds,
        flows=ask.flows,
        farewell=MORE if framed else b"",
    )


def _framed(accept: str) -> bool:
    wanted = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    if MEDIA_TYPE in wanted:
        return True
    if not accept or any(word in ("*/*", "text/*", "text/plain") for word in wanted):
        return False
    raise Refused("not-acceptable", f"logs are text/plain or {MEDIA_TYPE}")


def _log_query(ask: Ask) -> LogQuery:
    """Of the query, and of the path where that names the launcher or a worker."""
    if ask.where.index is not None:
        return LogQuery.of_params({**ask.query, "role": "worker", "index": ask.where.index})
    role = {"role": "launcher"} if ask.request.url.path.endswith("/logs/launcher") else {}
    return LogQuery.of_params({**ask.query, **role})


async def _bytes(chunks: AsyncGenerator[LogChunk, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(chunks):
        async for chunk in chunks:
            yield chunk.data


async def _frames(chunks: AsyncGenerator[LogChunk, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(chunks):
        async for chunk in chunks:
            yield frame(chunk)
