"""The loop of replica sets: batches, claims, refusals, caches that lag, re-checks."""

from __future__ import annotations

import pytest

from corral.cluster.workloads.attempts import PassFailed
from corral.cluster.workloads.deployment import replicaset_controller
from corral.cluster.workloads.deployment.replicaset_controller import (
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    ReplicaSets,
)
from corral.kube.errors import Forbidden
from corral.kube.resources import DEPLOYMENTS, PODS, REPLICASETS, REPLICATIONCONTROLLERS
from corral.kube.types import Obj
from corral.runtime import Change, NotYetConsistent
from tests.unit.cluster.workloads.deployment.apps_world import (
    NOW,
    World,
    going,
    owned_by,
    pod,
    workload,
)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def sets(world: World) -> ReplicaSets:
    return ReplicaSets(REPLICA_SETS, world.manager, now=lambda: NOW)


def put_set(world: World, replicas: int, **spec: object) -> Obj:
    return world.put(REPLICASETS, workload(replicas=replicas, **spec))


async def test_creates_in_batches_that_double(world: World, sets: ReplicaSets) -> None:
    put_set(world, 20)
    assert await sets.reconcile("ns/web") is None
    assert len(world.all(PODS)) == 20
    assert world.most_at_once[:-1] == [1, 1, 2, *range(1, 5), *range(1, 9), *range(1, 6)]
    assert world.calls.count("create pods web-") == 20
    assert world.find(REPLICASETS, "ns/web")["status"] == {
        "replicas": 0, "observedGeneration": 1, "terminatingReplicas": 0,
    }  # fmt: skip
    await sets.reconcile("ns/web")
    assert world.find(REPLICASETS, "ns/web")["status"]["replicas"] == 20
    before = list(world.calls)
    await sets.reconcile("ns/web")
    assert world.calls == before


