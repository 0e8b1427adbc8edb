"""Events and figures about machines: each piece of news once."""

from __future__ import annotations

from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from corral.families.spot.machines.reporting import MachineMetrics, Teller
from corral.runtime.events.recorder import EventRecorder
from corral.runtime.informers.informer import Informer
from corral.runtime.informers.store import Store

Obj = dict[str, Any]
VM = {"metadata": {"name": "here", "namespace": "n"}}
BEGUN = {
    "name": "m",
    "requestID": "r",
    "cloud": "local",
    "state": "PENDING",
    "provisioningModel": "Spot",
    "creationTime": "2027-01-15T08:00:00Z",
}
MADE = {**BEGUN, "state": "RUNNING", "instanceID": "i"}
JOINED = {**MADE, "joinedCluster": True, "nodeName": "m"}
TOLD = {**JOINED, "preemptionDeadline": "2027-01-15T08:01:00Z"}
TAKEN = {**TOLD, "state": "TERMINATED", "reason": "Preempted", "message": "gone"}
OVER = {**TAKEN, "endTime": "2027-01-15T08:02:00Z"}
LIFE = (BEGUN, MADE, JOINED, TOLD, TAKEN, OVER)


class Said:
    """What a recorder was given."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def normal(self, obj: Obj, reason: str, message: str) -> None:
        self.events.append(reason)

    warning = normal


class Seen:
    """An informer's store, with objects in it."""

    def __init__(self, *entries: Obj) -> None:
        self.store = Store()
        self.store.put({**VM, "status": {"provisionedInstances": list(entries)}})


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def metrics(registry: CollectorRegistry, *entries: Obj) -> MachineMetrics:
    return MachineMetrics(registry, cast(Informer, Seen(*entries)))


def test_each_piece_of_news_is_told_once(registry: CollectorRegistry) -> None:
    said = Said()
    teller = Teller(cast(EventRecorder, said), metrics(registry))
    before: list[Obj] = []
    for entry in (each for state in LIFE for each in (state, state)):
        teller.changed(VM, before, [entry], now=1.8e9 + 3)
        before = [entry]
    assert said.events == [
        "MachineCreated",
        "MachineReady",
        "PreemptionNotice",
        "MachinePreempted",
    ]
    local = {"cloud": "local"}
    value = registry.get_sample_value
    name = "corral_spot_machines"
    assert value(f"{name}_made_total", {**local, "model": "Spot"}) == 1
    assert value(f"{name}_ended_total", {**local, "reason": "Preempted"}) == 1
    assert value("corral_spot_preemption_notices_total", local) == 1
    assert value("corral_spot_machine_ready_seconds_sum", local) == pytest.approx(3)


def test_another_machine_of_the_same_name_is_news(registry: CollectorRegistry) -> None:
    said = Said()
    teller = Teller(cast(EventRecorder, said), None)
    teller.changed(VM, [OVER], [{**MADE, "requestID": "other"}], now=1.8e9)
    assert said.events == ["MachineCreated"]


def test_machines_are_counted_until_nothing_is_left(registry: CollectorRegistry) -> None:
    metrics(registry, MADE, JOINED, TAKEN, OVER, {**MADE, "cloud": "gcp"})
    found = {
        (sample.labels["cloud"], sample.labels["state"]): sample.value
        for metric in registry.collect()
        if metric.name == "corral_spot_machines"
        for sample in metric.samples
        if sample.value
    }
    assert found == {("local", "RUNNING"): 2, ("local", "TERMINATED"): 1, ("gcp", "RUNNING"): 1}
