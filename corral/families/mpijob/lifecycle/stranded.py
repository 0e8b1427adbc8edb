"""Workers that nobody will ever say have ended, since their node is dead. No I/O.

A pod that was deleted stays until its node has ended it, and its name with it: the next worker of
that name would wait for ever. A node that answers is left its time, however long it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from corral.families.mpijob.lifecycle.decision import Observation
from corral.families.mpijob.lifecycle.limits import MPISettings
from corral.kube.types import Obj
from corral.runtime.conditions import is_condition_true
from corral.runtime.pods.states import conditions_of, is_deleting, moment

__all__ = ["dead_nodes", "stranded"]


def dead_nodes(pods: Iterable[Obj], find: Callable[[str], Obj | None]) -> tuple[set[str], set[str]]:
    """The nodes of deleted pods that do not answer, and those of them that do not exist."""
    names = {_node_of(pod) for pod in pods if is_deleting(pod)} - {""}
    nodes = {name: find(name) for name in names}
    gone = {name for name, node in nodes.items() if node is None}
    silent = {
        name
        for name, node in nodes.items()
        if node is None or not is_condition_true(conditions_of(node), "Ready")
    }
    return silent, gone


def stranded(seen: Observation, settings: MPISettings) -> tuple[tuple[Obj, ...], float]:
    """Workers to remove by force, and after how many seconds to look again (0: no need to)."""
    force: list[Obj] = []
    waits: list[float] = []
    for pod in seen.workers:
        deadline = moment(pod["metadata"].get("deletionTimestamp"))
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0.0)
        if deadline is None or not grace:
            continue  # it stays, or somebody else holds it: more force is of no use
        node = _node_of(pod)
        patience = 0.0 if node in seen.gone else settings.force_after
        left = seen.since(deadline - grace) + grace + patience - seen.now
        if left > 0:
            waits.append(left)
        elif node in seen.silent:
            force.append(pod)
        else:
            waits.append(settings.force_after)
    return tuple(force), min(waits, default=0.0)


def _node_of(pod: Obj) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")
