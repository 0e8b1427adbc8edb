"""Which pods nobody else will remove."""

from __future__ import annotations

from typing import Any

import pytest

from corral.cluster.workloads.podgc.plan import (
    Quarantine,
    classes,
    excess,
    failed_patch,
    is_out_of_service,
)

Obj = dict[str, Any]
NOW = "2024-05-01T12:00:00Z"


def pod(name: str = "p", *, phase: str = "Running", made: int = 0, **more: Any) -> Obj:
    meta: Obj = {"name": name, "uid": f"uid-{name}", "namespace": "ns"}
    meta["creationTimestamp"] = f"2024-01-01T00:00:{made:02}Z"
    if more.pop("deleting", False):
        meta["deletionTimestamp"] = NOW
    if "generation" in more:
        meta["generation"] = more.pop("generation")
    spec = {"nodeName": more.pop("node", "")}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase, **more}}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pod(), ()),
        (pod(phase="Pending"), ()),
        (pod(phase="Succeeded"), ("ended",)),
        (pod(phase="Failed", deleting=True, node="a"), ("ended", "leaving")),
        (pod(deleting=True, node="a"), ("leaving",)),
        (pod(deleting=True), ("leaving-unbound",)),
    ],
)
def test_classes(given: Obj, wanted: tuple[str, ...]) -> None:
    assert classes(given) == wanted


def test_the_surplus_goes_evicted_and_old_ones_first() -> None:
    pods = [
        pod("young", phase="Succeeded", made=30),
        pod("old-b", phase="Failed", made=10),
        pod("old-a", phase="Succeeded", made=10),
        pod("evicted", phase="Failed", made=40, reason="Evicted"),
    ]
    names = [found["metadata"]["name"] for found in excess(pods, 1)]
    assert names == ["evicted", "old-a", "old-b"]
    assert excess(pods, 4) == [] and excess(pods, 0) == []


def test_a_removed_pod_has_failed() -> None:
    patch = failed_patch(pod(generation=4), NOW, reason="R", message="M")
    condition = {
        "type": "DisruptionTarget", "status": "True", "reason": "R", "message": "M",
        "lastTransitionTime": NOW, "observedGeneration": 4,
    }  # fmt: skip
    status = {"phase": "Failed", "observedGeneration": 4, "conditions": [condition]}
    assert patch == {"metadata": {"uid": "uid-p"}, "status": status}
    plain = {"metadata": {"uid": "uid-p"}, "status": {"phase": "Failed"}}
    assert failed_patch(pod(), NOW) == plain
    assert failed_patch(pod(phase="Succeeded"), NOW) is None


def test_out_of_service() -> None:
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    down = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    assert not is_out_of_service(None)
    assert not is_out_of_service({"spec": {"taints": [taint]}, "status": ready})
    assert not is_out_of_service({"spec": {}, "status": down})
    assert is_out_of_service({"spec": {"taints": [taint]}, "status": down})
    assert is_out_of_service({"spec": {"taints": [taint]}})


def test_quarantine() -> None:
    quarantine = Quarantine(40)
    assert quarantine.missing(["a", "b"], 0) == []
    assert quarantine.missing(["a"], 30) == []
    assert quarantine.missing(["a", "b"], 40) == ["a"]  # b was back meanwhile
    assert quarantine.missing(["b"], 80) == ["b"]
