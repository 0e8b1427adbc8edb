"""Which part of a job a pod is: its role, and its index among the pods of that role.

Everything here is a pure function of labels and names; a pod of somebody else gets the plain role
of the kind, never an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from corral.client.phases import section, text
from corral.kube.types import Obj

__all__ = [
    "DEPLOYMENT_LABEL",
    "INFERENCE_LABEL",
    "KAFKA_INDEX_LABEL",
    "KAFKA_ROLE_LABEL",
    "MPI_JOB_LABEL",
    "SPOT_JOB_LABEL",
    "TRAINING_JOB_LABEL",
    "Role",
    "labelled",
    "mpi_role",
    "single",
    "trailing_number",
]

TRAINING_JOB_LABEL: Final = "trainingjob"
TRAINING_REPLICA_LABEL: Final = "replica-id"
MPI_JOB_LABEL: Final = "training.kubeflow.org/job-name"
MPI_ROLE_LABEL: Final = "training.kubeflow.org/job-role"
SPOT_JOB_LABEL: Final = "training.dcnlab.com/spot-instance-job"
SPOT_REPLICA_LABEL: Final = "training.dcnlab.com/job-replica"
DEPLOYMENT_LABEL: Final = "kafkaml.corral.dev/deployment"
INFERENCE_LABEL: Final = "kafkaml.corral.dev/inference"
KAFKA_ROLE_LABEL: Final = "kafkaml.corral.dev/role"
KAFKA_INDEX_LABEL: Final = "kafkaml.corral.dev/index"


@dataclass(frozen=True, slots=True, order=True)
class Role:
    """``launcher``, ``worker`` 3, ``replica`` 0, …; the index is none where there is only one."""

    name: str
    index: int | None = None

    def __str__(self) -> str:
        return self.name if self.index is None else f"{self.name} {self.index}"

    @property
    def order(self) -> tuple[int, str, int]:
        """Sorts the launcher or server first, then by name and index."""
        first = 0 if self.name in ("launcher", "server") else 1
        return first, self.name, -1 if self.index is None else self.index


def label_of(obj: Obj, label: str) -> str:
    return text(section(section(obj, "metadata"), "labels").get(label))


def trailing_number(name: str) -> int | None:
    """``pi-worker-12`` → 12."""
    return _number(name.rpartition("-")[2])


def _number(digits: str) -> int | None:
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None


def labelled(name: str, index_label: str, *, role_label: str = "") -> Callable[[Obj], Role]:
    """A role whose index, and perhaps name, stand in labels."""

    def role(pod: Obj) -> Role:
        return Role(label_of(pod, role_label) or name, _number(label_of(pod, index_label)))

    return role


def mpi_role(pod: Obj) -> Role:
    """By the name: labels of workers are shifted where the launcher is one too."""
    if label_of(pod, MPI_ROLE_LABEL) == "worker":
        return Role("worker", trailing_number(text(section(pod, "metadata").get("name"))))
    return Role("launcher")


def single(name: str) -> Callable[[Obj], Role]:
    """Every pod has this role."""
    role = Role(name)
    return lambda pod: role


training_role = labelled("replica", TRAINING_REPLICA_LABEL)
spot_role = labelled("replica", SPOT_REPLICA_LABEL)
kafka_role = labelled("client", KAFKA_INDEX_LABEL, role_label=KAFKA_ROLE_LABEL)
