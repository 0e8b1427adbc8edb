"""One attempt to give one pod a node: filter, score, choose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from corral.cluster.scheduler.placement.filters import local_checks
from corral.cluster.scheduler.placement.interpod import InterPodFilter
from corral.cluster.scheduler.placement.nodes import NodeInfo
from corral.cluster.scheduler.placement.pods import PodInfo
from corral.cluster.scheduler.placement.rejections import FitError, Rejection
from corral.cluster.scheduler.placement.scores import score_nodes
from corral.cluster.scheduler.placement.spread import SpreadFilter
from corral.cluster.scheduler.placement.state import ClusterState
from corral.cluster.scheduler.placement.volumes import NO_VOLUMES, VolumeFilter, VolumePlan
from corral.kube.types import Obj

__all__ = ["Cycle", "Placement", "Trial", "find_node"]

_ENOUGH = 100
"""Clusters up to this size are always searched whole."""
_LEAST_PERCENTAGE = 5


@dataclass(frozen=True, slots=True)
class Placement:
    """A pod and the node that it should be bound to."""

    pod: PodInfo
    node: str


class Trial:
    """A copy of one node on which pods are added and removed to see whether another fits."""

    def __init__(self, cycle: Cycle, node: NodeInfo) -> None:
        self.node = node.copy()
        self._cycle = cycle
        self._done: list[tuple[PodInfo, int]] = []

    def add(self, pod: PodInfo) -> None:
        self.node.add(pod)
        self._record(pod, 1)

    def remove(self, pod: PodInfo) -> None:
        self.node.remove(pod)
        self._record(pod, -1)

    def _record(self, pod: PodInfo, sign: int) -> None:
        self._done.append((pod, sign))
        self._cycle.update(pod, self.node, sign)

    def undo(self) -> None:
        """Take back what the filters were told; the copy of the node is of no use any more."""
        for pod, sign in reversed(self._done):
            self._cycle.update(pod, self.node, -sign)
        self._done.clear()


class Cycle:
    """The checks for one pod against the state as it is now."""

    def __init__(self, state: ClusterState, pod: PodInfo) -> None:
        self.state = state
        self.pod = pod
        self.checks = local_checks(pod)
        self._volumes = VolumeFilter(state.storage, pod) if pod.claims else None
        if self._volumes is not None:
            self.checks.append(self._volumes.check)
        self._spread = SpreadFilter(state, pod) if pod.hard_spread else None
        self._interpod: InterPodFilter | None = None
        if self._spread is not None:
            self.checks.append(self._spread.check)
        if state.anti_affinity_pods or pod.affinity or pod.anti_affinity:
            interpod = InterPodFilter(state, pod)
            if interpod.needed:
                self._interpod = interpod
                self.checks.append(interpod.check)

    def update(self, pod: PodInfo, node: NodeInfo, sign: int) -> None:
        """Tell the checks that look beyond one node of a pod that came (1) or went (-1)."""
        if self._volumes is not None:
            self._volumes.update(pod, sign)
        if self._spread is not None:
            self._spread.update(pod, node, sign)
        if self._interpod is not None:
            self._interpod.update(pod, node, sign)

    def check(self, node: NodeInfo) -> Rejection | None:
        """The first rule that the node breaks; None if it will do."""
        for check in self.checks:
            rejection = check(node)
            if rejection is not None:
                return rejection
        return None

    def check_nominated(self, node: NodeInfo) -> Rejection | None:
        """As ``check``, with and without the pods that are to come to this node.

        Those of the same or higher priority have their room reserved. The pod must also fit
        without them, for it may need (by affinity) one that will never come.
        """
        coming = self.state.nominated_on(node.name)
        if coming:
            pods = [
                other
                for other in coming.values()
                if other.priority >= self.pod.priority and other.key != self.pod.key
            ]
            if pods:
                with self.trial(node) as trial:
                    for other in pods:
                        trial.add(other)
                    rejection = self.check(trial.node)
                if rejection is not None:
                    return rejection
        return self.check(node)

    @contextmanager
    def trial(self, node: NodeInfo) -> Iterator[Trial]:
        """A node to try things on; at the end nothing has happened."""
        trial = Trial(self, node)
        try:
            yield trial
        finally:
            trial.undo()

    def feasible(self) -> tuple[list[NodeInfo], FitError]:
        """The nodes that fit, and why the others that were looked at do not."""
        state = self.state
        error = FitError(len(state.nodes))
        if nominated := self._nominated_node():
            return [nominated], error
        nodes = self._candidates(error)
        wanted = _nodes_wanted(len(state.nodes))
        found: list[NodeInfo] = []
        rejections: dict[str, Rejection] = {}
        check = self.check_nominated if state.has_nominations else self.check
        for node in nodes:
            rejection = check(node)
            if rejection is None:
                found.append(node)
                if len(found) >= wanted:
                    break
            else:
                rejections[node.name] = rejection
        error.rejections = rejections
        if state.nodes:
            state.next_start = (state.next_start + len(found) + len(rejections)) % len(state.nodes)
        return found, error

    def volume_plan(self, node: str) -> VolumePlan:
        """What the pod's claims need on a node that fits."""
        if self._volumes is None or node not in self.state.nodes:
            return NO_VOLUMES
        found = self._volumes.plan(self.state.nodes[node])
        return found if isinstance(found, VolumePlan) else NO_VOLUMES

    def _nominated_node(self) -> NodeInfo | None:
        """The node that was cleared for this pod, if it fits now."""
        name = self.state.nomination(self.pod) or self.pod.nominated
        node = self.state.nodes.get(name) if name else None
        if self._volumes is not None and self._volumes.problem is not None:
            return None
        return node if node is not None and self.check_nominated(node) is None else None

    def _candidates(self, error: FitError) -> Sequence[NodeInfo]:
        """The nodes worth a look; where the pod names nodes, only those."""
        named: dict[str, frozenset[str]] = {}
        if self.pod.node_name:
            named["NodeName"] = frozenset({self.pod.node_name})
        affinity = self.pod.node_affinity
        if affinity is not None and affinity.named is not None:
            if not affinity.named:
                return _nowhere(error, "NodeAffinity", "pod affinity terms conflict")
            named["NodeAffinity"] = affinity.named
        nodes = list(self.state.nodes.values())
        if self._volumes is not None and self._volumes.problem is not None:
            if not named or frozenset.intersection(*named.values()):
                return _nowhere(error, *self._volumes.problem)
        if not named:
            start = self.state.next_start if len(nodes) > _ENOUGH else 0
            return nodes[start:] + nodes[:start]
        plugins = sorted(named)
        names = frozenset.intersection(*named.values())
        if not names:
            listed = " ".join(plugins)
            reason = f"node(s) didn't satisfy plugin(s) [{listed}] simultaneously"
            return _nowhere(error, ",".join(plugins), reason)
        reason = f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}]"
        error.absent = Rejection(",".join(plugins), (reason,), resolvable=False)
        return [node for node in nodes if node.name in names]


