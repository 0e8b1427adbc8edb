"""The loop of daemon sets: nodes, revisions and their names, refusals."""

from __future__ import annotations

import pytest

from corral.cluster.workloads.attempts import PassFailed
from corral.cluster.workloads.daemonset import controller
from corral.cluster.workloads.daemonset.controller import DaemonSets
from corral.kube.errors import Forbidden
from corral.kube.resources import CONTROLLERREVISIONS, DAEMONSETS, NODES, PODS
from corral.kube.types import Obj
from corral.runtime import Change, NotYetConsistent
from tests.unit.cluster.workloads.deployment.apps_world import NOW, World, workload


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def sets(world: World) -> DaemonSets:
    return DaemonSets(world.manager, now=lambda: NOW)


def node(name: str, *, taint: str = "", **labels: str) -> Obj:
    taints = [{"key": "t", "effect": taint}] if taint else []
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}


def put(world: World, **spec: object) -> Obj:
    return world.put(DAEMONSETS, workload(**spec))


async def test_a_pod_for_every_node(sets: DaemonSets, world: World) -> None:
    for name in ("a", "b", "c"):
        world.put(NODES, node(name))
    put(world)
    await sets.reconcile("ns/web")
    assert len(world.all(PODS)) == 3
    await sets.reconcile("ns/web")
    status = world.find(DAEMONSETS, "ns/web")["status"]
    assert (status["desiredNumberScheduled"], status["currentNumberScheduled"]) == (3, 3)
    before = list(world.calls)
    await sets.reconcile("ns/web")
    assert world.calls == before


async def test_a_taken_revision_name_is_counted(sets: DaemonSets, world: World) -> None:
    put(world)
    await sets.reconcile("ns/web")
    [revision] = world.all(CONTROLLERREVISIONS)
    meta = {**revision["metadata"], "labels": {}, "ownerReferences": []}
    world.put(CONTROLLERREVISIONS, {**revision, "metadata": meta, "data": {"spec": {}}})
    with pytest.raises(PassFailed):
        await sets.reconcile("ns/web")
    assert world.find(DAEMONSETS, "ns/web")["status"]["collisionCount"] == 1
    await sets.reconcile("ns/web")
    assert len(world.all(CONTROLLERREVISIONS)) == 2


async def test_its_own_revision_is_taken_up(sets: DaemonSets, world: World) -> None:
    """A pass that was cut short after the revision was made, with a cache that is behind."""
    put(world)
    world.lagging = True
    await sets.reconcile("ns/web")
    world.calls.clear()
    sets._consistency.clear("ns/web")
    await sets.reconcile("ns/web")
    assert len(world.all(CONTROLLERREVISIONS)) == 1


async def test_a_refused_pod_does_not_stop_the_status(sets: DaemonSets, world: World) -> None:
    world.refuse = lambda verb, resource, obj: (
        Forbidden("quota") if verb == "create" and resource is PODS else None
    )
    for name in ("a", "b", "c"):
        world.put(NODES, node(name))
    put(world)
    with pytest.raises(PassFailed):
        await sets.reconcile("ns/web")
    assert sum(call.startswith("create pods") for call in world.calls) == 1
    assert world.find(DAEMONSETS, "ns/web")["status"]["desiredNumberScheduled"] == 3


async def test_an_old_template_becomes_the_newest_revision(sets: DaemonSets, world: World) -> None:
    first = put(world, revisionHistoryLimit=1)
    await sets.reconcile("ns/web")
    for image in ("2", "", "3"):
        found = world.find(DAEMONSETS, "ns/web")
        template = {**first["spec"]["template"], "spec": {"containers": [{"image": image}]}}
        if not image:
            template = first["spec"]["template"]
        world.put(DAEMONSETS, {**found, "spec": {**found["spec"], "template": template}})
        await sets.reconcile("ns/web")
    await sets.reconcile("ns/web")
    assert sorted(one["revision"] for one in world.all(CONTROLLERREVISIONS)) == [3, 4]


async def test_nothing_is_done_for_one_that_is_going(sets: DaemonSets, world: World) -> None:
    body = workload()
    body["metadata"]["deletionTimestamp"] = "2026-03-04T12:00:00Z"
    world.put(DAEMONSETS, body)
    assert await sets.reconcile("ns/web") is None
    assert await sets.reconcile("ns/none") is None
    assert world.calls == []


async def test_a_selector_for_everything_is_refused(sets: DaemonSets, world: World) -> None:
    put(world, selector={})
    await sets.reconcile("ns/web")
    assert [reason for reason, _ in world.said] == ["SelectingAll"]


async def test_a_failed_pod_is_replaced_after_a_wait(sets: DaemonSets, world: World) -> None:
    world.put(NODES, node("a"))
    put(world)
    await sets.reconcile("ns/web")
    for _ in range(2):
        [one] = world.all(PODS)
        spec = {**one["spec"], "nodeName": "a"}
        world.put(PODS, {**one, "spec": spec, "status": {"phase": "Failed"}})
        result = await sets.reconcile("ns/web")
        if not world.all(PODS):
            await sets.reconcile("ns/web")
    assert result is not None
    assert result.requeue_after == 1.0


async def test_a_status_of_one_that_vanished(sets: DaemonSets, world: World) -> None:
    put(world)
    world.lagging = True
    world.drop(DAEMONSETS, "ns/web")
    with pytest.raises(NotYetConsistent):
        await sets.reconcile("ns/web")


def test_which_nodes_wake_which_sets(sets: DaemonSets, world: World) -> None:
    put(world)
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"nodeSelector": {"gpu": "yes"}}}
    world.put(DAEMONSETS, workload("gpu", template=template))
    plain, gpu = node("n"), node("n", gpu="yes")
    heartbeat = {**plain, "status": {"conditions": []}}
    assert sets.sets_on(Change("added", None, plain)) == ["ns/web"]
    assert sets.sets_on(Change("added", None, gpu)) == ["ns/web", "ns/gpu"]
    assert sets.sets_on(Change("updated", plain, heartbeat)) == []
    assert sets.sets_on(Change("updated", plain, gpu)) == ["ns/gpu"]
    assert sets.sets_on(Change("updated", plain, node("n", taint="NoSchedule"))) == ["ns/web"]
    assert sets.sets_on(Change("deleted", plain, None)) == ["ns/web"]


def test_registers(world: World) -> None:
    controller.register(world.manager)
    assert [one.name for one in world.manager._controllers] == ["daemonset"]
