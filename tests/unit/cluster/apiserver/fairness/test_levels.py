"""Priority levels as objects configure them, and what a request does with its seat."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from corral.cluster.apiserver.fairness.defaults import MANDATORY_LEVELS, default_objects
from corral.cluster.apiserver.fairness.dispatch import Level, Seat
from corral.kube import errors

SHARES = 245
"""Of all levels that a cluster begins with."""


def level(limited: dict[str, Any] | None = None) -> Level:
    made = Level("made")
    spec = {"type": "Limited", "limited": limited} if limited is not None else {"type": "Exempt"}
    made.configure({"metadata": {"name": "made", "uid": "u"}, "spec": spec}, SHARES)
    return made


def seat(of: Level, flow: str = "a") -> Seat:
    return Seat(of, flow, {})


def test_shares_are_those_of_the_defaults() -> None:
    limited = (obj["spec"].get("limited") or {} for obj in default_objects())
    assert sum(one.get("nominalConcurrencyShares", 0) for one in limited) == SHARES


async def test_a_level_that_refuses_takes_as_many_at_once_as_upstream() -> None:
    catch_all = Level("catch-all")
    catch_all.configure(MANDATORY_LEVELS["catch-all"], SHARES)
    await seat(catch_all).take()
    await seat(catch_all, "next").take()  # nobody waits yet
    others = [seat(catch_all, f"user-{number}") for number in range(12)]  # 600 * 5 / 245 in all
    tasks = [asyncio.create_task(other.take()) for other in others]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    with pytest.raises(errors.TooManyRequests):
        await seat(catch_all, "one more").take()
    assert catch_all.turns is not None
    for _ in range(14):
        catch_all.turns.give()
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)


async def test_a_level_without_shares_that_may_not_borrow_holds_what_comes() -> None:
    queuing = {"queues": 1, "handSize": 1, "queueLengthLimit": 1}
    response = {"type": "Queue", "queuing": queuing}
    limited = {"nominalConcurrencyShares": 0, "limitResponse": response}
    await seat(level(limited)).take()
    jail = level({**limited, "borrowingLimitPercent": 0})
    waiting = asyncio.create_task(seat(jail).take())
    await asyncio.sleep(0)
    assert not waiting.done()
    with pytest.raises(errors.TooManyRequests):
        await seat(jail).take()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_a_seat_is_lent_once_however_many_parts_of_its_request_wait() -> None:
    found = level({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}})
    turns = found.turns
    assert turns is not None and turns.places == 1
    held = seat(found)
    await held.take()
    assert [held.lend() for _ in range(3)] == [True] * 3
    await asyncio.sleep(0)
    assert turns.taken == 0
    for _ in range(2):
        await held.take_back()
        assert turns.taken == 0
    await held.take_back()
    assert turns.taken == 1
    held.give()
    await asyncio.sleep(0)
    assert turns.taken == 0


async def test_those_who_waited_for_the_same_thing_go_on_one_after_the_other() -> None:
    found = level({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}})
    turns = found.turns
    assert turns is not None and turns.places == 1
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    running, most = 0, 0

    async def write(flow: str) -> None:
        nonlocal running, most
        mine = seat(found, flow)
        await mine.take()
        assert mine.lend()
        await written
        await mine.take_back()
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        mine.give()

    writes = [asyncio.create_task(write(flow)) for flow in ("a", "b", "a", "b")]
    for _ in range(20):
        await asyncio.sleep(0)  # all of them wait for the disk
    written.set_result(None)
    await asyncio.gather(*writes)
    await asyncio.sleep(0)
    assert (most, turns.taken) == (1, 0)


async def test_who_goes_away_while_waiting_elsewhere_leaves_no_place_taken() -> None:
    found = level({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}})
    turns = found.turns
    assert turns is not None
    held = seat(found)
    await held.take()
    assert held.lend()
    held.lost()
    held.give()
    await asyncio.sleep(0)
    assert turns.taken == 0


async def test_a_seat_goes_back_where_it_came_from() -> None:
    found = level({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}})
    before = found.turns
    held = seat(found)
    await held.take()
    found.configure({"metadata": {"uid": "u"}, "spec": {"type": "Exempt"}}, SHARES)
    held.give()
    await asyncio.sleep(0)
    assert before is not None and before.taken == 0


async def test_what_lasts_waits_for_its_turn_and_holds_nothing() -> None:
    found = level({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}})
    turns = found.turns
    assert turns is not None
    held = seat(found)
    await held.take()
    lasting = [asyncio.create_task(seat(found).turn()) for _ in range(50)]  # more than may wait
    await asyncio.sleep(0)
    assert not any(task.done() for task in lasting)
    held.give()
    await asyncio.gather(*lasting)
    await asyncio.sleep(0)
    assert turns.taken == 0
