"""Making room for a pod by evicting pods of lower priority, as kube-scheduler does.

On every node that could be made to fit, the pods to evict are found: all of lower priority are
taken off, then as many as possible put back, the most important first and those whose disruption
budgets would be violated before the others. The best node is the one with the fewest violations,
then the lowest highest priority among its victims, the lowest sum of priorities, the fewest
victims, and the latest start of the most important of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from corral.cluster.scheduler.placement.affinity import selector_of
from corral.cluster.scheduler.placement.cycle import Cycle, Placement, Trial, best
from corral.cluster.scheduler.placement.nodes import NodeInfo
from corral.cluster.scheduler.placement.pods import PodInfo
from corral.cluster.scheduler.placement.rejections import FitError, Rejection
from corral.cluster.scheduler.placement.state import ClusterState
from corral.kube.types import Obj

__all__ = [
    "Preemption",
    "Victims",
    "being_preempted",
    "by_importance",
    "pick_node",
    "preempt",
    "schedule",
    "split_by_budgets",
]

_MANY = 100
"""Candidates that are enough, or a tenth of the nodes if that is more."""
_PLUGIN = "DefaultPreemption"
_NO_VICTIMS = Rejection(
    _PLUGIN, ("No preemption victims found for incoming pod",), resolvable=False
)
_NO_HELP = Rejection(_PLUGIN, ("Preemption is not helpful for scheduling",), resolvable=False)


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods to evict from one node, the most important first."""

    node: str
    pods: tuple[PodInfo, ...]
    violations: int
    """Disruption budgets that this would violate."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """What to do for a pod that does not fit: evict, nominate, and try again later."""

    pod: PodInfo
    error: FitError
    """Why it does not fit now; its text mentions the preemption."""
    victims: Victims
    displaced: tuple[PodInfo, ...]
    """Pods of lower priority whose nomination to the node must be withdrawn."""


def schedule(
    state: ClusterState, pod: Obj | PodInfo, rng: Random, *, budgets: Sequence[Obj] = ()
) -> Placement | Preemption | FitError:
    """Choose a node for a pod, or else the pods to evict for it. Changes no pod's place.

    ``budgets`` are the PodDisruptionBudgets of the cluster.
    """
    info = state.info(pod)
    cycle = Cycle(state, info)
    nodes, error = cycle.feasible()
    if nodes:
        return Placement(info, best(state, info, nodes, rng).name)
    if not state.nodes:
        return error
    if error.prefilter:
        # No node was looked at: kube-scheduler's rules miss each other's notes, and say so.
        error.postfilter = "not found"
        return error
    found = preempt(cycle, error, rng, budgets=budgets)
    if isinstance(found, str):
        error.postfilter = f"preemption: {found}"
        return error
    error.postfilter = (
        f"preemption: found a potential placement for pod on node {found.node}, "
        f"preempting {len(found.pods)} victims"
    )
    displaced = tuple(
        other for other in state.nominated_on(found.node).values() if other.priority < info.priority
    )
    return Preemption(info, error, found, displaced)


def preempt(
    cycle: Cycle, error: FitError, rng: Random, *, budgets: Sequence[Obj] = ()
) -> Victims | str:
    """The pods to evict, or why evicting is of no use."""
    if reason := _not_eligible(cycle, error):
        return reason
    state = cycle.state
    nodes = [
        state.nodes[name] for name, rejection in error.rejections.items() if rejection.resolvable
    ]
    candidates, statuses = _dry_run(cycle, nodes, rng, budgets)
    if not candidates:
        return str(FitError(len(state.nodes), statuses, absent=_NO_HELP))
    return pick_node(candidates)


def _not_eligible(cycle: Cycle, error: FitError) -> str:
    pod = cycle.pod
    if (pod.pod.get("spec") or {}).get("preemptionPolicy") == "Never":
        return "not eligible due to preemptionPolicy=Never."
    node = cycle.state.nodes.get(cycle.state.nomination(pod) or pod.nominated)
    if node is None:
        return ""
    rejection = error.rejections.get(node.name, error.absent)
    if rejection is not None and not rejection.resolvable:
        return ""
    if any(p.priority < pod.priority and being_preempted(p) for p in node.pods.values()):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def being_preempted(pod: PodInfo) -> bool:
    """Whether the pod is on its way out to make room for another."""
    if not pod.deleting:
        return False
    for condition in (pod.pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "DisruptionTarget":
            return bool(
                condition.get("status") == "True"
                and condition.get("reason") == "PreemptionByScheduler"
            )
    return False


def _dry_run(
    cycle: Cycle, nodes: Sequence[NodeInfo], rng: Random, budgets: Sequence[Obj]
) -> tuple[list[Victims], dict[str, Rejection]]:
    """Candidates, those that violate no budget first, and why the other nodes are none."""
    statuses: dict[str, Rejection] = {}
    clean: list[Victims] = []
    violating: list[Victims] = []
    enough = max(len(nodes) // 10, _MANY)
    offset = rng.randrange(len(nodes)) if len(nodes) > enough else 0
    for node in (*nodes[offset:], *nodes[:offset]):
        found = _victims_on(cycle, node, budgets)
        if isinstance(found, Rejection):
            statuses[node.name] = found
            continue
        (violating if found.violations else clean).append(found)
        if clean and len(clean) + len(violating) >= enough:
            break
    return clean + violating, statuses


def _victims_on(cycle: Cycle, node: NodeInfo, budgets: Sequence[Obj]) -> Victims | Rejection:
    lower = [pod for pod in node.pods.values() if pod.priority < cycle.pod.priority]
    if not lower:
        return _NO_VICTIMS
    with cycle.trial(node) as trial:
        for pod in lower:
            trial.remove(pod)
        rejection = cycle.check_nominated(trial.node)
        if rejection is not None:
            return rejection
        lower.sort(key=by_importance)
        violating, harmless = split_by_budgets(lower, budgets)
        victims = [pod for pod in violating if not _reprieve(cycle, trial, pod)]
        violations = len(victims)
        victims += [pod for pod in harmless if not _reprieve(cycle, trial, pod)]
    if not victims:
        return Rejection(_PLUGIN, (f'expected at least one victim pod on node "{node.name}"',))
    victims.sort(key=by_importance)
    return Victims(node.name, tuple(victims), violations)


def _reprieve(cycle: Cycle, trial: Trial, pod: PodInfo) -> bool:
    """Put a pod back if the new one still fits."""
    trial.add(pod)
    if cycle.check_nominated(trial.node) is None:
        return True
    trial.remove(pod)
    return False


def by_importance(pod: PodInfo) -> tuple[int, str]:
    """Sorts the most important first: priority, then age."""
    return (-pod.priority, pod.started)


def split_by_budgets(
    pods: Sequence[PodInfo], budgets: Sequence[Obj]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """The pods whose eviction would violate a budget, if all before them go too; the others."""
    parsed = [_Budget(budget) for budget in budgets]
    violating: list[PodInfo] = []
    harmless: list[PodInfo] = []
    for pod in pods:
        exceeded = any(budget.spend(pod) for budget in parsed) if pod.labels else False
        (violating if exceeded else harmless).append(pod)
    return violating, harmless


class _Budget:
    """What is left of one PodDisruptionBudget."""

    def __init__(self, budget: Obj) -> None:
        meta, status = budget.get("metadata") or {}, budget.get("status") or {}
        self.namespace = meta.get("namespace") or ""
        self.selector = selector_of((budget.get("spec") or {}).get("selector"))
        self.disrupted = status.get("disruptedPods") or {}
        self.allowed: int = status.get("disruptionsAllowed") or 0

    def spend(self, pod: PodInfo) -> bool:
        """Count an eviction; whether it goes beyond what the budget allows."""
        if pod.namespace != self.namespace or not self.selector.requirements:
            return False
        if pod.name in self.disrupted or not self.selector.matches(pod.labels):
            return False
        self.allowed -= 1
        return self.allowed < 0


def pick_node(candidates: Sequence[Victims]) -> Victims:
    """The candidate that does the least harm; the first of those that are equal."""
    rules: tuple[Callable[[Victims], int | str], ...] = (
        lambda c: -c.violations,
        lambda c: -c.pods[0].priority,
        # Shifted to be positive, so that fewer victims are better whatever their priority.
        lambda c: -sum(pod.priority + 2**31 for pod in c.pods),
        lambda c: -len(c.pods),
        _start_of_most_important,
    )
    left = list(candidates)
    for rule in rules:
        if len(left) == 1:
            break
        values = [rule(candidate) for candidate in left]
        highest = max(values)
        left = [c for c, value in zip(left, values, strict=True) if value == highest]
    return left[0]


def _start_of_most_important(candidate: Victims) -> str:
    highest = max(pod.priority for pod in candidate.pods)
    return min(pod.started for pod in candidate.pods if pod.priority == highest)
