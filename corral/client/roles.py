"""Which part of a job a pod is: its role, and its index among the pods of that role.

Everything here is a pure function of labels and names; a pod of somebody else gets the plain role
of the kind, never an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from corral.api import names
from corral.client.phases import section, text
from corral.kube.types import Obj

__all__ = [
    "Role",
    "inference_role",
    "kafka_role",
    "labelled",
    "mpi_role",
    "single",
    "spot_role",
    "trailing_number",
    "training_role",
]


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
    if label_of(pod, names.MPI_ROLE_LABEL) == "worker":
        return Role("worker", trailing_number(text(section(pod, "metadata").get("name"))))
    return Role("launcher")


def single(name: str) -> Callable[[Obj], Role]:
    """Every pod has this role."""
    role = Role(name)
    return lambda pod: role


training_role = labelled("replica", names.TRAINING_REPLICA_LABEL)
spot_role = labelled("replica", names.SPOT_REPLICA_LABEL)
kafka_role = labelled("client", names.KAFKAML_INDEX_LABEL, role_label=names.KAFKAML_ROLE_LABEL)
inference_role = labelled("replica", names.KAFKAML_INDEX_LABEL)
