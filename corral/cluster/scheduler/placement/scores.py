"""How good each fitting node is: kube-scheduler's default scores with their default weights.

Image locality is left out: the process runtime has no images to pull.
"""

from __future__ import annotations

from collections.abc import Sequence

from corral.cluster.scheduler.placement.interpod import interpod_scores
from corral.cluster.scheduler.placement.nodes import NodeInfo
from corral.cluster.scheduler.placement.pods import PodInfo
from corral.cluster.scheduler.placement.spread import spread_scores
from corral.cluster.scheduler.placement.state import ClusterState
from corral.cluster.scheduler.placement.taints import tolerated

__all__ = ["balanced_allocation", "least_allocated", "score_nodes"]

_TAINTS, _NODE_AFFINITY, _SPREAD, _INTERPOD = 3, 2, 2, 2
"""Weights; those of the two resource scores are 1."""


def score_nodes(state: ClusterState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> list[int]:
    """The nodes' total scores, in their order; the higher the better."""
    balanced = bool(pod.requests.cpu or pod.requests.memory)
    totals = [least_allocated(pod, node) for node in nodes]
    if balanced:
        totals = [t + balanced_allocation(pod, n) for t, n in zip(totals, nodes, strict=True)]
    weighted = (
        (_TAINTS, _taint_scores(pod, nodes)),
        (_NODE_AFFINITY, _node_affinity_scores(pod, nodes)),
        (_SPREAD, spread_scores(state, pod, nodes)),
        (_INTERPOD, interpod_scores(state, pod, nodes)),
    )
    for weight, scores in weighted:
        if scores is not None:
            totals = [t + weight * score for t, score in zip(totals, scores, strict=True)]
    return totals


def least_allocated(pod: PodInfo, node: NodeInfo) -> int:
    """0 to 100: the part of CPU and memory that would stay free, on average."""
    has = node.allocatable
    score = kinds = 0
    if has.cpu:
        kinds = 1
        cpu = node.scored_cpu + pod.scored.cpu
        if cpu <= has.cpu:
            score = (has.cpu - cpu) * 100 // has.cpu
    if has.memory:
        kinds += 1
        memory = node.scored_memory + pod.scored.memory
        if memory <= has.memory:
            score += (has.memory - memory) * 100 // has.memory
    return score // kinds if kinds else 0


def balanced_allocation(pod: PodInfo, node: NodeInfo) -> int:
    """0 to 100: how much nearer the pod brings CPU and memory to being equally used."""
    has, used, wanted = node.allocatable, node.requested, pod.requests
    if not has.cpu or not has.memory:
        # With one resource there is nothing to balance: the same before and after.
        return 75
    before = _balance(used.cpu / has.cpu, used.memory / has.memory)
    after = _balance((used.cpu + wanted.cpu) / has.cpu, (used.memory + wanted.memory) / has.memory)
    return 50 + (50 + after - before) // 2


def _balance(cpu: float, memory: float) -> int:
    # Half the difference is the standard deviation of two numbers.
    return int((1 - abs(min(cpu, 1.0) - min(memory, 1.0)) / 2) * 100)


def _taint_scores(pod: PodInfo, nodes: Sequence[NodeInfo]) -> list[int]:
    """The fewer taints PreferNoSchedule that the pod does not tolerate, the better."""
    if not any(node.soft_taints for node in nodes):
        return [100] * len(nodes)
    soft = [t for t in pod.tolerations if t.get("effect") in (None, "", "PreferNoSchedule")]
    raw = [sum(not tolerated(soft, taint) for taint in node.soft_taints) for node in nodes]
    highest = max(raw)
    return [100 - 100 * count // highest if highest else 100 for count in raw]


def _node_affinity_scores(pod: PodInfo, nodes: Sequence[NodeInfo]) -> list[int] | None:
    if not pod.preferred_nodes:
        return None
    raw = [
        sum(p.weight for p in pod.preferred_nodes if p.term.matches(node.name, node.labels))
        for node in nodes
    ]
    highest = max(raw)
    return [100 * score // highest for score in raw] if highest else raw
