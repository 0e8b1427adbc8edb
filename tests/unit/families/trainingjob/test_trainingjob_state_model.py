"""Operators die between any two actions, and two of them work at once: the rules still hold."""

from __future__ import annotations

import random
from typing import Any

import pytest

from corral.families.trainingjob.lifecycle.attempts import highest_attempt
from corral.families.trainingjob.lifecycle.limits import RunLimits
from tests.unit.families.trainingjob.training_world import (
    Process,
    World,
    condition,
    make_job,
)

ROUNDS = 40


def check(world: World) -> None:
    """What must hold at every moment."""
    twice = {pair: count for pair, count in world.creates.items() if count > 1}
    assert not twice, f"created more than once: {twice}"
    status = world.status
    policy = world.job["spec"]["runPolicy"]
    counts = status.get("replicas") or {}
    assert counts.get("restarts", 0) <= policy.get("backoffLimit", 3)
    highest = highest_attempt(status)
    assert all(attempt <= highest for _, attempt in world.creates)


def disturb(world: World, processes: list[Process], *, changes: bool) -> None:
    """A time in which anything may happen."""
    rng = world.rng
    for _ in range(rng.randrange(20, 120)):
        dice = rng.random()
        if dice < 0.55:
            world.step(rng.choice(processes))
        elif dice < 0.62:
            processes[rng.randrange(len(processes))] = Process()
        elif dice < 0.67 and changes:
            change(world)
        else:
            world.advance(failures=True)
        check(world)


def change(world: World) -> None:
    """Somebody edits the spec."""
    rng, spec = world.rng, world.job["spec"]
    if "elastic" in spec and rng.random() < 0.5:
        spec["replicas"] = rng.randrange(1, 5)
    else:
        spec["runPolicy"]["suspend"] = not spec["runPolicy"].get("suspend")
    world.job["metadata"]["generation"] += 1
    world.version += 1


def bring_to_end(world: World) -> None:
    """From now on one operator works and pods succeed: the job must end, and then be at rest."""
    spec = world.job["spec"]
    spec["runPolicy"]["suspend"] = False
    world.job["metadata"]["generation"] += 1
    world.version += 1
    process = Process()
    for _ in range(2000):
        world.settle(process)
        check(world)
        if world.status.get("completionTime"):
            break
        world.advance(failures=False)
        world.now += 1
    assert world.status["phase"] in ("Succeeded", "Failed"), (world.status, world.pods)
    for _ in range(50):
        world.advance(failures=False)
        world.settle(process)
    before = world.status
    last = world.settle(process)
    assert world.status == before
    assert not (last.delete or last.kill or last.launches or last.placeholders)


def judge(world: World) -> None:
    """The end is the right one."""
    status = world.status
    if status["phase"] == "Succeeded":
        assert status["replicas"]["succeeded"] == status["worldSize"]
        return
    reason = condition(status, "Failed")["reason"]
    assert reason in ("BackoffLimitExceeded", "DisruptionLimitExceeded")
    limit = world.job["spec"]["runPolicy"].get("backoffLimit", 3)
    if reason == "BackoffLimitExceeded" and not is_alone(world):
        assert status["replicas"]["restarts"] == limit


def is_alone(world: World) -> bool:
    return bool(world.job["spec"]["runPolicy"].get("restartScope") == "Replica")


CASES: dict[str, dict[str, Any]] = {
    "whole": {"replicas": 3, "policy": {"backoffLimit": 4}},
    "alone": {"replicas": 3, "policy": {"backoffLimit": 4, "restartScope": "Replica"}},
    "no-restarts": {"replicas": 2, "policy": {"backoffLimit": 0}},
    "elastic": {"replicas": 3, "elastic": {"minReplicas": 1, "maxReplicas": 4}},
    "elastic-alone": {
        "replicas": 3,
        "elastic": {"minReplicas": 1, "maxReplicas": 4},
        "policy": {"restartScope": "Replica", "cleanPodPolicy": "All"},
    },
}


@pytest.mark.parametrize("operators", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_any_disturbance(case: str, operators: int) -> None:
    for seed in range(ROUNDS):
        spec = {key: dict(v) if isinstance(v, dict) else v for key, v in CASES[case].items()}
        world = World(random.Random(f"{case}-{operators}-{seed}"), make_job(**spec))
        world.capacity = 2 if "elastic" in case else 1000
        processes = [Process() for _ in range(operators)]
        try:
            disturb(world, processes, changes=True)
            bring_to_end(world)
            judge(world)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_a_calm_job_is_created_once_and_succeeds() -> None:
    world, process = World(random.Random(1), make_job(replicas=4)), Process()
    for _ in range(200):
        world.settle(process)
        world.advance(failures=False)
    assert world.status["phase"] == "Succeeded"
    assert sorted(world.creates) == [(i, 1) for i in range(4)]


def test_endless_disruptions_end_the_job() -> None:
    limits = RunLimits(disruption_limit=5)
    world, process = World(random.Random(1), make_job(replicas=1), limits=limits), Process()
    for _ in range(200):
        world.settle(process)
        for pod in world.pods.values():
            pod["status"]["phase"] = "Running"
        world.settle(process)
        world.pods.clear()
        world.now += 400
    assert condition(world.status, "Failed")["reason"] == "DisruptionLimitExceeded"
    assert world.status["replicas"] | {"disruptions": 5} == world.status["replicas"]
    assert world.status["replicas"]["restarts"] == 0
