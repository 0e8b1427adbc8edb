"""Making room for a whole group by evicting pods of lower priority; all of it, or nothing.

The lowest priority is sought that, with all pods up to it gone, leaves room for the group. The
group is then placed where it needs the fewest of them to go, and every pod that can stay beside it
does, the most important first and those whose disruption budgets would be violated before the
others. Nothing is evicted for a group that would not fit even so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from corral.cluster.scheduler.placement.cycle import Cycle, Placement
from corral.cluster.scheduler.placement.filters import node_ports, node_resources
from corral.cluster.scheduler.placement.gangs.gang import GangRejection, place_group
from corral.cluster.scheduler.placement.gangs.groups import PodGroup
from corral.cluster.scheduler.placement.interpod import InterPodFilter
from corral.cluster.scheduler.placement.nodes import NodeInfo
from corral.cluster.scheduler.placement.pods import PodInfo
from corral.cluster.scheduler.placement.preemption import (
    being_preempted,
    by_importance,
    split_by_budgets,
)
from corral.cluster.scheduler.placement.state import ClusterState
from corral.kube.types import Obj

__all__ = ["GangPreemption", "awaits_victims", "schedule_group"]


@dataclass(frozen=True, slots=True)
class GangPreemption:
    """What to do for a group that does not fit: evict, nominate, and try again later."""

    rejection: GangRejection
    """Why it does not fit now."""
    placements: tuple[Placement, ...]
    """The nodes where room is being made; the pods are to be nominated there."""
    victims: tuple[tuple[PodInfo, str], ...]
    """The pods to evict, each with its node."""


def schedule_group(
    state: ClusterState,
    group: PodGroup,
    pods: Sequence[PodInfo],
    *,
    rng: Random,
    running: Sequence[PodInfo] = (),
    budgets: Sequence[Obj] = (),
) -> list[Placement] | GangPreemption | GangRejection:
    """Places for a group, or else the pods to evict for it, or why it must wait.

    Changes no pod's place. ``running`` are the members that have a node already.
    """
    found = place_group(state, group, pods, rng=rng, running=running)
    if not isinstance(found, GangRejection) or len(pods) + len(running) < group.minimum:
        return found
    if _may_preempt(state, pods):
        room = _Room(state, group, pods, rng=rng, running=running).find(budgets)
        if room is not None:
            return GangPreemption(found, *room)
    return found


def _may_preempt(state: ClusterState, pods: Sequence[PodInfo]) -> bool:
    """Whether no pod of the group abstains, and no earlier victims are still on their way out."""
    if any((pod.pod.get("spec") or {}).get("preemptionPolicy") == "Never" for pod in pods):
        return False
    return bool(pods) and not awaits_victims(state, pods)


def awaits_victims(state: ClusterState, pods: Sequence[PodInfo]) -> bool:
    """Whether pods are on their way out to make room for one of these."""
    for pod in pods:
        node = state.nodes.get(state.nomination(pod) or pod.nominated)
        if node is not None and any(
            p.priority < pod.priority and being_preempted(p) for p in node.pods.values()
        ):
            return True
    return False


_Found = tuple[tuple[Placement, ...], tuple[tuple[PodInfo, str], ...]]


class _Room:
    """The search for victims, for one group."""

    def __init__(
        self,
        state: ClusterState,
        group: PodGroup,
        pods: Sequence[PodInfo],
        *,
        rng: Random,
        running: Sequence[PodInfo],
    ) -> None:
        self.state, self.group, self.pods = state, group, pods
        self.rng, self.running = rng, running
        self.need = group.minimum - len(running)

    def find(self, budgets: Sequence[Obj]) -> _Found | None:
        own = {pod.key for pod in (*self.pods, *self.running)}
        priority = min(pod.priority for pod in self.pods)
        lower = [
            (pod, node.name)
            for node in self.state.nodes.values()
            for pod in node.pods.values()
            if pod.priority < priority and pod.key not in own
        ]
        levels = sorted({pod.priority for pod, _ in lower})
        level = self._lowest(levels, lower)
        if level is None:
            return None
        gone = [(pod, node) for pod, node in lower if pod.priority <= level]
        with self.state.without([pod for pod, _ in gone]):
            placements = self._place(gone)
            if placements is None:
                return None
            with self.state.trial():
                for placement in placements:
                    self.state.assume(placement.pod, placement.node)
                victims = self._victims(gone, budgets)
        return (tuple(placements), tuple(victims)) if victims else None

    def _lowest(self, levels: Sequence[int], lower: Sequence[tuple[PodInfo, str]]) -> int | None:
        """The lowest priority such that the group fits when all pods up to it are gone."""
        if not levels or not self._fits(levels[-1], lower):
            return None
        low, high = 0, len(levels) - 1
        while low < high:
            middle = (low + high) // 2
            if self._fits(levels[middle], lower):
                high = middle
            else:
                low = middle + 1
        return levels[high]

    def _fits(self, level: int, lower: Sequence[tuple[PodInfo, str]]) -> bool:
        with self.state.without([pod for pod, _ in lower if pod.priority <= level]):
            return isinstance(self._any_places(), list)

    def _any_places(self) -> list[Placement] | GangRejection:
        return place_group(self.state, self.group, self.pods, rng=self.rng, running=self.running)

    def _place(self, gone: Sequence[tuple[PodInfo, str]]) -> list[Placement] | None:
        """Places that need few victims, for as many pods as the group must have."""
        absent: dict[str, list[PodInfo]] = {}
        for pod, node in gone:
            absent.setdefault(node, []).append(pod)
        found: list[Placement] = []
        with self.state.trial():
            for pod in self.pods:
                if len(found) >= self.need:
                    break
                nodes, _ = Cycle(self.state, pod).feasible()
                if nodes:
                    best = min(nodes, key=partial(_harm, pod, absent))
                    self.state.assume(pod, best.name)
                    found.append(Placement(pod, best.name))
        if len(found) >= self.need:
            return found
        packed = self._any_places()
        return packed[: self.need] if isinstance(packed, list) else None

    def _victims(
        self, gone: Sequence[tuple[PodInfo, str]], budgets: Sequence[Obj]
    ) -> list[tuple[PodInfo, str]]:
        """Those of the pods that cannot stay beside the group."""
        places = {pod.key: node for pod, node in gone}
        ordered = sorted((pod for pod, _ in gone), key=by_importance)
        violating, harmless = split_by_budgets(ordered, budgets)
        victims = []
        for pod in (*violating, *harmless):
            node = self.state.nodes[places[pod.key]]
            if _can_stay(self.state, pod, node):
                # Counted as assumed until the trial ends, when `without` puts it back for good.
                self.state.assume(pod, node.name)
            else:
                victims.append((pod, node.name))
        return victims


def _harm(
    pod: PodInfo, gone: Mapping[str, Sequence[PodInfo]], node: NodeInfo
) -> tuple[int, float, int]:
    """How much of what was taken off a node would have to stay away for one more pod."""
    absent = gone.get(node.name, ())
    has, used, wanted = node.allocatable, node.requested, pod.requests
    if not absent:
        return (0, 0.0, len(node.pods))
    cpu = sum(other.requests.cpu for other in absent) + used.cpu + wanted.cpu - has.cpu
    memory = sum(o.requests.memory for o in absent) + used.memory + wanted.memory - has.memory
    short = max(cpu / has.cpu if has.cpu else 0.0, memory / has.memory if has.memory else 0.0)
    for name, amount in wanted.scalars.items():
        total = has.scalars.get(name, 0)
        taken = sum(other.requests.scalars.get(name, 0) for other in absent)
        taken += used.scalars.get(name, 0)
        short = max(short, (taken + amount - total) / total if total else 0.0)
    if len(absent) + len(node.pods) >= has.pods:
        short = max(short, 1 / max(has.pods, 1))
    highest = max(other.priority for other in absent)
    return (1, short, highest) if short > 0 else (0, 0.0, len(node.pods))


def _can_stay(state: ClusterState, pod: PodInfo, node: NodeInfo) -> bool:
    """Whether a pod that runs on the node still fits there; what only guards the way in is left."""
    if node_resources(pod)(node) is not None:
        return False
    ports = node_ports(pod)
    if ports is not None and ports(node) is not None:
        return False
    if not state.anti_affinity_pods and not pod.anti_affinity:
        return True
    rejection = InterPodFilter(state, pod).check_apart(node)
    return rejection is None
