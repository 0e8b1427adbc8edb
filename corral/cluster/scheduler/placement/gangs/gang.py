"""All or nothing: places for enough pods of a group at once, or for none.

Simple ways are tried first: every pod where it scores best, then the hardest pods first on the
fullest nodes, then that again from every first choice. Where all fail, a bounded search goes back
on earlier choices. It is exact if it ends within its bound; a larger puzzle that it gives up on is
reported as unplaceable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from corral.cluster.scheduler.placement.cycle import Cycle, Placement, best
from corral.cluster.scheduler.placement.gangs.groups import VOLCANO, PodGroup, missing_resources
from corral.cluster.scheduler.placement.nodes import NodeInfo
from corral.cluster.scheduler.placement.pods import PodInfo
from corral.cluster.scheduler.placement.rejections import FitError
from corral.cluster.scheduler.placement.state import ClusterState
from corral.kube.types import Obj

__all__ = ["GangRejection", "place_gang", "place_group"]

_STEPS = 2_000
"""Placements that the search tries before it gives up."""
_MOST_SEARCHED = 200
"""Pods of the largest group that is searched for; larger ones get the simple ways only."""

_Choose = Callable[[PodInfo, Sequence[NodeInfo]], NodeInfo]


@dataclass(frozen=True, slots=True)
class GangRejection:
    """Why a group cannot be placed. ``str`` of it is the text for its pods' conditions."""

    minimum: int
    running: int
    pending: int
    placeable: int
    """How many of the pending ones would have found a place."""
    pod: PodInfo | None = None
    """One that found none, and why."""
    error: FitError | None = None
    reason: str = ""
    """A reason that concerns the group as a whole."""
    family: str = ""
    """The API group of the PodGroup, for its way of putting things."""

    @property
    def plugins(self) -> frozenset[str]:
        """The rules whose events make another attempt worthwhile."""
        found = self.error.plugins if self.error is not None else frozenset()
        return found | ({"NodeResourcesFit"} if self.reason else set()) | {"GangScheduling"}

    def __str__(self) -> str:
        if self.family == VOLCANO:
            return f"{self._volcano()}{self._detail()}"
        able = self.running + self.placeable
        return f"pod group needs {self.minimum} pods together, {able} can run{self._detail()}"

    def _volcano(self) -> str:
        stuck = self.pending - self.placeable
        parts = [(stuck, "Unschedulable"), (self.placeable, "Schedulable")]
        counts = ", ".join(f"{count} {word}" for count, word in parts if count)
        states = [(self.pending, "Pending"), (self.running, "Running")]
        listed = "".join(f", {count} {word}" for count, word in states if count)
        return (
            f"{stuck}/{self.pending + self.running} tasks in gang unschedulable: pod group is not "
            f"ready{listed}, {self.minimum} minAvailable"
        ) + (f"; Pending: {counts}" if counts else "")

    def _detail(self) -> str:
        if self.reason:
            return f": {self.reason}"
        return f": pod {self.pod.full_name}: {self.error}" if self.pod is not None else ""


def place_group(
    state: ClusterState,
    group: PodGroup,
    pods: Sequence[Obj | PodInfo],
    *,
    rng: Random,
    running: Sequence[Obj | PodInfo] = (),
    steps: int = _STEPS,
) -> list[Placement] | GangRejection:
    """As ``place_gang`` with what the PodGroup demands, its ``minResources`` included."""
    placed = [state.info(pod) for pod in running]
    if len(placed) < group.minimum:
        if reason := missing_resources(state, group.resources, own=placed):
            return GangRejection(
                group.minimum, len(placed), len(pods), 0, reason=reason, family=group.key[0]
            )
    return place_gang(
        state,
        pods,
        group.minimum,
        rng=rng,
        running=len(placed),
        steps=steps,
        family=group.key[0],
    )


def place_gang(
    state: ClusterState,
    pods: Sequence[Obj | PodInfo],
    minimum: int,
    *,
    rng: Random,
    running: int = 0,
    steps: int = _STEPS,
    family: str = "",
) -> list[Placement] | GangRejection:
    """Places for the pods such that with those running there are at least ``minimum``; or none.

    Places for more than the minimum are given where there is room. The pods' order is their
    importance when not all can be placed. The state is as it was afterwards: the caller assumes
    the placements it takes up. With the minimum running already, an empty list means that there
    is no room for more.
    """
    infos = [state.info(pod) for pod in pods]
    need = minimum - running

    def scored(pod: PodInfo, nodes: Sequence[NodeInfo]) -> NodeInfo:
        return best(state, pod, nodes, rng)

    with state.trial():
        found, failed, error = _greedy(state, infos, scored)
    if len(found) >= need:
        return found
    rejection = GangRejection(
        minimum, running, len(infos), len(found), failed, error, family=family
    )
    if len(infos) < need or not _enough_free(state, infos, need):
        return rejection
    hardest = sorted(infos, key=_hardness, reverse=True)
    for attempt in (_pack, _restart, _search):
        with state.trial():
            packed = attempt(state, hardest, need, steps)
        if len(packed) >= need:
            return packed
    return rejection


