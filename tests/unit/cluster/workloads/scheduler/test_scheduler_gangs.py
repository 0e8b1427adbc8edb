"""Gangs in the loop: together or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from scheduler_world import World

from corral.kube import errors
from corral.kube.types import Obj

GROUP = ("scheduling.x-k8s.io", "ns", "g")


def group(minimum: int, name: str = "g", **more: Any) -> Obj:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"},
        "spec": {"minMember": minimum, **more},
    }


def member(world: World, name: str, of: str = "g", cpu: str = "1", **more: Any) -> Obj:
    return world.pod(name, cpu, labels={"scheduling.x-k8s.io/pod-group": of}, **more)


def told(world: World, name: str) -> str:
    found = [body for who, body in world.client.of("patch") if who == name]
    return str(found[-1]["status"]["conditions"][0]["message"])


async def test_nobody_starts_before_all_are_there() -> None:
    async with World() as world:
        world.node("a")
        world.see(world.feed.group, group(2))
        member(world, "g0")
        await world.turns()
        assert not world.client.bound()
        assert "current pods number: 1" in told(world, "g0")
        member(world, "g1")
        await world.turns()
        assert world.client.bound() == {"g0": "a", "g1": "a"}
        assert GROUP in world.changed_groups


async def test_without_the_group_they_wait() -> None:
    async with World() as world:
        world.node("a")
        member(world, "g0")
        await world.turns()
        assert told(world, "g0") == "PodGroup ns/g of scheduling.x-k8s.io not found"
        world.see(world.feed.group, group(1))
        await world.turns()
        assert world.client.bound() == {"g0": "a"}


async def test_halves_are_completed_before_anybody_else_is_tried() -> None:
    world = World()
    world.node("a", cpu="3")
    world.see(world.feed.group, group(3))
    world.see(world.feed.group, group(2, "rival"))
    for name in ("r0", "r1"):
        member(world, name, "rival", priority=9)
    member(world, "g0", on="a")
    for name in ("g1", "g2"):
        member(world, name)
    async with world:
        assert world.client.bound() == {"g1": "a", "g2": "a"}


async def test_members_that_succeeded_count() -> None:
    async with World() as world:
        world.node("a")
        world.see(world.feed.group, group(2))
        member(world, "g0", on="a", status={"phase": "Succeeded"})
        member(world, "g1")
        await world.turns()
        assert world.client.bound() == {"g1": "a"}


async def test_a_binding_that_fails_is_made_up_for() -> None:
    async with World() as world:
        world.client.fail["bind", "g1"] = errors.InternalError("no")
        world.node("a")
        world.see(world.feed.group, group(2))
        member(world, "g0")
        member(world, "g1")
        await world.turns()
        world.now += 2
        world.scheduler.wake()
        await world.turns()
        assert [name for name, _ in world.client.of("bind")] == ["g0", "g1", "g1"]


async def test_a_gang_makes_room_once() -> None:
    async with World() as world:
        world.node("a", cpu="1")
        world.node("b", cpu="1")
        old = [world.pod(f"old-{n}", on=n, priority=1) for n in ("a", "b")]
        world.see(world.feed.group, group(2))
        for name in ("g0", "g1"):
            member(world, name, priority=9)
        await world.turns()
        assert {name for name, _ in world.client.of("delete")} == {"old-a", "old-b"}
        assert world.recorder.said("old-a", "Preempted") == [
            "Preempted by podgroup uid-g on node a"
        ]
        assert "preempting 2 victims" in told(world, "g0")
        # One more member meanwhile, and one victim gone: still nothing to do.
        member(world, "g2", priority=9)
        world.see(world.feed.pod, old[0], gone=True)
        await world.turns()
        assert not world.client.bound()
        assert len(world.client.of("delete")) == 2
        world.see(world.feed.pod, old[1], gone=True)
        await world.turns()
        assert len(world.client.bound()) == 2


async def test_an_eviction_for_a_gang_that_fails_is_tried_again() -> None:
    async with World() as world:
        world.client.fail["delete", "old"] = errors.InternalError("no")
        world.node("a", cpu="1")
        world.pod("old", on="a", priority=1)
        world.see(world.feed.group, group(1))
        member(world, "g0", priority=9)
        await world.turns()
        world.now += 2
        world.scheduler.wake()
        await world.turns()
        assert len(world.client.of("delete")) == 2


async def test_a_nomination_of_less_priority_gives_way() -> None:
    async with World() as world:
        world.node("a", cpu="1")
        world.pod("old", on="a", priority=1)
        world.pod("middle", priority=5)
        await world.turns()
        world.see(world.feed.group, group(1))
        member(world, "g0", priority=9)
        await world.turns()
        names = [p.name for p in world.scheduler.state.nominated_on("a").values()]
        assert names == ["g0"]


async def test_a_gang_waits_without_holding_anything() -> None:
    async with World() as world:
        world.node("a", cpu="2")
        world.see(world.feed.group, group(3))
        for name in ("g0", "g1", "g2"):
            member(world, name)
        await world.turns()
        assert "pod group needs 3 pods together, 2 can run" in told(world, "g0")
        assert world.scheduler.gangs.get(GROUP).problem_reason == "NotEnoughResources"
        world.pod("single", "2")
        await world.turns()
        assert world.client.bound() == {"single": "a"}


async def test_a_smaller_minimum_helps() -> None:
    async with World() as world:
        world.node("a", cpu="2")
        world.see(world.feed.group, group(3))
        for name in ("g0", "g1", "g2"):
            member(world, name)
        await world.turns()
        world.see(world.feed.group, group(2))
        await world.turns()
        assert len(world.client.bound()) == 2
        assert world.scheduler.gangs.get(GROUP).problem == ""


async def test_a_group_and_its_pods_are_forgotten() -> None:
    async with World() as world:
        world.see(world.feed.group, group(1))
        pod = member(world, "g0")
        world.see(world.feed.pod, pod, gone=True)
        world.see(world.feed.group, group(1), gone=True)
        assert not list(world.scheduler.gangs)
        world.see(world.feed.pod, pod, gone=True)


@pytest.mark.parametrize("count", [2, 5])
async def test_two_gangs_share_nothing(count: int) -> None:
    async with World() as world:
        world.node("a", cpu=str(2 * count - 1))
        for name in ("left", "right"):
            world.see(world.feed.group, group(count, name))
        for number in range(count):
            for name in ("left", "right"):
                member(world, f"{name}-{number}", name)
        await world.turns(100)
        bound = [name.partition("-")[0] for name in world.client.bound()]
        assert len(bound) == count
        assert len(set(bound)) == 1