async def test_a_refusal_ends_the_batches(world: World, sets: ReplicaSets) -> None:
    world.refuse = lambda verb, resource, obj: Forbidden("quota") if verb == "create" else None
    put_set(world, 20)
    with pytest.raises(PassFailed):
        await sets.reconcile("ns/web")
    assert world.calls == ["create pods web-", "patch status replicasets web"]
    [condition] = world.find(REPLICASETS, "ns/web")["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == ("FailedCreate", "quota")
    assert world.said == [("FailedCreate", "Error creating: quota")]


async def test_nothing_is_made_of_a_namespace_that_is_going(
    world: World, sets: ReplicaSets
) -> None:
    world.refuse = lambda verb, resource, obj: going() if verb == "create" else None
    put_set(world, 2)
    await sets.reconcile("ns/web")
    assert world.said == []
    assert "conditions" not in world.find(REPLICASETS, "ns/web")["status"]


async def test_deletes_what_is_too_much_at_once(world: World, sets: ReplicaSets) -> None:
    owner = put_set(world, 1)
    for number in range(4):
        world.put(PODS, pod(f"p{number}", owner=owner, ready=number == 2))
    await sets.reconcile("ns/web")
    assert [one["metadata"]["name"] for one in world.all(PODS)] == ["p2"]
    assert sum(reason == "SuccessfulDelete" for reason, _ in world.said) == 3


async def test_siblings_count_when_a_node_is_chosen(world: World, sets: ReplicaSets) -> None:
    deployment = world.put(DEPLOYMENTS, workload())
    body, sibling = workload(replicas=1), workload("old", replicas=2)
    for one in (body, sibling):
        one["metadata"]["ownerReferences"] = owned_by(deployment)
    owner, other = world.put(REPLICASETS, body), world.put(REPLICASETS, sibling)
    for name, node, of in (("a", "n1", owner), ("b", "n2", owner), ("c", "n2", other)):
        placed = pod(name, owner=of)
        placed["spec"]["nodeName"] = node
        world.put(PODS, placed)
    await sets.reconcile("ns/web")
    assert "delete pods b" in world.calls


async def test_adopts_and_releases(world: World, sets: ReplicaSets) -> None:
    owner = put_set(world, 2)
    world.put(PODS, pod("stray"))
    world.put(PODS, pod("stranger", owner=owner, app="other"))
    world.put(PODS, pod("mine", owner=owner))
    await sets.reconcile("ns/web")
    assert world.find(PODS, "ns/stray")["metadata"]["ownerReferences"][0]["controller"]
    assert "ownerReferences" not in world.find(PODS, "ns/stranger")["metadata"]
    assert not [call for call in world.calls if call.startswith("create")]


async def test_a_set_that_is_gone_adopts_nothing(world: World, sets: ReplicaSets) -> None:
    put_set(world, 1)
    world.put(PODS, pod("stray"))
    found = world.find(REPLICASETS, "ns/web")
    world.objects["replicasets", "ns/web"] = {
        **found, "metadata": {**found["metadata"], "deletionTimestamp": "2026-03-04T12:00:00Z"},
    }  # fmt: skip
    with pytest.raises(NotYetConsistent):
        await sets.reconcile("ns/web")
    assert world.calls == []


class Behind:
    """A cache of a version that the case chooses."""

    version = "1"


async def test_does_not_decide_on_an_old_cache(world: World, sets: ReplicaSets) -> None:
    put_set(world, 3)
    world.lagging = True
    cache = Behind()
    sets._consistency._caches["pods"] = cache
    await sets.reconcile("ns/web")
    with pytest.raises(NotYetConsistent):
        await sets.reconcile("ns/web")
    assert len(world.all(PODS)) == 3
    cache.version = "1000"
    for one in world.all(PODS):
        world.lagging = False
        world.put(PODS, one)
    await sets.reconcile("ns/web")
    assert len(world.all(PODS)) == 3


async def test_comes_back_when_pods_become_available(world: World, sets: ReplicaSets) -> None:
    owner = put_set(world, 1, minReadySeconds=10)
    world.put(PODS, pod("p", owner=owner))
    result = await sets.reconcile("ns/web")
    assert result is not None
    assert result.requeue_after == 9.0
    assert "availableReplicas" not in world.find(REPLICASETS, "ns/web")["status"]


async def test_an_owner_that_vanished_is_no_failure(world: World, sets: ReplicaSets) -> None:
    put_set(world, 0)
    world.lagging = True
    world.drop(REPLICASETS, "ns/web")
    with pytest.raises(NotYetConsistent):
        await sets.reconcile("ns/web")
    assert await sets.reconcile("ns/unknown") is None


async def test_counts_pods_that_are_going(world: World, sets: ReplicaSets) -> None:
    owner = put_set(world, 0)
    leaving = pod("p", owner=owner)
    leaving["metadata"]["deletionTimestamp"] = "2026-03-04T12:00:00Z"
    world.put(PODS, leaving)
    await sets.reconcile("ns/web")
    assert world.find(REPLICASETS, "ns/web")["status"]["terminatingReplicas"] == 1


async def test_replication_controllers(world: World) -> None:
    loop = ReplicaSets(REPLICATION_CONTROLLERS, world.manager, now=lambda: NOW)
    body = workload(replicas=1, selector={"app": "web"})
    world.put(REPLICATIONCONTROLLERS, body)
    world.put(PODS, pod("stray"))
    await loop.reconcile("ns/web")
    [owner] = world.find(PODS, "ns/stray")["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"]) == ("v1", "ReplicationController")
    found = world.find(REPLICATIONCONTROLLERS, "ns/web")
    assert found["spec"]["selector"] == {"app": "web"}
    assert found["status"]["replicas"] == 1
    assert "terminatingReplicas" not in found["status"]


def test_who_is_woken(world: World, sets: ReplicaSets) -> None:
    owner = put_set(world, 1)
    world.put(REPLICASETS, workload("all", selector={"matchExpressions": []}))
    world.put(REPLICASETS, workload("other", selector={"matchLabels": {"app": "x"}}))
    woken = sets.family.owners_of
    mine, stray = pod("a", owner=owner), pod("b")
    assert woken(Change("added", None, mine)) == ["ns/web"]
    assert sorted(woken(Change("added", None, stray))) == ["ns/all", "ns/web"]
    assert woken(Change("updated", stray, stray)) == []
    assert sorted(woken(Change("updated", mine, stray))) == ["ns/all", "ns/web"]
    assert woken(Change("deleted", mine, None)) == ["ns/web"]
    assert woken(Change("deleted", stray, None)) == []
    relabelled = pod("b", app="x")
    assert sorted(woken(Change("updated", stray, relabelled))) == ["ns/all", "ns/other"]


def test_registers_both_kinds(world: World) -> None:
    replicaset_controller.register(world.manager)
    assert [one.name for one in world.manager._controllers] == [
        "replicaset",
        "replicationcontroller",
    ]