def _enough_free(state: ClusterState, pods: Sequence[PodInfo], need: int) -> bool:
    """Whether all nodes together have what so many of the pods take at least.

    If not, no arrangement will do, and none has to be searched for.
    """
    cpu = memory = room = 0
    for node in state.nodes.values():
        has, used = node.allocatable, node.requested
        cpu += max(has.cpu - used.cpu, 0)
        memory += max(has.memory - used.memory, 0)
        room += max(has.pods - len(node.pods), 0)
    return (
        need <= room
        and sum(sorted(pod.requests.cpu for pod in pods)[:need]) <= cpu
        and sum(sorted(pod.requests.memory for pod in pods)[:need]) <= memory
    )


def _fullest(_: PodInfo, nodes: Sequence[NodeInfo]) -> NodeInfo:
    return min(nodes, key=_free)


def _pack(state: ClusterState, pods: Sequence[PodInfo], need: int, steps: int) -> list[Placement]:
    return _greedy(state, pods, _fullest)[0]


def _restart(
    state: ClusterState, pods: Sequence[PodInfo], need: int, steps: int
) -> list[Placement]:
    """Every node in turn for the first pod, the others after it: finds the zone with room.

    Only for pods that look at each other; without that the first choice decides little.
    """
    first = pods[0]
    if not any(pod.has_affinity or pod.hard_spread for pod in pods):
        return []
    nodes, _ = Cycle(state, first).feasible()
    for node in nodes[: max(steps // len(pods), 1)]:
        with state.trial():
            state.assume(first, node.name)
            rest = _greedy(state, pods[1:], _fullest)[0]
        if len(rest) + 1 >= need:
            return [Placement(first, node.name), *rest]
    return []


def _search(state: ClusterState, pods: Sequence[PodInfo], need: int, steps: int) -> list[Placement]:
    return _Search(state, pods, need, steps).run() if len(pods) <= _MOST_SEARCHED else []


def _greedy(
    state: ClusterState, pods: Sequence[PodInfo], choose: _Choose
) -> tuple[list[Placement], PodInfo | None, FitError | None]:
    """One pod after the other, none reconsidered; the first that failed, and why."""
    found: list[Placement] = []
    failed: PodInfo | None = None
    why: FitError | None = None
    for pod in pods:
        nodes, error = Cycle(state, pod).feasible()
        if nodes:
            node = choose(pod, nodes)
            state.assume(pod, node.name)
            found.append(Placement(pod, node.name))
        elif failed is None:
            failed, why = pod, error
    return found, failed, why


def _hardness(pod: PodInfo) -> tuple[int, int, int, int]:
    """Pods that few nodes can take come first: by constraints, devices, then size."""
    wanted = pod.requests
    constrained = (pod.node_affinity is not None) + bool(pod.ports or pod.hard_spread)
    return (constrained, sum(wanted.scalars.values()), wanted.cpu, wanted.memory)


def _free(node: NodeInfo) -> tuple[int, float]:
    """How much of the node is left: devices first, then the larger free part."""
    has, used = node.allocatable, node.requested
    devices = sum(amount - used.scalars.get(name, 0) for name, amount in has.scalars.items())
    cpu = 1 - used.cpu / has.cpu if has.cpu else 0.0
    memory = 1 - used.memory / has.memory if has.memory else 0.0
    return (devices, cpu + memory)


class _Search:
    """Depth first over pods and nodes, within a number of steps. Leaves its finds assumed."""

    def __init__(self, state: ClusterState, pods: Sequence[PodInfo], need: int, steps: int) -> None:
        self.state, self.pods, self.need, self.steps = state, pods, need, steps
        self.found: list[Placement] = []
        # Nodes that differ in name only are interchangeable unless something names or counts them.
        self.alike = not state.anti_affinity_pods and not any(map(_is_particular, pods))

    def run(self) -> list[Placement]:
        """The placements, as soon as there are enough of them; else nothing."""
        return self.found if self._place(0) else []

    def _place(self, index: int) -> bool:
        if len(self.found) >= self.need:
            # Those beyond the minimum get a place where there is still room.
            self.found.extend(_greedy(self.state, self.pods[index:], _fullest)[0])
            return True
        if len(self.found) + len(self.pods) - index < self.need:
            return False
        pod = self.pods[index]
        for node in self._choices(pod):
            if self.steps <= 0:
                return False
            self.steps -= 1
            self.state.assume(pod, node.name)
            self.found.append(Placement(pod, node.name))
            if self._place(index + 1):
                return True
            self.found.pop()
            self.state.forget(pod)
        return self._place(index + 1)

    def _choices(self, pod: PodInfo) -> list[NodeInfo]:
        nodes, _ = Cycle(self.state, pod).feasible()
        nodes.sort(key=_free)
        if not self.alike:
            return nodes
        return list({_room(node): node for node in reversed(nodes)}.values())[::-1]


def _is_particular(pod: PodInfo) -> bool:
    return bool(pod.has_affinity or pod.hard_spread or pod.ports or pod.node_affinity)


def _room(node: NodeInfo) -> object:
    """Equal for nodes that can take exactly the same further pods."""
    has, used = node.allocatable, node.requested
    scalars = {name: n - used.scalars.get(name, 0) for name, n in has.scalars.items()}
    taints = sorted((t.get("key"), t.get("value", ""), t["effect"]) for t in node.hard_taints)
    return (
        has.cpu - used.cpu,
        has.memory - used.memory,
        has.ephemeral - used.ephemeral,
        has.pods - len(node.pods),
        tuple(sorted(scalars.items())),
        tuple(taints),
        node.unschedulable,
    )
