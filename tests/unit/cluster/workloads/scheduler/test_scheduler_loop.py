"""The loop: what is seen, what is decided, what is written."""

from __future__ import annotations

import asyncio

from scheduler_world import World, make_pod

from corral.kube import errors
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.types import Obj


def condition(body: Obj) -> Obj:
    found: Obj = body["status"]["conditions"][0]
    return found


async def test_a_pod_that_fits_is_bound_in_the_next_turns() -> None:
    async with World() as world:
        world.node("a")
        world.pod("p")
        await world.turns(3)
        name, body = world.client.of("bind")[0]
        assert name == "p"
        assert body["metadata"] == {"name": "p", "namespace": "ns", "uid": "uid-p"}
        assert body["target"] == {"kind": "Node", "name": "a"}
        await world.turns()
        assert world.recorder.said("p", "Scheduled") == ["Successfully assigned ns/p to a"]
        assert len(world.scheduler.queue) == 0


async def test_bindings_do_not_wait_for_each_other() -> None:
    async with World(bindings=8) as world:
        world.client.gate = asyncio.Event()
        world.node("a", cpu="20")
        for number in range(12):
            world.pod(f"p{number}")
        await world.turns()
        assert len(world.client.of("bind")) == 8
        world.client.gate.set()
        await world.turns()
        assert len(world.client.of("bind")) == 12


async def test_what_is_on_its_way_counts() -> None:
    async with World() as world:
        world.client.gate = asyncio.Event()
        world.node("a", cpu="1")
        first = world.pod("first")
        world.pod("second")
        await world.turns()
        assert set(world.client.bound()) == {"first"}
        world.client.gate.set()
        world.bind(first, "a")
        await world.turns()
        assert "Insufficient cpu" in condition(world.client.of("patch")[0][1])["message"]


async def test_other_schedulers_pods_count_only_where_they_run() -> None:
    async with World() as world:
        world.node("a", cpu="2")
        foreign = world.pod("foreign", "2", schedulerName="other")
        world.pod("mine", "1")
        await world.turns()
        assert world.client.bound() == {"mine": "a"}
        world.see(world.feed.pod, foreign, gone=True)
        world.pod("big", "2", schedulerName="other", on="a")
        world.pod("late", "1")
        await world.turns()
        assert "late" not in world.client.bound()


async def test_a_refused_binding_is_tried_again() -> None:
    async with World() as world:
        world.client.fail["bind", "p"] = errors.InternalError("etcd is away")
        world.node("a", cpu="1")
        world.pod("p")
        world.pod("waiting")
        await world.turns()
        # What was held for the first is free again, and the other has it.
        assert world.client.bound() == {"p": "a", "waiting": "a"}
        told = [condition(body) for name, body in world.client.of("patch") if name == "p"]
        assert told[0]["reason"] == "SchedulerError"
        assert told[0]["message"] == "binding rejected: etcd is away"


async def test_a_lost_answer_says_nothing_to_the_pod() -> None:
    async with World() as world:
        world.client.fail["bind", "p"] = KubeConnectionError("reset")
        world.node("a")
        world.pod("p")
        await world.turns()
        assert not world.client.of("patch")
        world.now += 2
        world.scheduler.wake()
        await world.turns()
        assert len(world.client.of("bind")) == 2


async def test_a_pod_that_is_gone_is_forgotten() -> None:
    async with World() as world:
        world.client.fail["bind", "p"] = errors.NotFound("no such pod")
        world.node("a", cpu="1")
        world.pod("p")
        await world.turns()
        assert len(world.scheduler.queue) == 0
        world.pod("next")
        await world.turns()
        assert world.client.bound()["next"] == "a"


async def test_a_pod_that_was_bound_after_all_is_left_alone() -> None:
    async with World() as world:
        world.client.gate = asyncio.Event()
        world.client.fail["bind", "p"] = errors.Conflict("pod p is already assigned to node a")
        world.node("a")
        pod = world.pod("p")
        await world.turns()
        world.bind(pod, "a")
        world.client.gate.set()
        await world.turns()
        assert not world.client.of("patch")
        assert world.scheduler.state.node_of(pod) == "a"


async def test_a_rejection_is_said_once() -> None:
    async with World() as world:
        world.node("a", cpu="1")
        world.pod("p", "2")
        await world.turns()
        ((_, body),) = world.client.of("patch")
        assert condition(body) == {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are "
            "available: 1 Preemption is not helpful for scheduling.",
            "lastProbeTime": None,
            "lastTransitionTime": "2027-01-15T08:00:00Z",
            "observedGeneration": 1,
        }
        assert body["metadata"] == {"uid": "uid-p"}
        world.scheduler.queue.activate(make_pod("p"))
        world.scheduler.wake()
        await world.turns()
        assert len(world.client.of("patch")) == 1
        assert len(world.recorder.said("p", "FailedScheduling")) == 1


