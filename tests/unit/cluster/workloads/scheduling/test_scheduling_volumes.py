"""Volume claims: which nodes they allow, and what they need there."""

from __future__ import annotations

from typing import Any

import pytest
from scheduling_objects import HOST, cluster, expression, node, outcome, pod

from corral.cluster.scheduler.placement import ClusterState, Cycle, PodEvent, VolumePlan
from corral.cluster.scheduler.placement.events import StorageEvent
from corral.cluster.scheduler.placement.hints import worth_retrying
from corral.cluster.scheduler.placement.volumes import VolumeFilter
from corral.kube.types import Obj

NO_HELP = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."


def claim(name: str, size: str = "1Gi", *, volume: str = "", **more: Any) -> Obj:
    meta: Obj = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if volume:
        meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    meta |= more.pop("meta", {})
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "volumeName": volume,
        **more,
    }
    return {"metadata": meta, "spec": spec, "status": {"phase": "Bound" if volume else "Pending"}}


def volume(name: str, size: str = "1Gi", *on: str, phase: str = "Available", **more: Any) -> Obj:
    spec: Obj = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "storageClassName": "later",
        **more,
    }
    if on:
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression(HOST, "In", *on)]}]}
        spec["nodeAffinity"] = {"required": terms}
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}


def storage_class(name: str = "later", mode: str = "WaitForFirstConsumer", **more: Any) -> Obj:
    made = {"metadata": {"name": name}, "provisioner": "example.test/x", "volumeBindingMode": mode}
    return {**made, **more}


def user(*claims: str, **more: Any) -> Obj:
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return pod("p", volumes=volumes, **more)


def world(*objects: Obj) -> ClusterState:
    state = cluster([node("a"), node("b")])
    for obj in objects:
        if "provisioner" in obj:
            state.storage.classes[obj["metadata"]["name"]] = obj
        elif "namespace" in obj["metadata"]:
            state.storage.set_claim(obj)
        else:
            state.storage.set_volume(obj)
    return state


def plan(state: ClusterState, item: Obj, on: str) -> VolumePlan:
    return Cycle(state, state.info(item)).volume_plan(on)


