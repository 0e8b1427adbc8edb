from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import orjson
import pytest
from aiohttp import web
from runtime_fakes import (
    SCOPE,
    FakeCluster,
    fake_cluster,
    now,
    obj,
    refusal,
    status,
    until,
    virtual,
)

from corral.kube.types import Obj
from corral.runtime import Change, Informer, ReflectorSettings, Store


class Story:
    """What an informer told, one short line a change."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.changes: list[Change] = []

    def __call__(self, change: Change) -> None:
        self.changes.append(change)
        flags = "initial" * change.is_initial + "unknown" * change.final_state_unknown
        self.lines.append(f"{change.type} {change.key} {flags}".strip())


class Setup:
    def __init__(self, cluster: FakeCluster, informer: Informer, story: Story) -> None:
        self.cluster, self.informer, self.story = cluster, informer, story

    async def heard(self, *lines: str) -> None:
        """All that was told since the last time."""
        await until(lambda: len(self.story.lines) >= len(lines))
        assert self.story.lines == list(lines)
        self.story.lines.clear()


@asynccontextmanager
async def informing(*names: str, sync: bool = True, **options: Any) -> AsyncIterator[Setup]:
    async with fake_cluster() as (cluster, client):
        for name in names:
            cluster.put(obj(name, data={"n": "1"}))
        story = Story()
        informer = Informer(client, SCOPE, clock=now, rng=lambda: 0.0, **options)
        informer.add_handler(story)
        running = asyncio.create_task(informer.run())
        try:
            if sync:
                await informer.wait_synced()
                await until(lambda: cluster.watchers)
            yield Setup(cluster, informer, story)
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.wait({running})


def state(store: Store) -> dict[str, Obj]:
    return {value["metadata"]["name"]: value.get("data", {}) for value in store}


@virtual
async def test_lists_then_follows() -> None:
    async with informing("a", "b") as s:
        await s.heard("added ns/a initial", "added ns/b initial")
        s.cluster.put(obj("a", data={"n": "2"}))
        s.cluster.put(obj("c"))
        s.cluster.remove("b")
        await s.heard("updated ns/a", "added ns/c", "deleted ns/b")
        update, _, delete = s.story.changes[2:]
        assert update.old and update.new
        assert (update.old["data"], update.new["data"]) == ({"n": "1"}, {"n": "2"})
        assert delete.old and delete.old["metadata"]["resourceVersion"] == str(s.cluster.version)
        assert state(s.informer.store) == {"a": {"n": "2"}, "c": {}}
        assert s.informer.version == str(s.cluster.version)
        first, watch = s.cluster.queries(watch=False)[0], s.cluster.queries(watch=True)[0]
        assert first == {"resourceVersion": "0", "limit": "500"}
        assert watch["resourceVersion"] == "12" and watch["allowWatchBookmarks"] == "true"
        assert 300 <= int(watch["timeoutSeconds"]) <= 600


@virtual
async def test_bookmarks_move_the_version_and_the_age() -> None:
    async with informing("a") as s:
        await asyncio.sleep(50)
        assert s.informer.age() == pytest.approx(50, abs=1)
        s.cluster.bookmark()
        await until(lambda: s.informer.version == str(s.cluster.version))
        assert s.informer.age() < 1


@virtual
async def test_a_closed_watch_resumes_without_a_list() -> None:
    async with informing("a") as s:
        s.cluster.put(obj("b"))
        await s.heard("added ns/a initial", "added ns/b")
        s.cluster.drop_watches()
        await until(lambda: not s.cluster.watchers)
        s.cluster.put(obj("c"))
        s.cluster.remove("a")
        await s.heard("added ns/c", "deleted ns/a")
        assert s.informer.lists == 1
        assert s.cluster.queries(watch=True)[1]["resourceVersion"] == "12"


@virtual
async def test_what_happened_in_a_gap_is_worked_out() -> None:
    async with informing("changed", "gone", "made-again", "same") as s:
        s.story.lines.clear()
        s.cluster.drop_watches()
        await until(lambda: not s.cluster.watchers)
        s.cluster.put(obj("changed", data={"n": "2"}))
        s.cluster.remove("gone")
        s.cluster.remove("made-again")
        s.cluster.put(obj("made-again", uid="another"))
        s.cluster.put(obj("new"))
        s.cluster.forget_history()
        await s.heard(
            "updated ns/changed", "deleted ns/made-again unknown", "added ns/made-again",
            "added ns/new", "deleted ns/gone unknown",
        )  # fmt: skip
        last = s.story.changes[-1]
        assert last.old and last.old["data"] == {"n": "1"} and last.new is None
        assert sorted(state(s.informer.store)) == ["changed", "made-again", "new", "same"]
        assert s.informer.lists == 2
        # Not older than what was seen, and whole, so that a watch cache can answer.
        assert s.cluster.queries(watch=False)[1] == {"resourceVersion": "14"}


@virtual
async def test_an_error_event_of_410_lists_again() -> None:
    async with informing("a") as s:
        s.cluster.fail_watches(status(410, "Expired"))
        await until(lambda: s.informer.lists == 2)
        s.cluster.put(obj("b"))
        await s.heard("added ns/a initial", "added ns/b")


LOST_VERSIONS = {
    "old": status(410, "Expired"),
    "too large": status(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge"}]),
    "too large without cause": {
        **status(504, "Timeout"),
        "message": "Too large resource version: 9, current: 1",
    },
}


@pytest.mark.parametrize("answer", LOST_VERSIONS.values(), ids=LOST_VERSIONS)
def test_a_version_the_server_does_not_have_is_given_up(answer: Obj) -> None:
    @virtual
    async def test() -> None:
        async with informing("a") as s:

            async def refuse(request: web.Request) -> web.StreamResponse | None:
                if "watch" in request.query or "resourceVersion" not in request.query:
                    return None
                return web.json_response(answer, status=answer["code"])

            s.cluster.intercept = refuse
            s.cluster.fail_watches(status(410, "Expired"))
            await until(lambda: s.informer.lists == 2)
            assert s.cluster.queries(watch=False)[1:] == [
                {"resourceVersion": "11"},
                {"limit": "500"},
            ]

    test()


@virtual
async def test_failures_wait_longer_each_time() -> None:
    async with informing("a", sync=False) as s:
        times: list[float] = []

        async def refuse(request: web.Request) -> web.StreamResponse | None:
            times.append(now())
            return refusal(403, "Forbidden") if len(times) < 6 else None

        s.cluster.intercept = refuse
        await s.informer.wait_synced()
        waits = [b - a for a, b in pairwise(times)]
        assert waits[:5] == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8], abs=0.3)


@virtual
async def test_a_busy_server_is_resumed_from_the_same_version() -> None:
    async with informing("a") as s:
        refused: list[str] = []

        async def refuse(request: web.Request) -> web.StreamResponse | None:
            if "watch" in request.query and len(refused) < 3:
                refused.append(request.query["resourceVersion"])
                return refusal(429, "TooManyRequests")
            return None

        s.cluster.intercept = refuse
        s.cluster.drop_watches()
        await until(lambda: len(refused) == 3 and s.cluster.watchers)
        s.cluster.put(obj("b"))
        await s.heard("added ns/a initial", "added ns/b")
        assert refused == ["11"] * 3 and s.informer.lists == 1


@virtual
async def test_a_silent_watch_is_opened_anew_and_then_listed_again() -> None:
    settings = ReflectorSettings(idle_timeout=70, relist_after=150)
    async with informing("a", settings=settings) as s:
        started = now()
        s.cluster.silent_watches = True
        s.cluster.put(obj("b"))
        await until(lambda: len(s.cluster.queries(watch=True)) == 2)
        assert now() - started == pytest.approx(70, abs=2)
        # The new watch begins with what the old one kept to itself.
        await s.heard("added ns/a initial", "added ns/b")
        s.cluster.put(obj("c"))
        s.cluster.intercept = _deaf
        await until(lambda: s.informer.lists == 2)
        await s.heard("added ns/c")
        assert s.informer.age() < 1


async def _deaf(request: web.Request) -> web.StreamResponse | None:
    """Accepts every watch and never says a word."""
    if "watch" not in request.query:
        return None
    response = web.StreamResponse()
    await response.prepare(request)
    await asyncio.sleep(10_000)
    return response


@virtual
async def test_initial_state_by_watch() -> None:
    async with informing("a", "b", settings=ReflectorSettings(watch_list=True)) as s:
        await s.heard("added ns/a initial", "added ns/b initial")
        assert s.cluster.queries(watch=False) == []
        assert s.cluster.queries(watch=True)[0]["sendInitialEvents"] == "true"
        assert s.informer.version == "12"
        s.cluster.put(obj("c"))
        await s.heard("added ns/c")
        s.cluster.drop_watches()
        await until(lambda: not s.cluster.watchers)
        s.cluster.remove("a")
        await s.heard("deleted ns/a")
        assert "sendInitialEvents" not in s.cluster.queries(watch=True)[1]


@virtual
async def test_a_server_without_initial_state_by_watch_is_listed() -> None:
    async with informing("a", sync=False, settings=ReflectorSettings(watch_list=True)) as s:

        async def refuse(request: web.Request) -> web.StreamResponse | None:
            initial = "sendInitialEvents" in request.query
            return refusal(422, "Invalid") if initial else None

        s.cluster.intercept = refuse
        await s.heard("added ns/a initial")
        await until(lambda: s.cluster.watchers)
        s.cluster.fail_watches(status(410, "Expired"))
        await until(lambda: s.informer.lists == 2)
        asked = [q for q in s.cluster.queries(watch=True) if "sendInitialEvents" in q]
        assert len(asked) == 1


@virtual
async def test_managed_fields_are_not_kept() -> None:
    async with informing() as s:
        s.cluster.put(obj("a", metadata={"managedFields": [{"manager": "x"}]}))
        await s.heard("added ns/a")
        assert "managedFields" not in s.story.changes[0].object["metadata"]


@virtual
async def test_a_handler_that_fails_harms_nobody() -> None:
    async with informing("a") as s:
        seen: list[str] = []

        def broken(change: Change) -> None:
            raise ValueError("broken")

        s.informer.add_handler(broken)
        s.informer.add_handler(lambda change: seen.append(change.type))
        s.cluster.put(obj("b"))
        await s.heard("added ns/a initial", "added ns/b")
        assert seen == ["added", "added"]


@virtual
async def test_a_late_handler_gets_what_is_there() -> None:
    async with informing("a", "b") as s:
        late = Story()
        s.informer.add_handler(late)
        assert late.lines == ["added ns/a initial", "added ns/b initial"]


@virtual
async def test_resync_reports_everything_again() -> None:
    async with informing("a", resync=3600.0) as s:
        await s.heard("added ns/a initial")
        await asyncio.sleep(3700)
        assert "updated ns/a initial" in s.story.lines


@virtual
async def test_a_transform_that_fails_is_tried_again() -> None:
    failures = 2

    def fragile(value: Obj) -> Obj:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise ValueError("fragile")
        return {**value, "data": {}}

    async with informing("a", transform=fragile) as s:
        await s.heard("added ns/a initial")
        assert state(s.informer.store) == {"a": {}}


@virtual
async def test_a_lost_version_after_a_quiet_while_is_listed_at_once() -> None:
    async with informing("a") as s:
        await asyncio.sleep(30)
        lost = now()
        s.cluster.fail_watches(status(410, "Expired"))
        await until(lambda: s.informer.lists == 2)
        assert now() - lost < 0.5


@virtual
async def test_a_lost_connection_within_the_initial_state_is_mended() -> None:
    settings = ReflectorSettings(watch_list=True)
    async with informing("a", "b", sync=False, settings=settings) as s:

        async def partial(request: web.Request) -> web.StreamResponse | None:
            if "watch" not in request.query:
                return None
            s.cluster.intercept = None
            response = web.StreamResponse()
            await response.prepare(request)
            first = {"type": "ADDED", "object": obj("x", metadata={"resourceVersion": "1"})}
            await response.write(orjson.dumps(first) + b"\n")
            return response

        s.cluster.intercept = partial
        await s.heard("added ns/a initial", "added ns/b initial")
        assert len(s.cluster.queries(watch=False)) == 1


@virtual
async def test_bookmarks_are_signs_of_life() -> None:
    async with informing("a") as s:
        for _ in range(12):
            await asyncio.sleep(60)
            s.cluster.bookmark()
        await until(lambda: s.informer.version == str(s.cluster.version))
        assert s.informer.lists == 1 and len(s.cluster.queries(watch=True)) == 1
