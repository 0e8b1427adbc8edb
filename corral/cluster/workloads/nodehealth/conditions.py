"""What a silent node's status says, and that of its pods. No I/O; patches are strategic merges."""

from __future__ import annotations

from typing import Final

from corral.cluster.workloads.pods import is_ready, pod_condition
from corral.kube.types import Obj
from corral.runtime import find_condition, uid_of, version_of

__all__ = ["disruption_patch", "not_ready_patch", "ready_status", "silence_patch"]

KINDS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""What only the node itself can know. NetworkUnavailable is for whoever set it."""


def ready_status(node: Obj) -> str:
    """``True``, ``False`` or ``Unknown``; empty for a node that has never posted a status."""
    condition = find_condition((node.get("status") or {}).get("conditions"), "Ready")
    return str(condition.get("status", "")) if condition is not None else ""


def silence_patch(node: Obj, now: str) -> Obj | None:
    """The status of a node that nothing was heard of, bound to the version read; None if it is so.

    The time of the last heartbeat stays: this is none.
    """
    conditions = (node.get("status") or {}).get("conditions")
    changed = [
        _unknown(node, kind, find_condition(conditions, kind), now)
        for kind in KINDS
        if (find_condition(conditions, kind) or {}).get("status") != "Unknown"
    ]
    if not changed:
        return None
    return {
        "metadata": {"resourceVersion": version_of(node)},
        "status": {"conditions": changed},
    }


def _unknown(node: Obj, kind: str, known: Obj | None, now: str) -> Obj:
    condition: Obj = {"type": kind, "status": "Unknown", "lastTransitionTime": now}
    if known is None:
        return condition | {
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": node["metadata"].get("creationTimestamp"),
        }
    return condition | {
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
    }


def not_ready_patch(pod: Obj, now: str) -> Obj | None:
    """The status of a pod whose node is silent; None if it does not claim to be ready."""
    if not is_ready(pod):
        return None
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": now}
    return {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}


def disruption_patch(pod: Obj, *, reason: str, message: str, now: str) -> Obj | None:
    """The status of a pod that is about to be removed; None if it says so already."""
    known = pod_condition(pod, "DisruptionTarget")
    if known is not None and (known.get("status"), known.get("reason"), known.get("message")) == (
        "True", reason, message,
    ):  # fmt: skip
        return None
    condition: Obj = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }
    if known is not None and known.get("status") == "True":
        condition["lastTransitionTime"] = known.get("lastTransitionTime") or now
    if generation := pod["metadata"].get("generation"):
        condition["observedGeneration"] = generation
    return {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}
