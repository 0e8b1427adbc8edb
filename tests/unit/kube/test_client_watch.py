from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import orjson
import pytest
from aiohttp import web
from kube_fake_api import FakeApi, refuse

from corral.kube import (
    IdleTimeout,
    KubeConnectionError,
    ResumingWatch,
    WatchEvent,
    WatchRequest,
    errors,
    is_initial_events_end,
)
from corral.kube.resources import PODS

Serve = Callable[..., Awaitable[FakeApi]]


def event(kind: str, version: int, **metadata: Any) -> bytes:
    obj = {"metadata": {"name": "p", "resourceVersion": str(version), **metadata}}
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


INITIAL_END = event("BOOKMARK", 9, annotations={"k8s.io/initial-events-end": "true"})


def error_event(code: int, reason: str) -> bytes:
    status = {"kind": "Status", "code": code, "reason": reason, "message": "no"}
    return orjson.dumps({"type": "ERROR", "object": status}) + b"\n"


class Watches:
    """Answers the n-th watch with the n-th script: pieces of bytes, ``"drop"``, or a response."""

    def __init__(self, *scripts: Any) -> None:
        self.scripts = list(scripts)
        self.queries: list[dict[str, str]] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.queries.append(dict(request.query))
        script = self.scripts.pop(0)
        if isinstance(script, web.Response):
            return script
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in script:
            if piece == "drop":
                assert request.transport is not None
                request.transport.abort()
                return response
            if piece == "hang":
                await asyncio.Event().wait()
            await response.write(piece)
        return response


async def collect(events: AsyncIterator[WatchEvent]) -> list[tuple[str, str]]:
    return [(e.type, e.object["metadata"]["resourceVersion"]) async for e in events]


async def test_query_of_a_watch(serve: Serve) -> None:
    watches = Watches([], [])
    api = await serve(watches)
    client = api.client()
    await collect(client.watch(PODS))
    await collect(
        client.watch(
            PODS,
            "n",
            resource_version="5",
            label_selector="a=b",
            field_selector="c=d",
            bookmarks=False,
            timeout_seconds=30,
            send_initial_events=True,
        )
    )
    assert [s.path for s in api.seen] == ["/api/v1/pods", "/api/v1/namespaces/n/pods"]
    assert watches.queries == [
        {"watch": "true", "allowWatchBookmarks": "true"},
        {
            "watch": "true",
            "resourceVersion": "5",
            "labelSelector": "a=b",
            "fieldSelector": "c=d",
            "timeoutSeconds": "30",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
        },
    ]


STREAM = event("ADDED", 1) + event("MODIFIED", 2, blob="x" * 5000) + b"\n" + event("BOOKMARK", 3)
SPLITS: dict[str, list[bytes]] = {
    "one piece": [STREAM],
    "bytes": [STREAM[i : i + 1] for i in range(200)] + [STREAM[200:]],
    "odd pieces": [STREAM[i : i + 777] for i in range(0, len(STREAM), 777)],
    "between line and end": [event("ADDED", 1)[:-1], b"\n" + STREAM[len(event("ADDED", 1)) :]],
}


@pytest.mark.parametrize("case", SPLITS)
async def test_events_do_not_depend_on_pieces(serve: Serve, case: str) -> None:
    api = await serve(Watches(SPLITS[case]))
    got = await collect(api.client().watch(PODS))
    assert got == [("ADDED", "1"), ("MODIFIED", "2"), ("BOOKMARK", "3")]


async def test_big_objects_and_many_events(serve: Serve) -> None:
    big = event("ADDED", 1, blob="y" * 3_000_000)
    many = b"".join(event("MODIFIED", n) for n in range(2, 5002))
    api = await serve(Watches([big, many]))
    got = await collect(api.client().watch(PODS))
    assert [version for _, version in got] == [str(n) for n in range(1, 5002)]


async def test_error_event_is_typed(serve: Serve) -> None:
    api = await serve(
        Watches([event("ADDED", 1), error_event(410, "Expired")], [error_event(500, "")])
    )
    client = api.client()
    events = client.watch(PODS)
    assert (await anext(events)).type == "ADDED"
    with pytest.raises(errors.Gone):
        await anext(events)
    with pytest.raises(errors.InternalError):
        await collect(client.watch(PODS))


async def test_refused_watch_is_typed(serve: Serve) -> None:
    api = await serve(Watches(refuse(403, "Forbidden")))
    with pytest.raises(errors.Forbidden):
        await collect(api.client().watch(PODS))


async def test_lost_and_garbled_watches(serve: Serve) -> None:
    api = await serve(Watches([event("ADDED", 1), "drop"], [b"<html>\n"], [b'{"type": 1}\n']))
    client = api.client()
    for _ in range(3):
        with pytest.raises(KubeConnectionError):
            await collect(client.watch(PODS))


async def test_idle_watch_is_dropped(serve: Serve) -> None:
    api = await serve(Watches([event("ADDED", 1), "hang"]))
    with pytest.raises(IdleTimeout):
        await collect(api.client().watch(PODS, idle_timeout=0.05))


