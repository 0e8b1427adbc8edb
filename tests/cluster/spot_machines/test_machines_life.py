"""Machines that jobs wish for become nodes; others go, and leave nothing."""

from __future__ import annotations

from corral.api.spot.kinds import INSTANCE_LABEL, VM_FINALIZER
from tests.cluster.objects import eventually
from tests.cluster.spot_machines.machines_stage import API, JOBS, VMS, Stage


def test_a_wished_machine_is_a_node_until_it_is_not_wished(stage: Stage) -> None:
    stage.vm()
    stage.job()
    stage.start()
    stage.wish("m-0-1")
    entry = stage.await_entry("m-0-1", joinedCluster=True)
    assert entry["state"] == "RUNNING"
    assert entry["nodeName"] == "m-0-1"
    assert entry["job"] == "train"
    assert entry["instanceID"] == stage.machines()["m-0-1"].id
    node = stage.await_node("m-0-1")
    assert node["metadata"]["labels"][INSTANCE_LABEL] == "m-0-1"
    taint = {"key": INSTANCE_LABEL, "value": "m-0-1", "effect": "NoSchedule"}
    assert taint in node["spec"]["taints"]
    vm = stage.objects.get(API, VMS, "here")
    assert vm["metadata"]["finalizers"] == [VM_FINALIZER]
    assert vm["status"]["phase"] == "Ready"
    stage.wish()
    ended = stage.await_entry("m-0-1", state="TERMINATED", reason="Deleted")
    assert ended["endTime"]
    assert stage.machines() == {}
    assert stage.node("m-0-1") is None
    assert stage.status()["phase"] == "Idle"


def test_machines_go_with_their_job_and_with_the_object(stage: Stage) -> None:
    stage.vm()
    stage.job()
    stage.job("other")
    stage.start()
    stage.wish("m-0-1")
    stage.wish("o-0-1", job="other")
    stage.await_entry("m-0-1", joinedCluster=True)
    stage.await_entry("o-0-1", joinedCluster=True)
    stage.objects.delete(API, JOBS, "train")
    stage.await_entry("m-0-1", state="TERMINATED")
    assert set(stage.machines()) == {"o-0-1"}
    stage.objects.delete(API, VMS, "here")
    eventually(lambda: stage.objects.find(API, VMS, "here") is None)
    assert stage.machines() == {}
    assert stage.nodes() == set()


def test_prices_are_told_before_anybody_wishes(stage: Stage) -> None:
    stage.vm(zones=["local-b"])
    stage.start()
    offers = eventually(lambda: stage.status().get("offers"))
    assert [(each["zone"], each["provisioningModel"]) for each in offers] == [
        ("local-a", "Spot"),
        ("local-b", "Spot"),
        ("local-a", "OnDemand"),
        ("local-b", "OnDemand"),
    ]
    assert offers[0]["pricePerHour"] < offers[2]["pricePerHour"]
