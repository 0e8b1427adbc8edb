"""The loop of stateful sets: order and parallel work against an API, refusals, claims."""

from __future__ import annotations

import orjson
import pytest

from corral.cluster.workloads.attempts import PassFailed
from corral.cluster.workloads.revisions import as_sent
from corral.cluster.workloads.statefulset import controller
from corral.cluster.workloads.statefulset.controller import StatefulSets
from corral.kube.errors import Forbidden
from corral.kube.resources import (
    CONTROLLERREVISIONS,
    PERSISTENTVOLUMECLAIMS,
    PODS,
    STATEFULSETS,
)
from corral.kube.types import Obj
from tests.unit.cluster.workloads.deployment.apps_world import NOW, World, going, workload

CLAIMS = [{"metadata": {"name": "data"}, "spec": {}}]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def sets(world: World) -> StatefulSets:
    return StatefulSets(world.manager, now=lambda: NOW)


def put(world: World, replicas: int, **spec: object) -> Obj:
    return world.put(STATEFULSETS, workload(replicas=replicas, serviceName="web", **spec))


def run_all(world: World) -> None:
    for one in world.all(PODS):
        conditions = [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        ]
        world.put(PODS, {**one, "status": {"phase": "Running", "conditions": conditions}})


def names(world: World) -> list[str]:
    return sorted(one["metadata"]["name"] for one in world.all(PODS))


async def test_one_pod_after_the_other(sets: StatefulSets, world: World) -> None:
    put(world, 2, volumeClaimTemplates=CLAIMS)
    await sets.reconcile("ns/web")
    assert names(world) == ["web-0"]
    assert [one["metadata"]["name"] for one in world.all(PERSISTENTVOLUMECLAIMS)] == ["data-web-0"]
    run_all(world)
    await sets.reconcile("ns/web")
    assert names(world) == ["web-0", "web-1"]
    assert len(world.all(CONTROLLERREVISIONS)) == 1
    assert [reason for reason, _ in world.said] == ["SuccessfulCreate"] * 4


async def test_parallel_pods_in_batches(sets: StatefulSets, world: World) -> None:
    put(world, 10, podManagementPolicy="Parallel")
    await sets.reconcile("ns/web")
    assert len(names(world)) == 10
    assert max(world.most_at_once) == 4
    run_all(world)
    await sets.reconcile("ns/web")
    assert world.find(STATEFULSETS, "ns/web")["status"]["readyReplicas"] == 10


async def test_a_refusal_ends_the_batches(sets: StatefulSets, world: World) -> None:
    world.refuse = lambda verb, resource, obj: (
        Forbidden("quota") if verb == "create" and resource is PODS else None
    )
    put(world, 10, podManagementPolicy="Parallel")
    with pytest.raises(PassFailed):
        await sets.reconcile("ns/web")
    assert sum(call.startswith("create pods") for call in world.calls) == 1
    [(reason, message)] = world.said
    assert reason == "FailedCreate"
    assert message == "Create Pod web-0 in StatefulSet web failed error: quota"
    assert world.find(STATEFULSETS, "ns/web")["status"]["observedGeneration"] == 1


async def test_scales_down_side_by_side(sets: StatefulSets, world: World) -> None:
    put(world, 4, podManagementPolicy="Parallel")
    await sets.reconcile("ns/web")
    run_all(world)
    found = world.find(STATEFULSETS, "ns/web")
    world.put(STATEFULSETS, {**found, "spec": {**found["spec"], "replicas": 1}})
    await sets.reconcile("ns/web")
    assert names(world) == ["web-0"]


async def test_adopts_the_revisions_it_finds(sets: StatefulSets, world: World) -> None:
    put(world, 0)
    await sets.reconcile("ns/web")
    [revision] = world.all(CONTROLLERREVISIONS)
    meta = {k: v for k, v in revision["metadata"].items() if k != "ownerReferences"}
    world.put(CONTROLLERREVISIONS, {**revision, "metadata": meta})
    await sets.reconcile("ns/web")
    [revision] = world.all(CONTROLLERREVISIONS)
    assert revision["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"


async def test_a_namespace_that_is_going(sets: StatefulSets, world: World) -> None:
    world.refuse = lambda verb, resource, obj: going() if verb == "create" else None
    put(world, 1)
    assert await sets.reconcile("ns/web") is None
    assert await sets.reconcile("ns/none") is None
    assert world.said == []


async def test_comes_back_when_pods_become_available(sets: StatefulSets, world: World) -> None:
    put(world, 1, minReadySeconds=30)
    await sets.reconcile("ns/web")
    [one] = world.all(PODS)
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-04T11:59:50Z"}]
    world.put(PODS, {**one, "status": {"phase": "Running", "conditions": conditions}})
    result = await sets.reconcile("ns/web")
    assert result is not None
    assert result.requeue_after == 20.0


def test_registers(world: World) -> None:
    controller.register(world.manager)
    assert [one.name for one in world.manager._controllers] == ["statefulset"]


def test_revisions_are_sent_as_the_server_would_write_them() -> None:
    sent = as_sent({"data": {"b": "<&>\u2028", "$patch": 1}})
    assert orjson.dumps(sent) == b'{"data":{"$patch":1,"b":"\\u003c\\u0026\\u003e\\u2028"}}'