async def test_leaving_early_closes_the_connection(serve: Serve) -> None:
    api = await serve(Watches([event("ADDED", 1), "hang"]))
    client = api.client()
    async with aclosing(client.watch(PODS)) as events:
        async for _ in events:
            break
    session = client.transport._stream_session
    assert session is not None and session.connector is not None
    assert not session.connector._acquired


def test_initial_events_end() -> None:
    def parse(line: bytes) -> WatchEvent:
        raw = orjson.loads(line)
        return WatchEvent(raw["type"], raw["object"])

    assert is_initial_events_end(parse(INITIAL_END))
    assert not is_initial_events_end(parse(event("BOOKMARK", 1)))
    annotated = event("ADDED", 1, annotations={"k8s.io/initial-events-end": "true"})
    assert not is_initial_events_end(parse(annotated))


# --- resuming ------------------------------------------------------------------------------------


class Resuming:
    """A resuming watch with a clock and waits of its own."""

    def __init__(self, api: FakeApi, **request: Any) -> None:
        self.waits: list[float] = []
        self.now = 0.0
        self.watch = ResumingWatch(
            api.client().transport,
            WatchRequest(PODS, **request),
            rng=lambda: 0.5,
            clock=lambda: self.now,
            sleep=self._sleep,
        )

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    async def take(self, count: int) -> list[tuple[str, str]]:
        out: list[tuple[str, str]] = []
        async with aclosing(self.watch.events()) as events:
            async for e in events:
                out.append((e.type, e.object["metadata"]["resourceVersion"]))
                if len(out) == count:
                    return out
        return out


async def test_resumes_after_events_and_bookmarks(serve: Serve) -> None:
    watches = Watches(
        [event("ADDED", 11)],
        [event("BOOKMARK", 40)],
        [event("DELETED", 41), "drop"],
        [event("ADDED", 42)],
    )
    resuming = Resuming(await serve(watches), resource_version="10", label_selector="a")
    got = await resuming.take(4)
    assert got == [("ADDED", "11"), ("BOOKMARK", "40"), ("DELETED", "41"), ("ADDED", "42")]
    assert [q["resourceVersion"] for q in watches.queries] == ["10", "11", "40", "41"]
    assert {q["labelSelector"] for q in watches.queries} == {"a"}
    assert {q["timeoutSeconds"] for q in watches.queries} == {"450"}
    assert resuming.watch.resource_version == "42"
    assert resuming.waits == [pytest.approx(1.2)], "only the lost connection waits"


async def test_refusals_that_pass_are_waited_for(serve: Serve) -> None:
    watches = Watches(
        refuse(429, "TooManyRequests"),
        refuse(503, "ServiceUnavailable"),
        [],
        [event("ADDED", 11)],
    )
    resuming = Resuming(await serve(watches), resource_version="10")
    assert await resuming.take(1) == [("ADDED", "11")]
    assert resuming.waits == [pytest.approx(w) for w in (1.2, 2.4, 4.8)]
    assert {q["resourceVersion"] for q in watches.queries} == {"10"}


async def test_waits_are_capped(serve: Serve) -> None:
    watches = Watches(*[[] for _ in range(10)], [event("ADDED", 11)])
    resuming = Resuming(await serve(watches), resource_version="10")
    await resuming.take(1)
    assert max(resuming.waits) == 45.0 and resuming.waits[-1] == 45.0


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ([error_event(410, "Expired")], errors.Gone),
        (refuse(410, "Gone"), errors.Gone),
        (refuse(403, "Forbidden"), errors.Forbidden),
        ([error_event(500, "InternalError")], errors.InternalError),
    ],
    ids=["expired event", "gone", "forbidden", "internal error"],
)
async def test_what_the_caller_must_handle(
    serve: Serve, script: Any, error: type[Exception]
) -> None:
    resuming = Resuming(await serve(Watches(script)), resource_version="10")
    with pytest.raises(error):
        await resuming.take(1)


@pytest.mark.parametrize("script", [[event("ADDED", 11)], [event("ADDED", 11), "drop"]])
async def test_start_without_a_version_does_not_resume_from_initial_events(
    serve: Serve, script: Any
) -> None:
    resuming = Resuming(await serve(Watches(script)), resource_version="0")
    with pytest.raises(KubeConnectionError):
        await resuming.take(2)
    assert resuming.watch.resource_version == "0"


async def test_initial_events_are_asked_for_once(serve: Serve) -> None:
    watches = Watches([event("ADDED", 7), INITIAL_END], [event("ADDED", 12)])
    resuming = Resuming(await serve(watches), send_initial_events=True)
    assert await resuming.take(3) == [("ADDED", "7"), ("BOOKMARK", "9"), ("ADDED", "12")]
    assert watches.queries[0]["sendInitialEvents"] == "true"
    assert "resourceVersion" not in watches.queries[0]
    assert "sendInitialEvents" not in watches.queries[1]
    assert watches.queries[1]["resourceVersion"] == "9"


async def test_idle_watch_is_resumed(serve: Serve) -> None:
    watches = Watches([event("BOOKMARK", 11), "hang"], [event("ADDED", 12)])
    resuming = Resuming(await serve(watches), resource_version="10", idle_timeout=0.05)
    assert await resuming.take(2) == [("BOOKMARK", "11"), ("ADDED", "12")]
    assert resuming.watch.connections == 2