PROBLEMS = {
    "missing": (user("data"), [], 'persistentvolumeclaim "data" not found'),
    "lost": (
        user("data"),
        [claim("data", volume="v") | {"status": {"phase": "Lost"}}],
        'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"',
    ),
    "going": (
        user("data"),
        [claim("data", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
        'persistentvolumeclaim "data" is being deleted',
    ),
    "immediate": (
        user("data"),
        [claim("data")],
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    "prebound": (
        user("data"),
        [
            storage_class(),
            claim("data", storageClassName="later") | {"spec": {"volumeName": "v"}},
        ],
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    "ephemeral": (
        pod("p", volumes=[{"name": "v", "ephemeral": {}}]),
        [],
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"',
    ),
    "not ours": (
        pod("p", volumes=[{"name": "v", "ephemeral": {}}]),
        [claim("p-v")],
        "PVC default/p-v was not created for pod default/p (pod is not owner)",
    ),
}


@pytest.mark.parametrize(("item", "objects", "reason"), PROBLEMS.values(), ids=PROBLEMS)
def test_claims_that_keep_a_pod_from_every_node(item: Obj, objects: list[Obj], reason: str) -> None:
    state = world(*objects)
    assert outcome(state, item) == f"0/2 nodes are available: {reason}. not found"


def test_an_ephemeral_claim_of_the_pod_itself() -> None:
    item = pod("p", volumes=[{"name": "v", "ephemeral": {}}])
    owner = {"ownerReferences": [{"controller": True, "uid": item["metadata"]["uid"]}]}
    state = world(volume("v", "1Gi", "b"), claim("p-v", volume="v", meta=owner))
    assert outcome(state, item) == "b"


def test_a_bound_volume_decides() -> None:
    state = world(volume("v", "1Gi", "b"), claim("data", volume="v"))
    assert outcome(state, user("data")) == "b"
    assert not plan(state, user("data"), "b")


def test_a_volume_that_no_node_can_use_or_that_is_gone() -> None:
    state = world(volume("v", "1Gi", "z"), claim("data", volume="v"))
    reason = "2 node(s) didn't match PersistentVolume's node affinity"
    assert outcome(state, user("data")) == f"0/2 nodes are available: {reason}. {NO_HELP}"
    state.storage.remove_volume("v")
    reason = "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    assert outcome(state, user("data")) == f"0/2 nodes are available: {reason}. {NO_HELP}"


def test_a_claim_is_provisioned_for_the_node() -> None:
    state = world(storage_class(), claim("data", storageClassName="later"))
    item = user("data", nodeSelector={HOST: "b"})
    assert outcome(state, item) == "b"
    assert plan(state, item, "b") == VolumePlan(provisions=("default/data",))
    state.storage.assume("a", provisions=("default/data",), bindings=())
    assert outcome(state, user("data")) == "a"
    state.storage.forget(provisions=("default/data",), bindings=())
    annotation = {"annotations": {"volume.kubernetes.io/selected-node": "b"}}
    state.storage.set_claim(claim("data", storageClassName="later", meta=annotation))
    assert outcome(state, user("data")) == "b"


def test_topologies_of_a_class() -> None:
    allowed = [{"matchLabelExpressions": [{"key": HOST, "values": ["b"]}]}]
    chosen = storage_class(allowedTopologies=allowed)
    state = world(chosen, claim("data", storageClassName="later"))
    assert outcome(state, user("data")) == "b"


LOCAL = storage_class(provisioner="kubernetes.io/no-provisioner")


def test_the_smallest_volume_that_suits() -> None:
    state = world(
        LOCAL,
        volume("tiny", "1Gi", "a"),
        volume("huge", "50Gi", "a"),
        volume("right", "10Gi", "a"),
        volume("other-node", "5Gi", "b"),
        volume("used", "5Gi", "a", phase="Bound"),
        volume("block", "5Gi", "a", volumeMode="Block"),
        volume("other-class", "5Gi", "a", storageClassName="x"),
        volume("read-only", "5Gi", "a", accessModes=["ReadOnlyMany"]),
        volume("taken", "5Gi", "a", claimRef={"namespace": "default", "name": "else"}),
        claim("data", "5Gi", storageClassName="later"),
    )
    found = plan(state, user("data"), "a")
    assert found == VolumePlan(bindings=(("default/data", "right"),))
    state.storage.assume("a", provisions=(), bindings=found.bindings)
    state.storage.set_claim(claim("more", "5Gi", storageClassName="later"))
    assert plan(state, user("more"), "a").bindings == (("default/more", "huge"),)


def test_each_claim_gets_a_volume_of_its_own() -> None:
    state = world(
        LOCAL,
        volume("v1", "1Gi", "a"),
        volume("v2", "2Gi", "a"),
        claim("one", "1Gi", storageClassName="later"),
        claim("two", "1Gi", storageClassName="later"),
    )
    assert outcome(state, user("one", "two")) == "a"
    assert {v for _, v in plan(state, user("one", "two"), "a").bindings} == {"v1", "v2"}


def test_a_selector_and_a_reserved_volume() -> None:
    selector = {"matchLabels": {"tier": "fast"}}
    state = world(
        LOCAL,
        volume("slow", "1Gi", "a"),
        claim("data", storageClassName="later", selector=selector),
    )
    assert "didn't find available persistent volumes to bind" in outcome(state, user("data"))
    mine = volume("mine", "1Gi", "b", claimRef={"namespace": "default", "name": "data"})
    state.storage.set_volume(mine)
    assert outcome(state, user("data")) == "b"


def test_a_claim_for_one_pod_only() -> None:
    modes = {"accessModes": ["ReadWriteOncePod"]}
    state = world(volume("v"), claim("data", volume="v", **modes))
    first = user("data") | {"metadata": {**user()["metadata"], "name": "q", "uid": "q"}}
    state.set_pod(first | {"spec": {**first["spec"], "nodeName": "a"}})
    reason = (
        "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod"
    )
    assert outcome(state, user("data")).startswith(f"0/2 nodes are available: {reason}. ")
    assert outcome(state, user("data", priority=5)).endswith("preempting 1 victims")
    state.remove_pod(first)
    assert outcome(state, user("data")) in ("a", "b")
    assert not state.storage.users


def test_trials_count_users() -> None:
    modes = {"accessModes": ["ReadWriteOncePod"]}
    state = world(volume("v"), claim("data", volume="v", **modes))
    info = state.info(user("data"))
    check = VolumeFilter(state.storage, info)
    check.update(info, 1)
    assert check.check(state.nodes["a"]) is not None
    check.update(info, -1)
    assert check.check(state.nodes["a"]) is None


def test_which_events_help() -> None:
    state = world()
    info = state.info(user("data"))
    rules = ["VolumeBinding"]
    assert worth_retrying(state, info, rules, StorageEvent("default", "data"))
    assert not worth_retrying(state, info, rules, StorageEvent("default", "other"))
    assert not worth_retrying(state, info, rules, StorageEvent("else", "data"))
    assert worth_retrying(state, info, rules, StorageEvent())
    assert not worth_retrying(state, info, ["NodeResourcesFit"], StorageEvent())
    other_pod = {"meta": {"uid": "another"}, "on": "a"}
    gone = PodEvent.of(user("data", **other_pod), None)
    assert worth_retrying(state, info, ["VolumeRestrictions"], gone)
    other = PodEvent.of(user("other", **other_pod), None)
    assert not worth_retrying(state, info, ["VolumeRestrictions"], other)
