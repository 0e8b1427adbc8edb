"""Machines that are taken, refused, or whose operator dies: the entries say what became of them."""

from __future__ import annotations

import asyncio

import pytest

from corral.api.spot.kinds import PREEMPTION_CONDITION, PREEMPTION_TAINT
from corral.clouds.local import Fault
from corral.families.spot.machines.nodes import marks_of
from tests.cluster.objects import eventually
from tests.cluster.spot_machines.machines_stage import Stage


@pytest.fixture
def running(stage: Stage) -> Stage:
    """One machine is a node."""
    stage.vm()
    stage.job()
    stage.start()
    stage.wish("m-0-1")
    stage.await_entry("m-0-1", joinedCluster=True)
    return stage


def test_a_notice_is_on_the_node_and_in_the_entry_before_the_end(running: Stage) -> None:
    asyncio.run(running.provider.preempt(running.ref("m-0-1"), notice_s=4))
    entry = eventually(
        lambda: running.entry("m-0-1").get("preemptionDeadline") and running.entry("m-0-1")
    )
    assert entry["state"] == "RUNNING"
    assert entry["preemptionNotice"] < entry["preemptionDeadline"]

    def told() -> bool:
        node = running.node("m-0-1") or {}
        taints = {taint["key"] for taint in (node.get("spec") or {}).get("taints") or ()}
        conditions = (node.get("status") or {}).get("conditions") or ()
        said = [each for each in conditions if each["type"] == PREEMPTION_CONDITION]
        return PREEMPTION_TAINT in taints and bool(said) and said[0]["status"] == "True"

    eventually(told, seconds=4)
    ended = running.await_entry("m-0-1", state="TERMINATED", reason="Preempted")
    eventually(lambda: running.entry("m-0-1").get("endTime"))
    assert ended["preemptionDeadline"] == entry["preemptionDeadline"]
    assert running.machines() == {}
    assert running.node("m-0-1") is None


def test_a_machine_that_breaks_is_lost_and_the_next_is_made(running: Stage) -> None:
    asyncio.run(running.provider.kill(running.ref("m-0-1")))
    running.await_entry("m-0-1", state="TERMINATED", reason="Lost")
    running.wish("m-0-2")
    running.await_entry("m-0-2", joinedCluster=True)
    eventually(lambda: running.entry("m-0-1").get("endTime"))
    assert set(running.machines()) == {"m-0-2"}
    assert running.nodes() == {"m-0-2"}


@pytest.mark.parametrize("error", ["StockOut", "QuotaExceeded", "AccountRefused", "BadRequest"])
def test_a_refusal_is_an_end_with_a_reason(stage: Stage, error: str) -> None:
    stage.provider.faults.plan(Fault(operation="create", error=error))
    stage.vm()
    stage.job()
    stage.start()
    stage.wish("m-0-1")
    entry = stage.await_entry("m-0-1", state="TERMINATED", reason=error)
    assert entry["endTime"] and entry["message"]
    assert stage.machines() == {}


def test_a_node_that_comes_after_the_end_of_its_machine_goes_too(stage: Stage) -> None:
    """A machine that was taken while it was made may have been a node already, or be one yet."""
    stage.provider.faults.plan(Fault(operation="create", error="StockOut"))
    stage.vm()
    stage.job()
    stage.start()
    stage.wish("m-0-1")
    stage.await_entry("m-0-1", state="TERMINATED", reason="StockOut")
    marks = marks_of("m-0-1", "local")
    metadata = {"name": "m-0-1", "labels": marks["labels"]}
    stage.cluster.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    eventually(lambda: not stage.nodes())


def test_lost_answers_and_throttling_make_one_machine(stage: Stage) -> None:
    stage.provider.faults.plan(
        Fault(operation="create", error="Transient"),
        Fault(operation="create", lose=True),
        Fault(operation="create", lose=True),
    )
    stage.vm()
    stage.job()
    stage.start()
    stage.wish("m-0-1")
    stage.await_entry("m-0-1", joinedCluster=True)
    assert set(stage.machines()) == {"m-0-1"}
    stage.provider.faults.plan(Fault(operation="delete", lose=True))
    stage.wish()
    stage.await_entry("m-0-1", state="TERMINATED", reason="Deleted")
    eventually(lambda: stage.entry("m-0-1").get("endTime"))
    assert stage.machines() == {}


def test_an_operator_that_dies_while_a_machine_is_made_finds_it_again(stage: Stage) -> None:
    stage.provider.faults.plan(Fault(operation="create", delay_s=1.0))
    stage.vm()
    stage.job()
    stage.start()
    stage.wish("m-0-1")
    pending = eventually(lambda: stage.entry("m-0-1"))
    assert pending["requestID"] and pending["state"] == "PENDING"
    stage.operator.kill()
    stage.operator.start()
    entry = stage.await_entry("m-0-1", joinedCluster=True)
    assert entry["requestID"] == pending["requestID"]
    assert set(stage.machines()) == {"m-0-1"}


def test_what_happened_while_nobody_looked_is_found_out(running: Stage) -> None:
    running.wish("m-0-1", "m-1-2")
    running.await_entry("m-1-2", joinedCluster=True)
    running.operator.kill()
    asyncio.run(running.provider.kill(running.ref("m-0-1")))
    running.wish("m-0-1")
    running.operator.start()
    running.await_entry("m-0-1", state="TERMINATED", reason="Lost")
    running.await_entry("m-1-2", state="TERMINATED", reason="Deleted")
    eventually(lambda: not running.machines())
    eventually(lambda: not running.nodes())


def test_a_machine_that_nothing_owns_is_swept(running: Stage) -> None:
    running.operator.kill()
    patch = {"status": {"provisionedInstances": []}}
    running.objects.patch(
        "training.training.dcnlab.com/v1alpha1",
        "spotinstancevms",
        "here",
        patch,
        subresource="status",
    )
    running.wish()
    running.start(sweep=0.2, sweep_grace=0.5)
    eventually(lambda: not running.machines())
    eventually(lambda: not running.nodes())
