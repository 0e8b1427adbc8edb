"""Whatever happens in whatever order: what is wished for is there or says why not; none leaks."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from corral.clouds import BadRequest
from corral.clouds.local import Fault
from tests.cluster.objects import eventually
from tests.cluster.spot_machines.machines_stage import Stage

STEPS = 12


class Storm:
    """One seed's worth of mischief."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.rng = Random(seed)
        self.wished: list[str] = []
        self.ever: list[str] = []
        self.runs = True
        self.done: list[str] = []

    def step(self) -> None:
        actions = [self.wish, self.wish, self.drop, self.kill, self.preempt, self.fail]
        actions += [self.die, self.calm, self.begin]
        action = self.rng.choice(actions)
        self.done.append(action.__name__)
        action()

    def wish(self) -> None:
        if len(self.wished) < 3:
            name = f"s-{len(self.ever)}"
            self.ever.append(name)
            self.wished.append(name)
            self.stage.wish(*self.wished)

    def drop(self) -> None:
        if self.wished:
            self.wished.remove(self.rng.choice(self.wished))
            self.stage.wish(*self.wished)

    def kill(self) -> None:
        for name in self.rng.sample(self.wished, k=min(1, len(self.wished))):
            asyncio.run(self.stage.provider.kill(self.stage.ref(name)))

    def preempt(self) -> None:
        for name in self.rng.sample(self.wished, k=min(1, len(self.wished))):
            try:
                asyncio.run(self.stage.provider.preempt(self.stage.ref(name), notice_s=0.5))
            except BadRequest:
                continue  # it is not there yet, or no longer

    def fail(self) -> None:
        operation = self.rng.choice(["create", "delete", "get", "list"])
        kinds = [
            Fault(operation=operation, lose=True),
            Fault(operation=operation, error="Transient"),
            Fault(operation=operation, delay_s=0.5),
            Fault(operation="create", error="StockOut"),
        ]
        self.stage.provider.faults.plan(self.rng.choice(kinds))

    def die(self) -> None:
        if self.runs:
            self.stage.operator.kill()
        else:
            self.stage.operator.start()
        self.runs = not self.runs

    def calm(self) -> None:
        """What comes next happens to machines that run."""
        if self.runs:
            eventually(self.is_settled, seconds=60)

    def begin(self) -> None:
        """What comes next happens while a machine is made."""
        self.wish()
        if self.runs and self.wished:
            eventually(lambda: self.stage.entry(self.wished[-1]))

    # -- what must hold ---------------------------------------------------------------------------

    def is_settled(self) -> bool:
        """Every machine that is wished for is a node, or has ended for a reason."""
        for name in self.wished:
            entry = self.stage.entry(name)
            ended = entry.get("endTime") and entry.get("reason")
            if not ended and not (entry.get("joinedCluster") and entry["state"] == "RUNNING"):
                return False
        return True

    def is_clear(self) -> bool:
        known = self.stage.status().get("provisionedInstances") or ()
        return all(entry.get("endTime") for entry in known)


def storm(stage: Stage, seed: int) -> None:
    stage.vm()
    stage.job()
    stage.start(sweep=0.5, sweep_grace=5.0)
    weather = Storm(stage, seed)
    for _ in range(STEPS):
        weather.step()
    if not weather.runs:
        stage.operator.start()
    try:
        eventually(weather.is_settled, seconds=60)
        alive = {name for name in weather.wished if not stage.entry(name).get("endTime")}
        eventually(lambda: set(stage.machines()) == alive, seconds=60)
        stage.wish()
        eventually(weather.is_clear, seconds=60)
    except AssertionError:
        raise AssertionError(f"{weather.done}: {stage.status()}") from None
    assert stage.machines() == {}
    assert not stage.nodes()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_storm_leaves_nothing(stage: Stage, seed: int) -> None:
    storm(stage, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_storms_leave_nothing(stage: Stage, seed: int) -> None:
    storm(stage, seed)