async def test_pods_that_wait_alike_are_told_alike() -> None:
    async with World() as world:
        for name in ("p", "q", "r"):
            world.pod(name, "2")
        await world.turns()
        told = {name: condition(body)["message"] for name, body in world.client.of("patch")}
        assert set(told.values()) == {"no nodes available to schedule pods"}
        world.node("a", cpu="1")
        await world.turns()
        later = {name: condition(body)["message"] for name, body in world.client.of("patch")}
        assert len(set(later.values())) == 1
        assert "Insufficient cpu" in later["q"]


async def test_a_status_that_was_not_written_is_written_next_time() -> None:
    async with World() as world:
        world.client.fail["patch", "p"] = errors.InternalError("no")
        world.node("a", cpu="1")
        world.pod("p", "2")
        await world.turns()
        world.scheduler.queue.activate(make_pod("p"))
        world.scheduler.wake()
        await world.turns()
        assert len(world.client.of("patch")) == 2


async def test_no_word_about_waiting_after_the_binding() -> None:
    async with World() as world:
        world.client.gate = asyncio.Event()
        world.pod("p")
        await world.turns()
        assert [verb for verb, _, _ in world.client.calls] == ["patch"]
        world.node("a")
        await world.turns()
        # The binding waits for the patch that is under way.
        assert [verb for verb, _, _ in world.client.calls] == ["patch"]
        world.client.gate.set()
        await world.turns()
        assert [verb for verb, _, _ in world.client.calls] == ["patch", "bind"]


async def test_gated_and_deleted_pods_are_not_tried() -> None:
    async with World() as world:
        world.node("a")
        gated = world.pod("gated", schedulingGates=[{"name": "x"}])
        world.pod("going", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        await world.turns()
        assert not world.client.calls
        spec = {**gated["spec"], "schedulingGates": []}
        world.see(world.feed.pod, {**gated, "spec": spec})
        await world.turns()
        assert world.client.bound() == {"gated": "a"}


async def test_a_pod_that_cannot_be_read_stops_nobody() -> None:
    async with World() as world:
        world.node("a")
        world.pod("p")
        world.scheduler.state.nodes["a"].allocatable = None  # type: ignore[assignment]
        await world.turns()
        world.node("a", cpu="3")
        world.now += 2
        world.scheduler.wake()
        await world.turns()
        assert world.client.bound() == {"p": "a"}


async def test_room_for_the_important() -> None:
    async with World() as world:
        world.node("a", cpu="1")
        victim = world.pod("victim", on="a", priority=1)
        world.pod("boss", priority=9)
        await world.turns()
        patches = dict(world.client.of("patch"))
        assert condition(patches["victim"])["reason"] == "PreemptionByScheduler"
        assert condition(patches["victim"])["message"] == (
            "default-scheduler: preempting to accommodate a higher priority pod"
        )
        assert patches["boss"]["status"]["nominatedNodeName"] == "a"
        assert world.client.of("delete") == [("victim", {"uid": "uid-victim"})]
        assert world.recorder.said("victim", "Preempted") == ["Preempted by pod uid-boss on node a"]
        # Nothing more happens until the victim is seen leaving.
        world.node("b", cpu="100m")
        world.scheduler.wake()
        await world.turns()
        assert len(world.client.of("delete")) == 1
        world.see(world.feed.pod, victim, gone=True)
        await world.turns()
        assert world.client.bound() == {"boss": "a"}


async def test_an_eviction_that_fails_is_tried_again() -> None:
    async with World() as world:
        world.client.fail["delete", "victim"] = errors.InternalError("no")
        world.node("a", cpu="1")
        world.pod("victim", on="a", priority=1)
        world.pod("boss", priority=9)
        await world.turns()
        world.now += 2
        world.scheduler.wake()
        await world.turns()
        assert len(world.client.of("delete")) == 2


async def test_a_victim_that_was_gone_already() -> None:
    async with World() as world:
        world.client.fail["patch", "victim"] = errors.NotFound("gone")
        world.node("a", cpu="1")
        victim = world.pod("victim", on="a", priority=1)
        world.pod("boss", priority=9)
        await world.turns()
        assert not world.client.of("delete")
        world.see(world.feed.pod, victim, gone=True)
        await world.turns()
        assert world.client.bound() == {"boss": "a"}


async def test_a_lesser_nomination_is_withdrawn() -> None:
    async with World() as world:
        world.node("a", cpu="1")
        world.pod("victim", on="a", priority=1)
        world.pod("middle", priority=5)
        await world.turns()
        assert world.scheduler.state.nominated_on("a")
        world.pod("boss", priority=9)
        await world.turns()
        nominated = [p.name for p in world.scheduler.state.nominated_on("a").values()]
        assert nominated == ["boss"]
        # Although the first nomination was never seen by the watch.
        patches = [body for name, body in world.client.of("patch") if name == "middle"]
        assert patches[0]["status"]["nominatedNodeName"] == "a"
        assert patches[-1]["status"]["nominatedNodeName"] is None


async def test_nodes_that_go_take_nobody() -> None:
    async with World() as world:
        world.node("a")
        world.see(world.feed.node, {"metadata": {"name": "a"}}, gone=True)
        world.pod("p")
        await world.turns()
        assert not world.client.of("bind")
