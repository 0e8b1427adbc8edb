"""Work that comes in crowds, done a little at a time."""

from __future__ import annotations

import asyncio

from corral.cluster.apiserver.paced import Paced


async def test_a_turn_of_the_event_loop_does_so_much_and_no_more() -> None:
    paced, done = Paced(3), list[int]()
    for number in range(8):
        paced.call("a", lambda number=number: done.append(number))  # type: ignore[misc]
    counts = [len(done)]
    while len(done) < 8:
        await asyncio.sleep(0)
        counts.append(len(done))
    assert counts == [3, 6, 8]
    assert done == list(range(8))


async def test_what_was_done_at_once_counts_for_its_turn() -> None:
    paced, done = Paced(2), list[str]()
    for name in ("a", "b", "c"):
        paced.call(name, lambda name=name: done.append(name))  # type: ignore[misc]
    assert done == ["a", "b"]
    await asyncio.sleep(0)
    assert done == ["a", "b", "c"]


async def test_flows_take_turns_however_much_one_has() -> None:
    paced, done = Paced(1), list[str]()
    for flow in ("loud", "loud", "loud", "loud", "quiet", "other"):
        paced.call(flow, lambda flow=flow: done.append(flow))  # type: ignore[misc]
    for _ in range(6):
        await asyncio.sleep(0)
    assert done == ["loud", "loud", "quiet", "other", "loud", "loud"]


async def test_who_stops_waiting_for_a_turn_does_not_keep_it() -> None:
    paced = Paced(1)
    await paced.turn("a")
    gone = asyncio.create_task(paced.turn("a"))
    after = asyncio.create_task(paced.turn("a"))
    gone.cancel()
    await asyncio.wait([gone, after])
    assert gone.cancelled() and after.done()