def _nowhere(error: FitError, plugin: str, reason: str) -> Sequence[NodeInfo]:
    error.prefilter = reason
    error.absent = Rejection(plugin, (reason,), resolvable=False)
    return ()


def _nodes_wanted(nodes: int) -> int:
    """How many fitting nodes are enough to choose from."""
    if nodes < _ENOUGH:
        return nodes
    percentage = max(50 - nodes // 125, _LEAST_PERCENTAGE)
    return max(nodes * percentage // 100, _ENOUGH)


def find_node(state: ClusterState, pod: Obj | PodInfo, rng: Random) -> Placement | FitError:
    """Choose the best node for a pod; among equals by ``rng``. Changes no pod's place."""
    info = state.info(pod)
    cycle = Cycle(state, info)
    nodes, error = cycle.feasible()
    if not nodes:
        return error
    return Placement(info, best(state, info, nodes, rng).name)


def best(state: ClusterState, pod: PodInfo, nodes: Sequence[NodeInfo], rng: Random) -> NodeInfo:
    """The node with the highest score; among equals one by chance."""
    if len(nodes) == 1:
        return nodes[0]
    scores = score_nodes(state, pod, nodes)
    highest = max(scores)
    equal = [node for node, score in zip(nodes, scores, strict=True) if score == highest]
    return equal[0] if len(equal) == 1 else equal[rng.randrange(len(equal))]
