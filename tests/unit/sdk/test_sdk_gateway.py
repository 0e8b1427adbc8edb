"""What the SDK asks of a gateway, and how it goes on when connections end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from aiohttp import web

from corral.client import errors
from corral.client.gateway.jobs import GatewayJobs
from corral.client.gateway.problems import error_of
from corral.client.gateway.serverevents import ServerEvent, server_events
from corral.client.kinds import kind_of
from corral.client.queries import ListQuery
from corral.sdk.errors import CannotShip, NoCluster
from corral.sdk.programs.shipping import INLINE_ONLY, ship

KIND = kind_of("trainingjobs")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Obj = dict[str, Any]


class Fake:
    """A gateway that answers what a case says."""

    def __init__(self) -> None:
        self.handlers: list[Handler] = []
        self.seen: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        self.bodies.append(await request.read())
        handler = self.handlers.pop(0) if len(self.handlers) > 1 else self.handlers[0]
        return await handler(request)

    def says(self, *handlers: Handler) -> None:
        """These one after the other; the last again and again."""
        self.handlers = list(handlers)


@pytest.fixture
async def fake() -> AsyncIterator[Fake]:
    server = Fake()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    yield server
    await runner.cleanup()


@pytest.fixture
async def access(fake: Fake) -> AsyncIterator[GatewayJobs]:
    found = GatewayJobs(fake.url, token="secret-token")
    yield found
    await found.close()


def gives(body: Any, status: int = 200) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(body=orjson.dumps(body), status=status)

    return handler


def streams(*parts: bytes, cut: bool = False) -> Handler:
    """An event stream that ends, or breaks off."""

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for part in parts:
            await answer.write(part)
        if cut:
            assert request.transport is not None
            request.transport.abort()
        return answer

    return handler


def event(type_: str, version: str, phase: str) -> bytes:
    obj = {"metadata": {"name": "x", "resourceVersion": version}, "status": {"phase": phase}}
    data = {"type": type_, "phase": phase, "object": obj}
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (
        version.encode(), type_.encode(), orjson.dumps(data),
    )  # fmt: skip


END = b"event: end\ndata: {}\n\n"


async def watched(access: GatewayJobs) -> list[tuple[str, str]]:
    async with asyncio.timeout(30), aclosing(access.watch(KIND, "n", "x")) as changes:
        return [(change.type, change.resource_version) async for change in changes]


async def test_a_watch_goes_on_where_it_ended(fake: Fake, access: GatewayJobs) -> None:
    fake.says(
        streams(
            b": hello\n\n", event("ADDED", "1", "Pending"), event("MODIFIED", "2", "Running"), END
        ),
        streams(
            event("MODIFIED", "3", "Running"), event("MODIFIED", "4", "Running")[:-9], cut=True
        ),
        streams(event("MODIFIED", "4", "Running"), END),
        gives({"type": "urn:corral:problem:unavailable", "status": 503}, 503),
        streams(event("MODIFIED", "5", "Succeeded"), event("DELETED", "6", "Succeeded")),
    )
    assert await watched(access) == [
        ("ADDED", "1"), ("MODIFIED", "2"), ("MODIFIED", "3"), ("MODIFIED", "4"),
        ("MODIFIED", "5"), ("DELETED", "6"),
    ]  # fmt: skip
    places = [request.headers.get("Last-Event-ID") for request in fake.seen]
    assert places == [None, "2", "3", "4", "4"]
    assert {request.headers["Authorization"] for request in fake.seen} == {"Bearer secret-token"}


async def test_a_place_that_is_no_longer_kept(fake: Fake, access: GatewayJobs) -> None:
    gone = {"type": "urn:corral:problem:gone", "status": 410, "detail": "too old"}
    fake.says(
        streams(event("ADDED", "1", "Pending"), END),
        gives(gone, 410),
        streams(event("ADDED", "7", "Running"), b"event: error\ndata: %b\n\n" % orjson.dumps(gone)),
        streams(event("ADDED", "8", "Running"), event("DELETED", "9", "Running")),
    )
    assert await watched(access) == [
        ("ADDED", "1"), ("ADDED", "7"), ("ADDED", "8"), ("DELETED", "9"),
    ]  # fmt: skip
    assert [r.headers.get("Last-Event-ID") for r in fake.seen] == [None, "1", None, None]


async def test_a_watch_that_is_refused(fake: Fake, access: GatewayJobs) -> None:
    fake.says(gives({"type": "urn:corral:problem:not-found", "detail": "no x"}, 404))
    with pytest.raises(errors.NotFound, match="no x"):
        await watched(access)


async def test_a_create_whose_answer_was_lost_is_repeated(fake: Fake, access: GatewayJobs) -> None:
    async def lost(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    fake.says(lost, gives({"metadata": {"name": "x"}}, 201))
    assert await access.create(KIND, "n", {"spec": {}}) == {"metadata": {"name": "x"}}
    first, second = fake.seen
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert fake.bodies[0] == fake.bodies[1] == b'{"spec":{}}'
    assert first.path == "/api/v1/namespaces/n/trainingjobs"


async def test_lists_say_what_is_wanted(fake: Fake, access: GatewayJobs) -> None:
    fake.says(gives({"metadata": {"continue": "t2", "total": 5}, "items": [{"a": 1}]}))
    query = ListQuery("a=b", ("Running", "Failed"), "x*", datetime(2026, 1, 1, tzinfo=UTC),
                      "-created", 1, "t1")  # fmt: skip
    page = await access.list(KIND, None, query)
    assert (page.items, page.token, page.total) == ([{"a": 1}], "t2", 5)
    assert fake.seen[0].path == "/api/v1/trainingjobs"
    assert dict(fake.seen[0].query) == {
        "labelSelector": "a=b", "phase": "Running,Failed", "name": "x*",
        "since": "2026-01-01T00:00:00+00:00", "sort": "-created", "limit": "1", "token": "t1",
    }  # fmt: skip


async def test_nobody_there() -> None:
    access = GatewayJobs("http://127.0.0.1:1", token="secret-token")
    with pytest.raises(NoCluster, match="gave no answer") as caught:
        await access.get(KIND, "n", "x")
    assert "secret-token" not in str(caught.value) + repr(access.__dict__["_url"])
    await access.close()


async def test_something_else_there(fake: Fake, access: GatewayJobs) -> None:
    fake.says(gives(["a proxy's page"]))
    with pytest.raises(errors.ServerError, match="is it one"):
        await access.get(KIND, "n", "x")


def test_urls_that_are_none() -> None:
    with pytest.raises(NoCluster, match="no http"):
        GatewayJobs("gateway.example.test", token="x")
    with pytest.raises(NoCluster, match="authority"):
        GatewayJobs("https://gateway.example.test", token="x", ca_file="/nowhere/ca.crt")


async def test_code_travels_in_the_job(access: GatewayJobs) -> None:
    shipped = await ship(None, "n", "x", b"archive")
    assert shipped.way == "inline"
    with pytest.raises(CannotShip):
        await ship(None, "n", "x", b"x" * (INLINE_ONLY + 1))


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (400, "bad-request", errors.BadRequest),
        (401, "unauthenticated", errors.Unauthorized),
        (403, "forbidden", errors.Forbidden),
        (403, "quota-exceeded", errors.QuotaExceeded),
        (404, "not-found", errors.NotFound),
        (404, "not-installed", errors.NotInstalled),
        (405, "not-supported", errors.NotSupported),
        (409, "conflict", errors.Conflict),
        (409, "already-exists", errors.AlreadyExists),
        (409, "restart-incomplete", errors.RestartIncomplete),
        (410, "gone", errors.Expired),
        (412, "precondition-failed", errors.PreconditionFailed),
        (413, "too-large", errors.TooLarge),
        (422, "invalid", errors.Invalid),
        (429, "too-many-requests", errors.TooManyRequests),
        (503, "unavailable", errors.Unavailable),
        (504, "timeout", errors.Unavailable),
        (500, "internal", errors.ServerError),
        (502, "bad-upstream", errors.Unavailable),
        (403, "", errors.Forbidden),
        (418, "", errors.ServerError),
    ],
)
def test_problems(status: int, kind: str, expected: type[errors.JobError]) -> None:
    problem = {
        "type": f"urn:corral:problem:{kind}", "status": status, "detail": "words",
        "hint": "do this", "errors": [{"field": "spec.a", "detail": "wrong"}], "retryAfter": 3,
        "manifest": {"a": 1},
    }  # fmt: skip
    found = error_of(status, problem)
    assert type(found) is expected
    assert (found.message, found.hint) == ("words", "do this")
    if expected is errors.Invalid:
        assert [(p.field, p.message) for p in found.fields] == [("spec.a", "wrong")]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (404, errors.NotFound),
        (403, errors.Forbidden),
        (502, errors.Unavailable),
        (504, errors.Unavailable),
        (500, errors.ServerError),
    ],
)
def test_answers_of_proxies(status: int, expected: type[errors.JobError]) -> None:
    for body in (None, [], {"type": 1}):
        assert type(error_of(status, body)) is expected


async def test_events_in_any_pieces() -> None:
    text = b"event: a\ndata: 1\ndata: 2\nid: 7\n\n: comment\n\ndata:x\n\nevent: cut\ndata: 3\n"

    async def pieces(size: int) -> AsyncIterator[bytes]:
        for start in range(0, len(text), size):
            yield text[start : start + size]

    expected = [ServerEvent("a", "1\n2", "7"), ServerEvent("message", "x")]
    for size in range(1, len(text) + 1):
        assert [found async for found in server_events(pieces(size))] == expected
