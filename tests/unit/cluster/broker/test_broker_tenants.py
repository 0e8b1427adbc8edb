"""Turns, memory, strangers and tenants that go, without a clock of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from corral.cluster.broker.logins import load_key, login_of, owner_named, owner_of
from corral.cluster.broker.namespaces import Namespaces
from corral.cluster.broker.process import Gone
from corral.cluster.broker.protocol.budget import Budget
from corral.cluster.broker.protocol.connection import Connection
from corral.cluster.broker.server import Broker
from corral.cluster.broker.settings import BrokerSettings, Limits
from corral.cluster.broker.strangers import Strangers
from corral.cluster.broker.turns import SLICE, Turns, TurnState, metered
from tests.cluster.broker.broker_wire import batch

KEY = bytes(32)


def test_names_are_those_that_we_gave() -> None:
    login = login_of(KEY, "team-a", "u-1")
    assert owner_of(KEY, login.username) == owner_named("team-a", "u-1") == "team-a.u-1"
    for name in (
        "",
        ".",
        "team-a",
        "team-a.u-1",
        "team-a.u-1.",
        f"x{login.username}",
        "\u00e9.1.2",
    ):
        assert owner_of(KEY, name) is None
    assert owner_of(bytes(31) + b"1", login.username) is None


def test_credentials_are_the_same_after_a_restart() -> None:
    name = login_of(KEY, "a", "1").username
    one, two = (Namespaces(KEY).of("SCRAM-SHA-512").get(name) for _ in range(2))
    assert one is not None
    assert one == two
    assert Namespaces(KEY).of("SCRAM-SHA-256").get("a.1.x") is None


def test_a_key_is_made_once(tmp_path: Path) -> None:
    keys = {load_key(tmp_path / "k") for _ in range(3)}
    assert len(keys) == 1


# -- memory ----------------------------------------------------------------------------------------


def test_what_one_holds_is_not_what_others_wait_for() -> None:
    whole = Budget(100)
    one, two = Budget(60, whole), Budget(60, whole)
    assert one.take(60, 1)
    assert not one.take(1, 1)
    assert two.take(60, 60)  # only 61 bytes have come
    one.come(59)
    assert whole.used == 120
    two.give(60, 60)
    assert not Budget(60, Budget(0)).take(1, 1)
    assert two.take(10, 10)


def test_the_largest_request_has_its_turn() -> None:
    budget = Budget(10)
    assert budget.take(25, 0)
    assert not budget.take(1, 0)
    budget.give(25, 0)
    assert budget.used == 0


async def test_who_does_not_come_on_is_let_go_once_somebody_waits() -> None:
    class Holder:
        def __init__(self, late: bool) -> None:
            self.late, self.ended = late, False

        def stalled(self, now: float) -> bool:
            return self.late

        def abort(self) -> None:
            self.ended = True
            budget.release(self)
            budget.give(5, 5)

    budget, free = Budget(10), asyncio.Event()
    slow, fast = Holder(late=True), Holder(late=False)
    for holder in (slow, fast):
        assert budget.take(5, 5)
        budget.hold(holder)
    budget.when_free(free.set)
    async with asyncio.timeout(30):
        await free.wait()
    assert (slow.ended, fast.ended) == (True, False)


# -- turns -----------------------------------------------------------------------------------------


async def test_a_tenant_alone_does_not_wait() -> None:
    turns, state = Turns(), TurnState()
    for _ in range(100):
        await turns.enter(state)
        turns.spend(state, 1.0)
    assert not state.waiting


async def test_one_who_has_had_its_slice_waits_for_others() -> None:
    turns, greedy, modest = Turns(), TurnState(), TurnState()
    await turns.enter(greedy)
    turns.spend(greedy, 20 * SLICE)
    order: list[str] = []

    async def go(name: str, state: TurnState) -> None:
        await turns.enter(state)
        order.append(name)

    await turns.enter(modest)
    async with asyncio.TaskGroup() as group:
        for n in range(2):
            group.create_task(go(f"greedy {n}", greedy))
            group.create_task(go(f"modest {n}", modest))
    assert order == ["modest 0", "modest 1", "greedy 0", "greedy 1"]


async def test_one_that_is_gone_is_passed_over() -> None:
    turns, greedy, modest = Turns(), TurnState(), TurnState()
    await turns.enter(modest)
    await turns.enter(greedy)
    turns.spend(greedy, 10 * SLICE)
    await turns.enter(modest)
    first, second = (asyncio.ensure_future(turns.enter(greedy)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    async with asyncio.timeout(30):
        await second


async def test_waiting_is_not_work() -> None:
    spent: list[float] = []

    async def work() -> int:
        await asyncio.sleep(0.05)
        with pytest.raises(ValueError, match="thrown"):
            await failing()
        return 7

    async def failing() -> None:
        await asyncio.sleep(0)
        raise ValueError("thrown")

    assert await metered(work(), spent.append) == 7
    assert len(spent) == 3
    cancelled = asyncio.ensure_future(_run(spent))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def _run(spent: list[float]) -> None:
    await metered(asyncio.sleep(60), spent.append)


# -- strangers -------------------------------------------------------------------------------------


def test_the_oldest_of_the_address_with_most_goes() -> None:
    strangers = Strangers(4)

    def come(peer: str) -> Connection:
        one = Connection(Limits(), bytearray(), lambda _: None, lambda _: None)
        one.peer = peer
        return one

    crowd = [come("10.0.0.1") for _ in range(3)]
    alone = come("10.0.0.2")
    for one in (alone, *crowd):
        assert strangers.add(one) is None
    assert strangers.add(come("10.0.0.3")) is crowd[0]
    strangers.remove(crowd[0])  # once more is no fault
    strangers.remove(crowd[1])
    assert len(strangers) == 3
    assert strangers.add(come("10.0.0.3")) is None


# -- tenants that go -------------------------------------------------------------------------------


async def test_a_deleted_namespace_leaves_nothing(tmp_path: Path) -> None:
    settings = BrokerSettings(data_dir=tmp_path / "b", port=0, key_file=tmp_path / "key")
    broker, gone = Broker(settings), Gone()
    gone.add("a.1")
    await broker.start()
    try:
        for owner in ("a.1", "a.2"):
            own = broker.topics.of(broker.tenants.get(owner))
            own.create("t", 1, {})
            own.log("t", 0).append(batch(b"x"))
        gone.tell(broker.forget)
        left, held = broker.tenants.get("a.1"), broker.tenants.get("a.2")
        assert (left.topics, left.partitions, left.usage.size) == ({}, 0, 0)
        assert list(held.topics) == ["t"]
        gone.add("a.2")
        assert (len(broker.topics), held.usage.size) == (0, 0)
    finally:
        await broker.stop()
