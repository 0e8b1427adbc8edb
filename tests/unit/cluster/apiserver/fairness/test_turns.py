"""Turns at a few places, and the seats that requests take."""

from __future__ import annotations

import asyncio

import pytest

from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.turns import Turns, flow_of
from corral.kube import errors


async def test_flows_are_served_one_after_the_other() -> None:
    turns = Turns(1, waiting_per_flow=10, waiting=100)
    await turns.take("a")
    order: list[str] = []

    async def one(flow: str) -> None:
        await turns.take(flow)
        order.append(flow)
        turns.give()

    tasks = [asyncio.create_task(one(flow)) for flow in ("a", "a", "a", "b", "b", "c")]
    await asyncio.sleep(0)
    assert turns.waiting == 6
    turns.give()
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c", "a", "b", "a"]
    assert (turns.taken, turns.waiting) == (0, 0)


async def test_too_many_of_one_flow_are_refused_and_others_are_not() -> None:
    turns = Turns(1, waiting_per_flow=1, waiting=2)
    await turns.take("a")
    waiting = [asyncio.create_task(turns.take(flow)) for flow in ("a", "b")]
    await asyncio.sleep(0)
    with pytest.raises(errors.TooManyRequests) as refused:
        await turns.take("a")
    assert refused.value.retry_after == 1
    with pytest.raises(errors.TooManyRequests):
        await turns.take("c")
    patient = asyncio.create_task(turns.take("c", patient=True))
    for _ in range(3):
        turns.give()
        await asyncio.sleep(0)
    await asyncio.gather(*waiting, patient)


async def test_who_goes_away_gives_its_turn_to_the_next() -> None:
    turns = Turns(1, waiting_per_flow=10, waiting=100)
    await turns.take("a")
    first, second = (asyncio.create_task(turns.take(flow)) for flow in ("b", "c"))
    await asyncio.sleep(0)
    turns.give()  # it is the first one's turn, who leaves just now
    first.cancel()
    await asyncio.wait_for(second, 5)
    turns.give()
    assert turns.take_free()


async def test_more_places_let_the_waiting_in() -> None:
    turns = Turns(1, waiting_per_flow=10, waiting=100)
    await turns.take("a")
    waiting = asyncio.create_task(turns.take("a"))
    await asyncio.sleep(0)
    turns.resize(2, waiting_per_flow=10, waiting=100)
    await asyncio.wait_for(waiting, 5)


def test_service_accounts_of_a_namespace_are_one_flow() -> None:
    first, second = (UserInfo(f"system:serviceaccount:team:{name}") for name in ("a", "b"))
    assert flow_of(first) == flow_of(second) == "system:serviceaccount:team"
    assert flow_of(UserInfo("alice")) == "alice"


async def test_who_goes_away_waits_no_more() -> None:
    turns = Turns(0, waiting_per_flow=1, waiting=1)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await turns.take("a")
        assert turns.waiting == 0


async def test_a_flow_that_would_be_next_does_not_wait_for_what_others_have_under_way() -> None:
    turns = Turns(1, waiting_per_flow=10, waiting=100)
    assert turns.take_next("loud")
    assert not turns.take_next("loud")
    waiting = [asyncio.create_task(turns.take("loud")) for _ in range(3)]
    await asyncio.sleep(0)
    assert turns.take_next("quiet")
    assert turns.taken == 2
    turns.give()  # back to the places there are: nobody else begins
    assert not any(task.done() for task in waiting)
    assert not turns.take_next("quiet")  # it had its turn, and the loud one none since
    turns.give()
    await asyncio.sleep(0)
    assert [task.done() for task in waiting] == [True, False, False]
    assert not turns.take_next("loud")
    assert turns.take_next("quiet")
    assert not turns.take_next("other")  # no more than twice the places
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_where_there_are_no_places_nobody_is_next() -> None:
    turns = Turns(0, waiting_per_flow=10, waiting=100)
    assert not turns.take_next("quiet")
