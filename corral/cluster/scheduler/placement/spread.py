"""Topology spread: hard constraints as a filter, soft ones (own or default) as a score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from corral.cluster.scheduler.placement.nodes import NodeInfo
from corral.cluster.scheduler.placement.pods import PodInfo, SpreadConstraint
from corral.cluster.scheduler.placement.rejections import Rejection
from corral.cluster.scheduler.placement.state import ClusterState
from corral.cluster.scheduler.placement.taints import untolerated

__all__ = ["SpreadFilter", "spread_scores"]

PLUGIN: Final = "PodTopologySpread"
_HOSTNAME: Final = "kubernetes.io/hostname"
_ZONE: Final = "topology.kubernetes.io/zone"
_REASON: Final = "node(s) didn't match pod topology spread constraints"
_SKEWED: Final = Rejection(PLUGIN, (_REASON,))
_NO_LABEL: Final = Rejection(PLUGIN, (f"{_REASON} (missing required label)",), resolvable=False)
_DEFAULTS: Final = ((_HOSTNAME, 3), (_ZONE, 5))
"""Where a pod names no constraints: spread over nodes and zones, softly, with these skews."""


def _included(constraint: SpreadConstraint, pod: PodInfo, node: NodeInfo) -> bool:
    """Whether the node counts at all for this constraint of the pod."""
    if constraint.honors_affinity and pod.node_affinity is not None:
        if not pod.node_affinity.matches(node.name, node.labels):
            return False
    return not (
        constraint.honors_taints
        and node.hard_taints
        and untolerated(pod.tolerations, node.hard_taints)
    )


def _has_keys(labels: Mapping[str, str], constraints: Sequence[SpreadConstraint]) -> bool:
    return all(constraint.key in labels for constraint in constraints)


class SpreadFilter:
    """The pod's hard constraints against the pods that are there.

    ``counts`` holds for every constraint the matching pods in each of its domains; ``update``
    keeps it right while pods are added or removed on trial.
    """

    def __init__(self, state: ClusterState, pod: PodInfo) -> None:
        self.pod = pod
        self.constraints = pod.hard_spread
        self.counts: list[dict[str, int]] = [{} for _ in self.constraints]
        self.own = [int(c.selector.matches(pod.labels)) for c in self.constraints]
        self._least: list[int | None] = [None] * len(self.constraints)
        for node in state.nodes.values():
            if not _has_keys(node.labels, self.constraints):
                continue
            for constraint, counts in zip(self.constraints, self.counts, strict=True):
                if _included(constraint, pod, node):
                    value = node.labels[constraint.key]
                    found = node.count_matching(pod.namespace, constraint.selector)
                    counts[value] = counts.get(value, 0) + found

    def check(self, node: NodeInfo) -> Rejection | None:
        for index, constraint in enumerate(self.constraints):
            value = node.labels.get(constraint.key)
            if value is None:
                return _NO_LABEL
            found = self.counts[index].get(value, 0) + self.own[index]
            if found - self._fewest(index) > constraint.max_skew:
                return _SKEWED
        return None

    def update(self, pod: PodInfo, node: NodeInfo, sign: int) -> None:
        """Count a pod in (1) or out (-1)."""
        if pod.namespace != self.pod.namespace or not _has_keys(node.labels, self.constraints):
            return
        for index, constraint in enumerate(self.constraints):
            if constraint.selector.matches(pod.labels) and _included(constraint, self.pod, node):
                value = node.labels[constraint.key]
                self.counts[index][value] = self.counts[index].get(value, 0) + sign
                self._least[index] = None

    def _fewest(self, index: int) -> int:
        """Pods in the emptiest domain; none while there are fewer domains than wanted."""
        least = self._least[index]
        if least is None:
            counts = self.counts[index]
            enough = len(counts) >= self.constraints[index].min_domains
            least = self._least[index] = min(counts.values()) if enough and counts else 0
        return least


def spread_scores(state: ClusterState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> list[int] | None:
    """Scores 0 to 100 for the nodes by the pod's soft constraints; None: there are none."""
    constraints = pod.soft_spread
    strict = pod.has_constraints
    if not strict:
        constraints = _default_constraints(state, pod)
    if not constraints:
        return None
    ignored = [strict and not _has_keys(node.labels, constraints) for node in nodes]
    counts, weights = _domains(constraints, nodes, ignored)
    _count(state, pod, constraints, strict, counts)
    raw = [
        0 if skip else _raw_score(pod, node, constraints, counts, weights)
        for node, skip in zip(nodes, ignored, strict=True)
    ]
    return _normalized(raw, ignored)


def _default_constraints(state: ClusterState, pod: PodInfo) -> tuple[SpreadConstraint, ...]:
    selector = state.workload_selector(pod)
    if not selector.requirements:
        return ()
    return tuple(SpreadConstraint(skew, key, selector) for key, skew in _DEFAULTS)


def _domains(
    constraints: Sequence[SpreadConstraint], nodes: Sequence[NodeInfo], ignored: Sequence[bool]
) -> tuple[list[dict[str, int]], list[float]]:
    """The domains of the candidates with no pods yet, and what a pod in one weighs."""
    used = [node for node, skip in zip(nodes, ignored, strict=True) if not skip]
    counts: list[dict[str, int]] = []
    weights: list[float] = []
    for constraint in constraints:
        if constraint.key == _HOSTNAME:
            counts.append({})
            weights.append(math.log(len(used) + 2))
        else:
            counts.append({node.labels.get(constraint.key, ""): 0 for node in used})
            weights.append(math.log(len(counts[-1]) + 2))
    return counts, weights


def _count(
    state: ClusterState,
    pod: PodInfo,
    constraints: Sequence[SpreadConstraint],
    strict: bool,
    counts: list[dict[str, int]],
) -> None:
    if not any(counts):
        return
    for node in state.nodes.values():
        if strict and not _has_keys(node.labels, constraints):
            continue
        for constraint, domain in zip(constraints, counts, strict=True):
            value = node.labels.get(constraint.key, "")
            if value in domain and _included(constraint, pod, node):
                domain[value] += node.count_matching(pod.namespace, constraint.selector)


def _raw_score(
    pod: PodInfo,
    node: NodeInfo,
    constraints: Sequence[SpreadConstraint],
    counts: Sequence[Mapping[str, int]],
    weights: Sequence[float],
) -> int:
    score = 0.0
    for index, constraint in enumerate(constraints):
        value = node.labels.get(constraint.key)
        if value is None:
            continue
        if constraint.key == _HOSTNAME:
            found = node.count_matching(pod.namespace, constraint.selector)
        else:
            found = counts[index][value]
        score += found * weights[index] + constraint.max_skew - 1
    return math.floor(score + 0.5)


def _normalized(raw: Sequence[int], ignored: Sequence[bool]) -> list[int]:
    kept = [score for score, skip in zip(raw, ignored, strict=True) if not skip]
    highest, lowest = max(kept, default=0), min(kept, default=0)
    return [
        0 if skip else 100 * (highest + lowest - score) // highest if highest else 100
        for score, skip in zip(raw, ignored, strict=True)
    ]
