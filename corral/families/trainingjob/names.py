"""What the objects of a TrainingJob are called, and the labels and annotations they carry. No I/O.

Names follow from the job's alone, so an object that is there already is found without a search,
and a creation that is repeated cannot make a second one.
"""

from __future__ import annotations

from typing import Final

from corral.api.training.kinds import GROUP, JOB_LABEL, REPLICA_LABEL
from corral.kube.types import Obj
from corral.runtime.owners import controller_of, refers_to

__all__ = [
    "APPLIED_ANNOTATION",
    "ATTEMPT_LABEL",
    "JOB_LABEL",
    "MANAGED_BY",
    "MANAGED_BY_LABEL",
    "REPLICA_LABEL",
    "WORLD_LABEL",
    "attempt_of",
    "claim_name",
    "is_of_job",
    "job_labels",
    "master_service_name",
    "pod_host",
    "pod_labels",
    "pod_name",
    "replica_of",
    "selector_of",
    "service_name",
    "world_of",
]

ATTEMPT_LABEL: Final = f"{GROUP}/attempt"
"""On pods: which generation of pods they belong to."""
WORLD_LABEL: Final = f"{GROUP}/world-size"
"""On pods: how many replicas this generation has."""
APPLIED_ANNOTATION: Final = f"{GROUP}/applied"
"""On the other objects of a job: a digest of what was last applied."""
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "corral"


def pod_name(job: str, index: int) -> str:
    return f"{job}-{index}"


def service_name(job: str) -> str:
    """The headless Service, which is also the ``subdomain`` of the pods."""
    return job


def master_service_name(job: str) -> str:
    return f"{job}-master"


def claim_name(job: str) -> str:
    """The PersistentVolumeClaim for checkpoints."""
    return f"{job}-checkpoints"


def pod_host(job: str, namespace: str, index: int) -> str:
    """The name under which replicas reach this one."""
    return f"{pod_name(job, index)}.{service_name(job)}.{namespace}.svc"


def job_labels(job: str) -> dict[str, str]:
    """The labels of every object of a job."""
    return {JOB_LABEL: job, MANAGED_BY_LABEL: MANAGED_BY}


def pod_labels(job: str, index: int, *, attempt: int, world: int) -> dict[str, str]:
    """The labels of a pod of a job."""
    return {
        **job_labels(job),
        REPLICA_LABEL: str(index),
        ATTEMPT_LABEL: str(attempt),
        WORLD_LABEL: str(world),
    }


def selector_of(job: str) -> str:
    """Selects the pods of a job (in its namespace); ``status.selector``."""
    return f"{JOB_LABEL}={job}"


def replica_of(pod: Obj) -> int | None:
    """The index of a pod of a job; None if its label says none."""
    return _number(pod, REPLICA_LABEL)


def attempt_of(pod: Obj) -> int | None:
    """The attempt that a pod belongs to."""
    return _number(pod, ATTEMPT_LABEL)


def world_of(pod: Obj) -> int | None:
    """How many replicas the pod was told that there are."""
    return _number(pod, WORLD_LABEL)


def is_of_job(obj: Obj, job: str) -> bool:
    """Whether a TrainingJob of this name controls the object, be it an earlier one."""
    reference = controller_of(obj)
    return (
        reference is not None
        and refers_to(reference, GROUP, "TrainingJob")
        and reference.get("name") == job
    )


def _number(pod: Obj, label: str) -> int | None:
    text = (pod["metadata"].get("labels") or {}).get(label, "")
    return int(text) if text.isascii() and text.isdigit() else None
