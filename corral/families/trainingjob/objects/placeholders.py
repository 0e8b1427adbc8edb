"""Placeholders: pods that are scheduled like a replica of an elastic job and never run. No I/O.

Each refers to a ConfigMap that does not exist. So the scheduler finds it a node and its place is
kept there, but its containers wait, whatever their image is. A job that is smaller than it would
like learns from them that there is room, and the image is on the node already when it grows.
"""

from __future__ import annotations

from typing import Final

from corral.families.trainingjob.lifecycle.replicas import PLACEHOLDER_LABEL
from corral.families.trainingjob.names import REPLICA_LABEL, job_labels
from corral.kube.types import Obj

__all__ = ["as_placeholder", "placeholder_name"]

_NEVER: Final = "corral-placeholder-never-runs"


def placeholder_name(job: str, number: int) -> str:
    return f"{job}-grow-{number}"


def as_placeholder(pod: Obj, job: str, number: int) -> Obj:
    """The pod of a replica, turned into a placeholder; it is changed in place."""
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["name"] = placeholder_name(job, number)
    metadata["labels"] = metadata["labels"] | job_labels(job) | {PLACEHOLDER_LABEL: "true"}
    del metadata["labels"][REPLICA_LABEL]
    for field in ("hostname", "subdomain", "volumes"):
        spec.pop(field, None)
    spec["terminationGracePeriodSeconds"] = 0
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            container.pop("volumeMounts", None)
            container.pop("env", None)
            container["envFrom"] = [{"configMapRef": {"name": _NEVER, "optional": False}}]
    return pod
