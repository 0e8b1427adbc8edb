"""Binding claims to volumes by hand: the same cases on every backend.

kube-controller-manager looks again every 15 s where it waits for no event, hence the patience.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.cluster.claims.claim_stage import CLAIMS, VOLUMES, ClaimStage
from tests.cluster.objects import contains, eventually
from tests.cluster.services.service_stage import settles

BOUND_BY = "pv.kubernetes.io/bound-by-controller"
COMPLETED = "pv.kubernetes.io/bind-completed"
PATIENCE = 60.0


def test_a_claim_is_bound_to_a_volume(stage: ClaimStage) -> None:
    name = stage.make_volume("v", "5Gi", accessModes=["ReadWriteOnce", "ReadOnlyMany"])
    settles(lambda: stage.volume_phase(name), "Available")
    made = stage.make_claim()
    found = stage.bound()
    assert found["spec"]["volumeName"] == name
    assert contains(found["metadata"]["annotations"], {BOUND_BY: "yes", COMPLETED: "yes"})
    assert found["status"]["capacity"] == {"storage": "5Gi"}
    assert found["status"]["accessModes"] == ["ReadWriteOnce", "ReadOnlyMany"]
    settles(lambda: stage.volume_phase(name), "Bound")
    volume = stage.volume(name)
    assert volume is not None
    assert volume["metadata"]["annotations"][BOUND_BY] == "yes"
    reference = volume["spec"]["claimRef"]
    meta = made["metadata"]
    assert (reference["kind"], reference["apiVersion"]) == ("PersistentVolumeClaim", "v1")
    assert [reference[f] for f in ("namespace", "name", "uid")] == [
        meta[f] for f in ("namespace", "name", "uid")
    ]


def test_a_volume_may_come_later(stage: ClaimStage) -> None:
    stage.make_claim()
    settles(stage.claim_phase, "Pending")
    name = stage.make_volume("v")
    assert stage.bound()["spec"]["volumeName"] == name


def test_the_smallest_that_fits_is_taken(stage: ClaimStage) -> None:
    sizes = {size: stage.make_volume(f"v{size.lower()}", size) for size in ("1Gi", "8Gi", "3Gi")}
    for name in sizes.values():
        settles(partial(stage.volume_phase, name), "Available")
    stage.make_claim(size="2Gi")
    assert stage.bound()["spec"]["volumeName"] == sizes["3Gi"]


@pytest.mark.parametrize(
    ("volume", "wanted"),
    [
        ({"size": "1Gi"}, {"size": "2Gi"}),
        ({}, {"accessModes": ["ReadWriteMany"]}),
        ({"volumeMode": "Block"}, {}),
        ({"labels": {"disk": "slow"}}, {"selector": {"matchLabels": {"disk": "fast"}}}),
        ({"storageClassName": ""}, {}),
    ],
    ids=["size", "access-modes", "volume-mode", "selector", "class"],
)
def test_a_volume_that_does_not_fit_is_not_taken(
    stage: ClaimStage, volume: dict[str, Any], wanted: dict[str, Any]
) -> None:
    name = stage.make_volume("v", **volume)
    settles(lambda: stage.volume_phase(name), "Available")
    stage.make_claim(**wanted)
    fitting = {
        "size": wanted.get("size", "1Gi"),
        "accessModes": wanted.get("accessModes", ["ReadWriteOnce"]),
        "labels": {"disk": "fast"},
    }
    second = stage.make_volume("fits", **fitting)
    assert stage.bound()["spec"]["volumeName"] == second
    assert stage.volume_phase(name) == "Available"


def test_a_claim_may_ask_for_a_volume_by_name(stage: ClaimStage) -> None:
    names = [stage.make_volume(f"v{number}") for number in range(2)]
    for name in names:
        settles(partial(stage.volume_phase, name), "Available")
    stage.make_claim(volumeName=names[1])
    found = stage.bound()
    assert BOUND_BY not in found["metadata"]["annotations"]
    assert stage.volume_phase(names[0]) == "Available"


def test_a_volume_of_the_wrong_kind_by_name(stage: ClaimStage) -> None:
    name = stage.make_volume("v", "1Gi")
    settles(lambda: stage.volume_phase(name), "Available")
    stage.make_claim(size="9Gi", volumeName=name)
    eventually(lambda: "VolumeMismatch" in stage.events("data"))
    assert stage.claim_phase() == "Pending"


def test_a_volume_of_another_by_name(stage: ClaimStage) -> None:
    name = stage.make_volume("v")
    settles(lambda: stage.volume_phase(name), "Available")
    stage.make_claim("first")
    stage.bound("first")
    stage.make_claim("second", volumeName=name)
    eventually(lambda: "FailedBinding" in stage.events("second"))
    assert stage.claim_phase("second") == "Pending"


def test_a_volume_may_be_reserved(stage: ClaimStage) -> None:
    reference = {"namespace": stage.objects.namespace, "name": "mine"}
    name = stage.make_volume("v", claimRef=reference)
    settles(lambda: stage.volume_phase(name), "Available")
    stage.make_claim("other")
    stage.make_claim("mine")
    assert stage.bound("mine")["spec"]["volumeName"] == name
    assert stage.claim_phase("other") == "Pending"
    volume = stage.volume(name)
    assert volume is not None
    assert BOUND_BY not in (volume["metadata"].get("annotations") or {})


def test_a_claim_without_class_and_volume_waits(stage: ClaimStage) -> None:
    stage.make_claim(storageClassName="")
    eventually(lambda: "FailedBinding" in stage.events("data"))
    assert stage.claim_phase() == "Pending"


def test_a_claim_of_an_unknown_class_waits(stage: ClaimStage) -> None:
    stage.make_claim()
    eventually(lambda: "ProvisioningFailed" in stage.events("data"))
    assert stage.claim_phase() == "Pending"


def test_retained_volumes_are_released(stage: ClaimStage) -> None:
    name = stage.make_volume("v")
    stage.make_claim()
    stage.bound()
    stage.objects.delete("v1", CLAIMS, "data")
    eventually(lambda: stage.objects.find("v1", CLAIMS, "data") is None)
    settles(lambda: stage.volume_phase(name), "Released")
    stage.make_claim("next")
    stage.cluster.patch("v1", VOLUMES, name, {"spec": {"claimRef": None}})
    assert stage.bound("next")["spec"]["volumeName"] == name


def test_a_volume_nobody_can_delete_fails(stage: ClaimStage) -> None:
    name = stage.make_volume(
        "v",
        persistentVolumeReclaimPolicy="Delete",
        hostPath=None,
        nfs={"server": "192.0.2.1", "path": "/x"},
    )
    stage.make_claim()
    stage.bound()
    stage.objects.delete("v1", CLAIMS, "data")
    settles(lambda: stage.volume_phase(name), "Failed", seconds=PATIENCE)
    volume = stage.volume(name)
    assert volume is not None
    assert volume["status"]["message"] == (
        f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin '
        "matched"
    )


def test_a_claim_that_loses_its_volume_is_lost(stage: ClaimStage) -> None:
    name = stage.make_volume("v")
    stage.make_claim()
    stage.bound()
    stage.cluster.delete("v1", VOLUMES, name)
    # Protected while it is bound: somebody must insist.
    volume = stage.volume(name)
    assert volume is not None
    assert volume["metadata"]["deletionTimestamp"]
    stage.cluster.patch("v1", VOLUMES, name, {"metadata": {"finalizers": None}})
    settles(stage.claim_phase, "Lost", seconds=PATIENCE)
    eventually(lambda: "ClaimLost" in stage.events("data"))
    assert "capacity" not in stage.claim()["status"]


def test_volumes_are_protected_while_bound(stage: ClaimStage) -> None:
    name = stage.make_volume("v")
    stage.make_claim()
    stage.bound()
    stage.cluster.delete("v1", VOLUMES, name)
    settles(lambda: stage.volume_phase(name), "Bound")
    stage.objects.delete("v1", CLAIMS, "data")
    eventually(lambda: stage.volume(name) is None)


def test_many_claims_share_many_volumes(stage: ClaimStage) -> None:
    """Each gets one of its own, whatever the order."""
    names = set()
    for number in range(8):
        stage.make_claim(f"c{number}")
        names.add(stage.make_volume(f"v{number}"))
    got = [stage.bound(f"c{number}")["spec"]["volumeName"] for number in range(8)]
    assert set(got) == names
    for name in names:
        settles(partial(stage.volume_phase, name), "Bound")
