"""Which pods nobody else will remove. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from corral.cluster.workloads.nodehealth.conditions import ready_status
from corral.cluster.workloads.nodehealth.taints import OUT_OF_SERVICE, has_taint
from corral.cluster.workloads.pods import is_deleting, is_terminal, phase, uid
from corral.cluster.workloads.times import datetime_or_zero
from corral.kube.types import Obj

__all__ = [
    "ENDED",
    "LEAVING",
    "LEAVING_UNBOUND",
    "Quarantine",
    "classes",
    "excess",
    "failed_patch",
    "is_out_of_service",
]

ENDED: Final = "ended"
LEAVING: Final = "leaving"
LEAVING_UNBOUND: Final = "leaving-unbound"
_ALIVE: Final = frozenset({"Pending", "Running", "Unknown"})


def classes(pod: Obj) -> tuple[str, ...]:
    """For ``Store.add_index``: what may be a reason to remove a pod."""
    found = [ENDED] if phase(pod) not in _ALIVE else []
    if is_deleting(pod):
        bound = (pod.get("spec") or {}).get("nodeName")
        found.append(LEAVING if bound else LEAVING_UNBOUND)
    return tuple(found)


def excess(ended: Sequence[Obj], threshold: int) -> list[Obj]:
    """The ended pods above the threshold: evicted ones first, then the oldest; none for 0."""
    surplus = len(ended) - threshold
    return sorted(ended, key=_rank)[:surplus] if threshold > 0 and surplus > 0 else []


def _rank(pod: Obj) -> tuple[object, ...]:
    status, metadata = pod.get("status") or {}, pod["metadata"]
    evicted = status.get("phase") == "Failed" and status.get("reason") == "Evicted"
    return not evicted, datetime_or_zero(metadata.get("creationTimestamp")), metadata["name"]


def is_out_of_service(node: Obj | None) -> bool:
    """Somebody has said that the node will not come back: pods that leave it have left."""
    return node is not None and ready_status(node) != "True" and has_taint(node, OUT_OF_SERVICE)


def failed_patch(pod: Obj, now: str, *, reason: str = "", message: str = "") -> Obj | None:
    """The last status of a pod that is removed by force; None for one that has ended."""
    if is_terminal(pod):
        return None
    status: Obj = {"phase": "Failed"}
    generation = pod["metadata"].get("generation")
    if generation:
        status["observedGeneration"] = generation
    if reason:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
        }
        status["conditions"] = [
            condition | {"observedGeneration": generation} if generation else condition
        ]
    return {"metadata": {"uid": uid(pod)}, "status": status}


class Quarantine:
    """Nodes that pods are bound to and that nobody has seen; they may only be late."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[str, float] = {}

    def missing(self, names: Iterable[str], now: float) -> list[str]:
        """Take in which nodes are missing now; those that were so for the whole time."""
        self._since = {name: self._since.get(name, now) for name in names}
        return [name for name, since in self._since.items() if now - since >= self._seconds]
