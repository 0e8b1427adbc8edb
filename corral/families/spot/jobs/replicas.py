"""The batch/v1 Job of one start of a copy, made of the template. No I/O.

A copy is one pod on one machine. Whether it is started again is decided by the controller, not by
the Job: its pod is never replaced, since the machine below it may be gone, and every start has a
number that fences off those before it. What else the author wrote stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Final

from corral.api.spot.kinds import INSTANCE_LABEL, JOB_LABEL, REPLICA_LABEL, RESTORED_LABEL
from corral.families.spot.jobs.storage import CopyStorage
from corral.families.spot.names import ATTEMPT_LABEL, copy_name
from corral.kube.types import Obj

__all__ = ["GRACE", "attempt_of", "copy_job", "grace_of", "replica_of", "template_of"]

GRACE: Final = 30
"""Seconds from SIGTERM to the end, where the template says nothing."""
_OURS: Final = (
    "activeDeadlineSeconds",
    "backoffLimitPerIndex",
    "completionMode",
    "manualSelector",
    "maxFailedIndexes",
    "podFailurePolicy",
    "selector",
    "successPolicy",
    "suspend",
    "ttlSecondsAfterFinished",
)
"""What a template may say of a Job, and what the controller does instead, or says of one pod."""
_TOLERATED: Final = (INSTANCE_LABEL, "training.dcnlab.com/spot")
"""Taints that keep others off our machines, and off those that autoscalers make for us."""


def template_of(job: Obj) -> Obj:
    """The pod template's spec of a SpotInstanceJob; not a copy."""
    found: Obj = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return found


def grace_of(job: Obj) -> int:
    """Seconds from SIGTERM to the end of a copy."""
    said = template_of(job).get("terminationGracePeriodSeconds")
    return int(said) if said is not None else GRACE


def replica_of(obj: Obj) -> int | None:
    """Which copy a Job or a pod is of."""
    return _number(obj, REPLICA_LABEL)


def attempt_of(obj: Obj) -> int:
    """Which start a Job or a pod is of; 0 where it does not say."""
    return _number(obj, ATTEMPT_LABEL) or 0


def _number(obj: Obj, label: str) -> int | None:
    text = (obj["metadata"].get("labels") or {}).get(label) or ""
    return int(text) if text.isdigit() else None


def copy_job(
    job: Obj,
    replica: int,
    attempt: int,
    *,
    node: str,
    storage: CopyStorage,
    restored_from: str = "",
) -> Obj:
    """The Job; without an owner reference, which its writer sets.

    Args:
        job: the SpotInstanceJob.
        replica: which copy.
        attempt: the number of this start.
        node: the machine's node; empty: a scheduler or an autoscaler finds one.
        storage: what the pod is given for its checkpoints.
        restored_from: the Job that it goes on from.
    """
    template = deepcopy(job["spec"]["jobTemplate"])
    spec: Obj = template.get("spec") or {}
    pod: Obj = spec["template"]
    labels = {
        JOB_LABEL: job["metadata"]["name"],
        REPLICA_LABEL: str(replica),
        ATTEMPT_LABEL: str(attempt),
    }
    if restored_from:
        labels[RESTORED_LABEL] = restored_from
    for name in _OURS:
        spec.pop(name, None)
    spec |= {"parallelism": 1, "completions": 1, "backoffLimit": 0}
    # a pod that is told to stop has until its end: no other runs beside it
    spec["podReplacementPolicy"] = "Failed"
    pod["metadata"] = _labelled(pod.get("metadata") or {}, labels)
    _fill(job, pod["spec"], replica, node=node, storage=storage)
    metadata = _labelled(template.get("metadata") or {}, labels)
    metadata["name"] = copy_name(job, replica, attempt)
    metadata["namespace"] = job["metadata"]["namespace"]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _labelled(metadata: Obj, labels: Mapping[str, str]) -> Obj:
    kept = {key: metadata[key] for key in ("annotations",) if metadata.get(key)}
    return {**kept, "labels": {**(metadata.get("labels") or {}), **labels}}


def _fill(job: Obj, pod: Obj, replica: int, *, node: str, storage: CopyStorage) -> None:
    metadata = job["metadata"]
    pod["restartPolicy"] = "Never"
    told = {
        "CORRAL_JOB": metadata["name"],
        "CORRAL_NAMESPACE": metadata["namespace"],
        "CORRAL_JOB_UID": metadata["uid"],
        # each copy is a whole job to itself
        "CORRAL_REPLICA": "0",
        "CORRAL_REPLICAS": "1",
        "CORRAL_COPY": str(replica),
        "CORRAL_GRACE_SECONDS": str(grace_of(job)),
    }
    replace(storage, env=told | storage.env).add_to(pod)
    tolerations = pod.setdefault("tolerations", [])
    for key in _TOLERATED:
        if not any(known.get("key") == key for known in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    affinity = pod.setdefault("affinity", {})
    if node:
        _pin(affinity, node)
    else:
        _spread(affinity, metadata["name"])


def _pin(affinity: Obj, node: str) -> None:
    """To one node, beside what the author wants; by the scheduler, which knows what is free."""
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = affinity.setdefault("nodeAffinity", {}).setdefault(
        "requiredDuringSchedulingIgnoredDuringExecution", {}
    )
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), here]} for term in terms
    ]


def _spread(affinity: Obj, name: str) -> None:
    """Two copies on one machine would be lost together."""
    term = {"labelSelector": {"matchLabels": {JOB_LABEL: name}}}
    apart = affinity.setdefault("podAntiAffinity", {})
    apart.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(
        {**term, "topologyKey": "kubernetes.io/hostname"}
    )
