from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from corral.client import errors
from corral.client.kinds import kind_of
from corral.client.queries import ListQuery
from corral.gateway.auth import Caller
from corral.gateway.rest import fanout
from corral.gateway.rest.fanout import Fanout, WatchTarget
from tests.unit.gateway.gateway_stage import FakeGateway, Stage, change, path, settle

TARGET = WatchTarget(kind_of("trainingjobs"), "a", "pi", ListQuery())
ONE = Caller("one")


def ids(body: bytes) -> list[str]:
    lines = body.decode().splitlines()
    return [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]


async def test_a_watch_is_events_with_ids_to_go_on_from() -> None:
    stage = Stage()
    for item in (change("1", "Pending", type_="ADDED"), change("2"), None):
        stage.gateway.changes.put_nowait(item)
    reply = await stage.ask("GET", path("/pi/watch"))
    assert reply.headers["content-type"].startswith("text/event-stream")
    first, second, end, _ = reply.body.decode().split("\n\n")
    head, event, data = first.split("\n")
    assert (head, event) == ("id: 1", "event: ADDED")
    said = json.loads(data.removeprefix("data: "))
    assert (said["phase"], said["object"]["metadata"]["name"]) == ("Pending", "pi")
    assert "event: MODIFIED" in second
    assert end.startswith("event: end")


async def test_phases_alone_are_short() -> None:
    stage = Stage()
    stage.gateway.changes.put_nowait(change("1", type_="ADDED"))
    stage.gateway.changes.put_nowait(None)
    reply = await stage.ask("GET", path("/pi/watch?view=phase"))
    assert b'"object"' not in reply.body
    assert b'"phase":"Running"' in reply.body


async def test_a_watch_that_is_refused_is_a_problem() -> None:
    stage = Stage()
    stage.gateway.changes.put_nowait(errors.Forbidden("no"))
    assert (await stage.ask("GET", path("/pi/watch"))).status == 403


async def test_a_refusal_in_the_middle_is_an_event() -> None:
    stage = Stage()
    stage.gateway.changes.put_nowait(change("1", type_="ADDED"))
    stage.gateway.changes.put_nowait(errors.Unauthorized("the token has expired"))
    reply = await stage.ask("GET", path("/pi/watch"))
    assert reply.status == 200
    assert b"event: error" in reply.body
    assert b"the token has expired" in reply.body


async def test_the_id_of_the_last_event_is_passed_on_and_checked() -> None:
    stage = Stage()
    stage.gateway.changes.put_nowait(None)
    await stage.ask("GET", path("/pi/watch"), headers={"Last-Event-ID": "41"})
    assert stage.gateway.asked[0][1]["since"] == "41"
    odd = await stage.ask("GET", path("/pi/watch"), headers={"Last-Event-ID": "a b"})
    assert odd.status == 400


async def test_a_gateway_that_stops_says_so_to_watchers() -> None:
    stage = Stage()
    stage.gateway.changes.put_nowait(change("1", type_="ADDED"))
    async with stage.open("GET", path("/pi/watch")) as (reply, _, news):
        await news.wait()
        await stage.app.close()
    assert reply.whole
    assert b"event: end" in reply.body
    assert stage.gateway.closed_watches == 1


class Watcher:
    """Reads events into a list."""

    def __init__(self, fan: Fanout, caller: Caller = ONE, since: str = "") -> None:
        self.seen = b""
        self.source = fan.events(caller, TARGET, since=since)
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.source:
            self.seen += event

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.source.aclose()


@pytest.fixture
def gateway() -> FakeGateway:
    return FakeGateway()


async def test_watchers_with_one_token_share_a_watch(gateway: Any) -> None:
    fan = Fanout(gateway)
    watchers = [Watcher(fan) for _ in range(20)]
    gateway.changes.put_nowait(change("1", type_="ADDED"))
    await settle(lambda: all(ids(w.seen) == ["1"] for w in watchers))
    late = Watcher(fan)
    await settle(lambda: ids(late.seen) == ["1"])
    for version in ("2", "3"):
        gateway.changes.put_nowait(change(version))
    await settle(lambda: all(ids(w.seen) == ["1", "2", "3"] for w in [*watchers, late]))
    assert gateway.watches == 1
    for watcher in [*watchers, late]:
        await watcher.stop()
    assert gateway.closed_watches == 1
    assert len(fan) == 0


async def test_watchers_with_two_tokens_share_nothing(gateway: Any) -> None:
    fan = Fanout(gateway)
    watchers = [Watcher(fan), Watcher(fan, Caller("two"))]
    await settle(lambda: gateway.watches == 2)
    for watcher in watchers:
        await watcher.stop()


async def test_who_comes_back_soon_gets_what_he_missed(gateway: Any) -> None:
    fan = Fanout(gateway)
    stays = Watcher(fan)
    for version in ("1", "2", "3"):
        gateway.changes.put_nowait(change(version))
    await settle(lambda: ids(stays.seen) == ["1", "2", "3"])
    back = Watcher(fan, since="1")
    await settle(lambda: ids(back.seen) == ["2", "3"])
    assert gateway.watches == 1
    long_away = Watcher(fan, since="0")
    await settle(lambda: gateway.watches == 2)
    assert gateway.asked[-1][1]["since"] == "0"
    for watcher in (stays, back, long_away):
        await watcher.stop()


async def test_a_watch_that_began_in_the_middle_is_not_shared(gateway: Any) -> None:
    fan = Fanout(gateway)
    middle = Watcher(fan, since="5")
    await settle(lambda: gateway.watches == 1)
    whole = Watcher(fan)
    await settle(lambda: gateway.watches == 2)
    for watcher in (middle, whole):
        await watcher.stop()


async def test_who_is_too_slow_is_let_go_without_a_gap(
    gateway: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanout, "_QUEUE", 3)
    fan = Fanout(gateway)
    slow = fan.events(ONE, TARGET)
    gateway.changes.put_nowait(change("1", type_="ADDED"))
    seen = await anext(slow)
    for version in range(2, 12):
        gateway.changes.put_nowait(change(str(version)))
    await settle(gateway.changes.empty)
    async for event in slow:
        seen += event
    assert ids(seen) == ["1", "2", "3", "4"]
    await settle(lambda: gateway.closed_watches == 1)


async def test_silence_has_signs_of_life(gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "_SILENCE", 0.01)
    events = Fanout(gateway).events(ONE, TARGET)
    assert (await anext(events)).startswith(b":")
    await events.aclose()
    assert gateway.closed_watches == 1
