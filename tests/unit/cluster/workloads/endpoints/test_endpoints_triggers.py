"""When the change began that endpoints are written for."""

from __future__ import annotations

from typing import Any

from corral.cluster.workloads.endpoints.triggers import TriggerTimes

Obj = dict[str, Any]
T = [f"2030-01-01T00:00:0{second}Z" for second in range(10)]


def service(created: str = T[1]) -> Obj:
    return {"metadata": {"namespace": "ns", "name": "web", "creationTimestamp": created}}


def pod(name: str, changed: str = "") -> Obj:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": changed}
    return {"metadata": {"name": name}, "status": {"conditions": [condition] if changed else []}}


def test_a_new_service_counts_from_its_creation() -> None:
    assert TriggerTimes().compute(service(), [pod("a", T[5])]) == T[1]


def test_the_earliest_change_counts() -> None:
    times = TriggerTimes()
    times.compute(service(), [pod("a", T[2]), pod("b", T[2])])
    assert times.compute(service(), [pod("a", T[4]), pod("b", T[3])]) == T[3]


def test_what_did_not_change_does_not_count() -> None:
    times = TriggerTimes()
    times.compute(service(), [pod("a", T[2])])
    assert times.compute(service(), [pod("a", T[2]), pod("c")]) is None
    assert times.compute(service(), []) is None


def test_a_new_pod_counts_from_when_it_became_ready() -> None:
    times = TriggerTimes()
    times.compute(service(), [])
    assert times.compute(service(), [pod("a", T[7])]) == T[7]


def test_a_service_of_the_same_name_made_again() -> None:
    times = TriggerTimes()
    times.compute(service(), [])
    assert times.compute(service(T[6]), []) == T[6]
    times.forget("ns/web")
    assert times.compute(service(T[6]), [pod("a", T[8])]) == T[6]
