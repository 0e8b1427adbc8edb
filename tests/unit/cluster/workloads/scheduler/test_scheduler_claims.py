"""Claims of a pod that has a node: told, awaited, given up."""

from __future__ import annotations

import asyncio
from typing import Any

from scheduler_world import World

from corral.kube import errors
from corral.kube.types import Obj

SELECTED = "volume.kubernetes.io/selected-node"


def claim(version: str = "1", *, volume: str = "", **annotations: str) -> Obj:
    notes = {SELECTED if key == "selected" else key: value for key, value in annotations.items()}
    if volume:
        notes["pv.kubernetes.io/bind-completed"] = "yes"
    return {
        "metadata": {
            "name": "data",
            "namespace": "ns",
            "uid": "uid-data",
            "resourceVersion": version,
            "annotations": notes,
        },
        "spec": {
            "storageClassName": "later",
            "accessModes": ["ReadWriteOnce"],
            "volumeName": volume,
        },
    }


def volume(name: str = "v", **spec: Any) -> Obj:
    return {
        "metadata": {"name": name, "resourceVersion": "5"},
        "spec": {
            "storageClassName": "later",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            **spec,
        },
        "status": {"phase": "Available"},
    }


def later(provisioner: str = "example.test/x") -> Obj:
    meta = {"name": "later"}
    mode = "WaitForFirstConsumer"
    return {"metadata": meta, "provisioner": provisioner, "volumeBindingMode": mode}


USES = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]


def begin(world: World, provisioner: str = "example.test/x") -> Obj:
    world.node("a")
    world.see(world.feed.storage_class, later(provisioner))
    world.see(world.feed.claim, claim())
    return world.pod("p", volumes=USES)


async def test_a_claim_is_told_the_node_and_waited_for() -> None:
    async with World() as world:
        begin(world)
        await world.turns()
        assert world.client.of("patch") == [
            ("data", {"metadata": {"uid": "uid-data", "annotations": {SELECTED: "a"}}})
        ]
        assert not world.client.of("bind")
        world.see(world.feed.claim, claim("9", selected="a"))
        await world.turns()
        assert not world.client.of("bind")
        world.see(world.feed.volume, volume())
        world.see(world.feed.claim, claim("10", volume="v", selected="a"))
        await world.turns()
        assert world.client.bound() == {"p": "a"}


async def test_a_provisioner_that_gives_up() -> None:
    async with World() as world:
        begin(world)
        await world.turns()
        world.see(world.feed.claim, claim("10"))
        await world.turns()
        told = [body for name, body in world.client.of("patch") if name == "p"]
        assert told[0]["status"]["conditions"][0]["message"] == (
            'binding rejected: binding volumes: provisioning failed for PVC "data"'
        )
        assert len(world.scheduler.queue) == 1


async def test_a_volume_is_reserved_for_the_claim() -> None:
    async with World() as world:
        world.see(world.feed.volume, volume())
        begin(world, "kubernetes.io/no-provisioner")
        await world.turns()
        ((name, body),) = world.client.of("patch")
        assert name == "v"
        assert body["metadata"]["resourceVersion"] == "5"
        assert body["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
        assert body["spec"]["claimRef"]["uid"] == "uid-data"
        world.see(world.feed.claim, claim("7", volume="v"))
        await world.turns()
        assert world.client.bound() == {"p": "a"}


async def test_a_volume_that_is_reserved_already_is_not_written() -> None:
    async with World() as world:
        mine = {"namespace": "ns", "name": "data", "uid": "uid-data"}
        world.see(world.feed.volume, volume(claimRef=mine))
        begin(world, "kubernetes.io/no-provisioner")
        await world.turns()
        assert not world.client.calls


async def test_a_volume_that_another_took_is_not_lost_for_good() -> None:
    async with World() as world:
        world.client.fail["patch", "v"] = errors.Conflict("changed")
        world.see(world.feed.volume, volume())
        begin(world, "kubernetes.io/no-provisioner")
        await world.turns()
        assert len(world.scheduler.queue) == 1
        world.now += 2
        world.scheduler.wake()
        await world.turns()
        assert [name for name, _ in world.client.of("patch") if name == "v"] == ["v", "v"]


async def test_claims_and_pods_that_go_meanwhile() -> None:
    async with World() as world:
        begin(world)
        await world.turns()
        world.see(world.feed.claim, claim(), gone=True)
        await world.turns()
        assert not world.client.of("bind")
    async with World() as world:
        pod = begin(world)
        await world.turns()
        world.see(world.feed.pod, pod, gone=True)
        world.see(world.feed.claim, claim("9", selected="a"))
        await world.turns()
        assert len(world.scheduler.queue) == 0


async def test_the_end_does_not_wait_for_claims() -> None:
    async with World() as world:
        begin(world)
        await world.turns()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("claims")]
