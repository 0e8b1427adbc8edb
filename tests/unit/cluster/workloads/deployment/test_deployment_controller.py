"""The loop of deployments: what it writes, whom it listens to, and how it takes refusals."""

from __future__ import annotations

import pytest

from corral.cluster.workloads.attempts import PassFailed
from corral.cluster.workloads.deployment import controller
from corral.cluster.workloads.deployment.controller import Deployments
from corral.kube.errors import Forbidden
from corral.kube.resources import DEPLOYMENTS, PODS, REPLICASETS
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

REVISION = "deployment.kubernetes.io/revision"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def deployments(world: World) -> Deployments:
    return Deployments(world.manager, now=lambda: NOW)


def put(world: World, replicas: int = 2, **spec: object) -> Obj:
    spec = {"progressDeadlineSeconds": 600, **spec}
    return world.put(DEPLOYMENTS, workload(replicas=replicas, **spec))


async def settle(deployments: Deployments, world: World) -> None:
    """Pass after pass until nothing is written."""
    before: list[str] = ["begin"]
    while before != world.calls:
        before = list(world.calls)
        await deployments.reconcile("ns/web")


async def test_makes_a_set_and_notes_the_revision(deployments: Deployments, world: World) -> None:
    put(world)
    await settle(deployments, world)
    [one] = world.all(REPLICASETS)
    assert one["spec"]["replicas"] == 2
    found = world.find(DEPLOYMENTS, "ns/web")
    assert found["metadata"]["annotations"] == {REVISION: "1"}
    assert found["status"]["observedGeneration"] == 1
    name = one["metadata"]["name"]
    assert world.said == [("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 2")]


async def test_a_conflict_is_no_failure(deployments: Deployments, world: World) -> None:
    put(world)
    world.lagging = True
    world.put(DEPLOYMENTS, world.find(DEPLOYMENTS, "ns/web"))
    with pytest.raises(NotYetConsistent):
        await deployments.reconcile("ns/web")


async def test_a_refused_set_is_said_and_tried_again(
    deployments: Deployments, world: World
) -> None:
    world.refuse = lambda verb, resource, obj: Forbidden("no") if verb == "create" else None
    put(world)
    with pytest.raises(PassFailed):
        await deployments.reconcile("ns/web")
    assert world.said[-1][0] == "ReplicaSetCreateError"
    conditions = world.find(DEPLOYMENTS, "ns/web")["status"]["conditions"]
    assert [one["reason"] for one in conditions] == ["ReplicaSetCreateError"]


async def test_nothing_is_said_in_a_namespace_that_is_going(
    deployments: Deployments, world: World
) -> None:
    world.refuse = lambda verb, resource, obj: going() if verb == "create" else None
    put(world)
    assert await deployments.reconcile("ns/web") is None
    assert world.said == []


async def test_a_taken_name_is_counted_and_another_one_tried(
    deployments: Deployments, world: World
) -> None:
    put(world)
    await settle(deployments, world)
    [one] = world.all(REPLICASETS)
    name = one["metadata"]["name"]
    world.drop(REPLICASETS, f"ns/{name}")
    stranger = workload(name, replicas=0, selector={"matchLabels": {"app": "other"}})
    world.put(REPLICASETS, stranger)
    with pytest.raises(PassFailed):
        await deployments.reconcile("ns/web")
    assert world.find(DEPLOYMENTS, "ns/web")["status"]["collisionCount"] == 1
    await settle(deployments, world)
    assert len(world.all(REPLICASETS)) == 2


async def test_comes_back_for_its_deadline(deployments: Deployments, world: World) -> None:
    put(world)
    await settle(deployments, world)
    result = await deployments.reconcile("ns/web")
    assert result is not None
    assert 600 <= result.requeue_after <= 601


async def test_recreate_hears_of_pods_that_end(deployments: Deployments, world: World) -> None:
    put(world, strategy={"type": "Recreate"})
    await settle(deployments, world)
    [one] = world.all(REPLICASETS)
    mine, orphan = pod("a", owner=one), pod("b")
    ended = {**mine, "status": {"phase": "Succeeded"}}
    assert deployments.recreated_by(Change("deleted", mine, None)) == ["ns/web"]
    assert deployments.recreated_by(Change("updated", mine, ended)) == ["ns/web"]
    assert deployments.recreated_by(Change("updated", mine, mine)) == []
    assert deployments.recreated_by(Change("deleted", orphan, None)) == []
    world.put(PODS, mine)
    world.put(DEPLOYMENTS, _with_image(world.find(DEPLOYMENTS, "ns/web")))
    await settle(deployments, world)
    assert len(world.all(REPLICASETS)) == 1
    world.drop(PODS, "ns/a")
    await settle(deployments, world)
    assert len(world.all(REPLICASETS)) == 2


def _with_image(found: Obj) -> Obj:
    template = {**found["spec"]["template"], "spec": {"containers": [{"image": "new"}]}}
    return {**found, "spec": {**found["spec"], "template": template}}


async def test_adopts_sets(deployments: Deployments, world: World) -> None:
    orphan = workload("old", replicas=0)
    orphan["metadata"]["labels"] = {"app": "web"}
    world.put(REPLICASETS, orphan)
    owner = put(world)
    await settle(deployments, world)
    [reference] = world.find(REPLICASETS, "ns/old")["metadata"]["ownerReferences"]
    assert reference["uid"] == owner["metadata"]["uid"]
    assert owned_by(world.find(DEPLOYMENTS, "ns/web"))[0]["uid"] == reference["uid"]


async def test_unknown_deployments_are_forgotten(deployments: Deployments) -> None:
    assert await deployments.reconcile("ns/none") is None


def test_registers(world: World) -> None:
    controller.register(world.manager)
    assert [one.name for one in world.manager._controllers] == ["deployment"]
