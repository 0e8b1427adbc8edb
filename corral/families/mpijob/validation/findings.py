"""What a judgement is made of: findings, how grave each is, and what they are judged by.

An ``ERROR`` is always refused: no pod could ever be made. A matter of ``POLICY`` is refused where
the namespace is restricted and remarked on elsewhere. ``ADVICE`` is only ever a remark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, TypeAlias

from corral.api.mpi.kinds import LAUNCHER, MPIJob
from corral.api.mpi.rules import replica_path
from corral.api.mpi.spec import MPIJobSpec, ReplicaSpec
from corral.api.mpi.template import Container, PodSpec
from corral.kube.problems import FieldError
from corral.kube.types import Obj

__all__ = [
    "BASELINE",
    "Context",
    "Finding",
    "Findings",
    "PlacedContainer",
    "PlacedPod",
    "Policy",
    "Severity",
    "Subject",
    "advice",
    "error",
    "errors",
    "policy",
]

Policy: TypeAlias = Literal["baseline", "restricted"]


class Severity(Enum):
    """How grave a finding is."""

    ERROR = "error"
    POLICY = "policy"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about one field."""

    problem: FieldError
    severity: Severity


Findings: TypeAlias = Iterator[Finding]


def error(problem: FieldError) -> Finding:
    return Finding(problem, Severity.ERROR)


def errors(problems: Iterable[FieldError]) -> Findings:
    return map(error, problems)


def policy(problem: FieldError) -> Finding:
    return Finding(problem, Severity.POLICY)


def advice(path: str, text: str) -> Finding:
    """A remark: allowed, but probably not meant."""
    return Finding(FieldError("", path, text), Severity.ADVICE)


@dataclass(frozen=True, slots=True)
class Context:
    """What a job is judged by beside itself."""

    policy: Policy = "baseline"
    required_labels: tuple[str, ...] = ()
    """Labels that every job of the namespace has to have."""
    quotas: Sequence[Obj] = ()
    """The ResourceQuotas of the namespace."""
    priorities: Mapping[str, int] | None = None
    """The PriorityClasses of the cluster by name; none: not known."""
    gang_scheduler: str = ""
    """See `ObjectSettings`."""


BASELINE: Final = Context()


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod of the job, and where it is."""

    role: str
    path: str
    """As in ``spec.mpiReplicaSpecs[Worker].template.spec``."""
    pod: PodSpec

    @property
    def containers(self) -> list[PlacedContainer]:
        """Those that run at the same time."""
        return _placed(self, "containers", self.pod.containers)

    @property
    def all_containers(self) -> list[PlacedContainer]:
        """With those that run before."""
        return self.containers + _placed(self, "initContainers", self.pod.init_containers)


@dataclass(frozen=True, slots=True)
class PlacedContainer:
    """A container of a pod, and where it is."""

    role: str
    path: str
    container: Container
    first: bool
    """Whether this is the container that MPI is set up in."""


def _placed(pod: PlacedPod, name: str, containers: list[Container] | None) -> list[PlacedContainer]:
    return [
        PlacedContainer(pod.role, f"{pod.path}.{name}[{i}]", container, _is_first(name, i))
        for i, container in enumerate(containers or ())
    ]


def _is_first(name: str, index: int) -> bool:
    return name == "containers" and index == 0


@dataclass(frozen=True, slots=True)
class Subject:
    """The job to be judged."""

    job: MPIJob
    """With its defaults; parts that could not be read are absent."""
    old: MPIJob | None = None
    """The job before the change; none for a new one."""
    context: Context = field(default=BASELINE)

    @property
    def spec(self) -> MPIJobSpec:
        return self.job.spec

    @property
    def labels(self) -> dict[str, str]:
        return _texts(self.job.metadata.get("labels"))

    @property
    def annotations(self) -> dict[str, str]:
        return _texts(self.job.metadata.get("annotations"))

    def replicas(self) -> list[tuple[str, ReplicaSpec]]:
        """Paths and specs, the launcher first."""
        return [(replica_path(role), spec) for role, spec in self.spec.replica_specs()]

    def pods(self) -> list[PlacedPod]:
        return [
            PlacedPod(role, f"{replica_path(role)}.template.spec", spec.template.pod)
            for role, spec in self.spec.replica_specs()
        ]

    def pod(self, role: str) -> PlacedPod | None:
        return next((pod for pod in self.pods() if pod.role == role), None)

    def counts(self) -> list[tuple[PlacedPod, int]]:
        """The pods, and how many there are of each; numbers that are wrong count as none."""
        known = dict(self.spec.replica_specs())
        return [
            (pod, 1 if pod.role == LAUNCHER else max(known[pod.role].replicas or 0, 0))
            for pod in self.pods()
        ]


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {k: v for k, v in value.items() if isinstance(k, str) and isinstance(v, str)}
