"""Watches that lose their connection or their place, and still tell everything once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import orjson
import pytest
from aiohttp import web
from jobs_fake_api import answer, condition, events, listed, mpijob, refuse, serving

from corral.client import Jobs, ListQuery
from corral.client.errors import BadRequest, Expired, Forbidden, NeverHappens, NotFound, WaitTimeout
from corral.client.watching import Change

Obj = dict[str, Any]
Step = Callable[[web.Request], Awaitable[web.StreamResponse]]


def job(version: int, phase: str = "", name: str = "pi") -> Obj:
    return mpijob(name, str(version), *([condition(phase)] if phase else []))


class Script:
    """Answers lists and watches in turn; the last watch stays open until the case is over."""

    def __init__(self, lists: list[Obj], watches: list[Step]) -> None:
        self.lists, self.watches = lists, watches
        self.versions: list[str] = []
        self.over = asyncio.Event()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return answer(self.lists.pop(0))
        self.versions.append(request.query.get("resourceVersion", ""))
        if self.watches:
            return await self.watches.pop(0)(request)
        response = web.StreamResponse()
        await response.prepare(request)
        await self.over.wait()
        return response


def telling(*lines: tuple[str, Obj]) -> Step:
    return lambda request: events(request, *lines)


def expired(request: web.Request) -> Awaitable[web.StreamResponse]:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    return events(request, ("ERROR", status))


def dropped(*lines: tuple[str, Obj]) -> Step:
    """Tells these and breaks off in the middle of a line."""

    async def step(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for kind, obj in lines:
            await response.write(orjson.dumps({"type": kind, "object": obj}) + b"\n")
        await response.write(b'{"type": "MOD')
        assert request.transport is not None
        request.transport.abort()
        return response

    return step


async def taken(changes: AsyncIterator[Change], count: int) -> list[tuple[str, str, str]]:
    out = []
    async with asyncio.timeout(30):
        for _ in range(count):
            change = await anext(changes)
            out.append((change.type, change.resource_version, change.phase))
    return out


async def run(script: Script, count: int, **how: Any) -> list[tuple[str, str, str]]:
    async with serving(script) as client:
        name = how.pop("name", "pi")
        async with aclosing(Jobs(client).watch("mpijobs", "ns", name, **how)) as changes:
            found = await taken(changes, count)
        script.over.set()
        return found


async def test_what_is_there_then_every_change() -> None:
    script = Script([listed("5", job(3))], [telling(("MODIFIED", job(6, "Running")))])
    assert await run(script, 2) == [("ADDED", "3", "Pending"), ("MODIFIED", "6", "Running")]
    assert script.versions[0] == "5"


async def test_a_dropped_watch_goes_on_where_it_was() -> None:
    script = Script(
        [listed("5", job(3))],
        [dropped(("MODIFIED", job(6, "Created"))), telling(("MODIFIED", job(7, "Running")))],
    )
    found = await run(script, 3)
    assert [version for _, version, _ in found] == ["3", "6", "7"]
    assert script.versions[:2] == ["5", "6"]


async def test_a_lost_place_loses_no_end() -> None:
    script = Script(
        [listed("5", job(3)), listed("90", job(80, "Succeeded"))],
        [telling(("MODIFIED", job(6, "Running"))), expired],
    )
    assert await run(script, 3) == [
        ("ADDED", "3", "Pending"),
        ("MODIFIED", "6", "Running"),
        ("MODIFIED", "80", "Succeeded"),
    ]


async def test_after_a_lost_place_nothing_is_told_twice() -> None:
    others = job(4, name="b")
    script = Script(
        [listed("5", job(3), others), listed("90", others, job(85, name="c"))], [expired]
    )
    found = await run(script, 4, name=None)
    assert found == [
        ("ADDED", "3", "Pending"),
        ("ADDED", "4", "Pending"),
        ("DELETED", "3", "Pending"),
        ("ADDED", "85", "Pending"),
    ]


async def test_a_deleted_object_ends_its_watch() -> None:
    script = Script([listed("5", job(3))], [telling(("DELETED", job(9)))])
    async with serving(script) as client, asyncio.timeout(30):
        found = [change.type async for change in Jobs(client).watch("mpijobs", "ns", "pi")]
    assert found == ["ADDED", "DELETED"]


async def test_going_on_from_a_version() -> None:
    script = Script([], [telling(("MODIFIED", job(6)), ("DELETED", job(7)))])
    assert await run(script, 2, since="5") == [
        ("MODIFIED", "6", "Pending"),
        ("DELETED", "7", "Pending"),
    ]
    assert script.versions == ["5"]
    with pytest.raises(Expired):
        await run(Script([], [expired]), 1, since="1")


@pytest.mark.parametrize("since", ["q-Jz", "-1", "1.5", " 7", "٣", str(1 << 64), "9" * 50])
async def test_what_is_no_version(since: str) -> None:
    with pytest.raises(BadRequest, match="not the version of a change"):
        await run(Script([], []), 1, since=since)


async def test_filters() -> None:
    script = Script(
        [listed("5", job(3), job(4, "Running", "b"))],
        [telling(("MODIFIED", job(6, "Running")), ("MODIFIED", job(7, "Failed", "b")))],
    )
    found = await run(script, 3, name=None, query=ListQuery(phase="Running"))
    assert found == [
        ("ADDED", "4", "Running"),
        ("ADDED", "6", "Running"),
        ("DELETED", "7", "Failed"),
    ]
    with pytest.raises(BadRequest):
        await run(Script([], []), 1, query=ListQuery(phase="Runing"))


async def test_refusals() -> None:
    async def forbidden(request: web.Request) -> web.Response:
        return refuse(403, "Forbidden", "no")

    with pytest.raises(Forbidden):
        await run(Script([listed("5", job(3))], [forbidden]), 2)
    with pytest.raises(NotFound):
        await run(Script([listed("5")], []), 1)


# --- waiting -------------------------------------------------------------------------------------


async def wait(script: Script, until: Any, seconds: float = 30) -> Obj:
    async with serving(script) as client:
        try:
            return await Jobs(client).wait("mpijobs", "ns", "pi", until, timeout=seconds)
        finally:
            script.over.set()


async def test_waiting_for_phases_and_conditions() -> None:
    def script() -> Script:
        return Script(
            [listed("5", job(3))],
            [telling(("MODIFIED", job(6, "Running")), ("MODIFIED", job(7, "Succeeded")))],
        )

    assert (await wait(script(), "running"))["metadata"]["resourceVersion"] == "6"
    assert (await wait(script(), ("Failed", "Succeeded")))["metadata"]["resourceVersion"] == "7"
    found = await wait(script(), lambda obj: obj["metadata"]["resourceVersion"] == "7")
    assert found["metadata"]["resourceVersion"] == "7"


async def test_waiting_in_vain() -> None:
    ended = Script([listed("5", job(3, "Failed"))], [])
    with pytest.raises(NeverHappens, match="is Failed and will not be Succeeded"):
        await wait(ended, "Succeeded")
    with pytest.raises(WaitTimeout, match=r"was not Running within 0\.2 s: "):
        await wait(Script([listed("5", job(3))], []), "Running", seconds=0.2)
    with pytest.raises(BadRequest, match="is ever in phase"):
        await wait(Script([], []), "Runing")
    gone = Script([listed("5", job(3))], [telling(("DELETED", job(6)))])
    with pytest.raises(NotFound, match="was deleted"):
        await wait(gone, "Succeeded")


async def test_waiting_for_the_end_of_an_object() -> None:
    gone = Script([listed("5", job(3, "Succeeded"))], [telling(("DELETED", job(6)))])
    assert (await wait(gone, "Deleted"))["metadata"]["resourceVersion"] == "6"
    assert await wait(Script([listed("5")], []), "Deleted") == {}
