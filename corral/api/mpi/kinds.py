"""``kubeflow.org/v2beta1``: MPIJob, as Kubeflow's clients, manifests and Kueue know it.

The definition has what theirs has and no more: a status, and neither scale nor columns nor short
names. Objects that theirs takes are taken. The parts are in `mpi_spec`, `mpi_template` and
`mpi_status`, the rules in `mpi_rules`. `MPIJob.default` is what both the webhook and the controller
complete a job by.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, Self

from corral.api import names
from corral.api.kind import Check, Kind, Names
from corral.api.mpi import rules
from corral.api.mpi import status as conditions
from corral.api.mpi.spec import INTEL_SPELLINGS, LAUNCHER, WORKER, MPIJobSpec
from corral.api.mpi.status import MPIJobStatus
from corral.api.schema import apply_defaults
from corral.kube.problems import FieldError
from corral.kube.types import Obj

__all__ = ["GROUP", "KINDS", "LAUNCHER", "MPIJOBS", "VERSION", "WORKER", "MPIJob"]

GROUP: Final = names.MPI_GROUP
VERSION: Final = names.MPI_VERSION

_PHASES = (
    conditions.FAILED,
    conditions.SUCCEEDED,
    conditions.SUSPENDED,
    conditions.RESTARTING,
    conditions.RUNNING,
    conditions.CREATED,
)
"""The first of these conditions that is true is the phase."""


class MPIJob(Kind):
    """MPIJob runs a parallel program: a launcher starts its processes on workers."""

    names: ClassVar[Names] = names.MPIJOB

    spec: MPIJobSpec
    status: MPIJobStatus | None = None

    @classmethod
    def read(cls, obj: Obj) -> Self:
        return super().read(_completed(cls, obj))

    @classmethod
    def complete(cls, obj: Obj) -> None:
        """Defaults that the definition does not say; empty texts count as absent."""
        spec = obj.get("spec")
        if isinstance(spec, dict):
            _complete_spec(spec)
            # A text that was emptied above has its default in the schema.
            apply_defaults(cls.schema()["properties"]["spec"], spec)

    @classmethod
    def validate(  # type: ignore[override]  # BaseModel's is deprecated and unused
        cls, obj: Obj, old: Obj | None = None
    ) -> list[FieldError]:
        return super().validate(
            _completed(cls, obj), _completed(cls, old) if old is not None else None
        )

    @classmethod
    def salvaged(cls, obj: Obj) -> tuple[Self | None, list[str], list[FieldError]]:
        """The job with its defaults as far as it can be read, paths left out, and why."""
        return cls._parse(_completed(cls, obj))

    def checks(self, old: Self | None) -> Iterator[Check]:
        """One check per finding: it is dropped where the field itself is wrong already."""
        for problem in rules.problems(self.name, self.spec):
            yield Check((rules.dotted(problem.field),), (problem,))
        if old is not None:
            now, before = self.spec.run_policy, old.spec.run_policy
            changed = rules.managed_by_problems(now, before)
            yield Check(("spec.runPolicy.managedBy",), changed)

    # --- what is known about it --------------------------------------------------------------

    @property
    def name(self) -> str:
        """Empty while it is still to be generated."""
        name = self.metadata.get("name")
        return name if isinstance(name, str) else ""

    @property
    def known(self) -> MPIJobStatus:
        """The status, an empty one where there is none."""
        return self.status or MPIJobStatus()

    def is_job_finished(self) -> bool:
        """Whether it has succeeded or failed for good."""
        return self.known.is_true(conditions.SUCCEEDED) or self.known.is_true(conditions.FAILED)

    def get_job_phase(self) -> str:
        """One word: Pending, Created, Running, Restarting, Suspended, Succeeded or Failed."""
        return next((phase for phase in _PHASES if self.known.is_true(phase)), conditions.PENDING)

    def get_job_duration(self, now: datetime | None = None) -> timedelta | None:
        """How long it ran: until it was completed, was suspended, or until now.

        None before it has started.
        """
        start = _time(self.known.start_time)
        if start is None:
            return None
        end = _time(self.known.completion_time) or self._suspended_since() or now
        return max((end or datetime.now(UTC)) - start, timedelta(0))

    def _suspended_since(self) -> datetime | None:
        if not self.known.is_true(conditions.SUSPENDED):
            return None
        found = self.known.condition(conditions.SUSPENDED)
        return _time(found.last_transition_time) if found is not None else None

    def get_worker_stats_summary(self) -> str:
        """``2/4 workers active, 1 succeeded, 1 failed``."""
        counts = self.known.replicas(WORKER)
        parts = [f"{counts.active or 0}/{self.spec.workers} workers active"]
        for number, word in ((counts.succeeded, "succeeded"), (counts.failed, "failed")):
            if number:
                parts.append(f"{number} {word}")
        return ", ".join(parts)


def _completed(kind: type[MPIJob], obj: Obj) -> Obj:
    """A copy with every default; the metadata is shared."""
    copy = {**obj, "spec": deepcopy(obj["spec"])} if "spec" in obj else dict(obj)
    kind.default(copy)
    return copy


def _complete_spec(spec: Obj) -> None:
    for name in ("sshAuthMountPath", "mpiImplementation", "launcherCreationPolicy"):
        if spec.get(name) == "":
            del spec[name]
    implementation = spec.get("mpiImplementation")
    if isinstance(implementation, str) and implementation in INTEL_SPELLINGS:
        spec["mpiImplementation"] = INTEL_SPELLINGS[implementation]
    policy = spec.setdefault("runPolicy", {})
    if isinstance(policy, dict) and policy.get("cleanPodPolicy") is None:
        policy["cleanPodPolicy"] = "None"
    specs = spec.get("mpiReplicaSpecs")
    if isinstance(specs, dict):
        _complete_replica(specs.get(LAUNCHER), replicas=1, restart_policy="OnFailure")
        _complete_replica(specs.get(WORKER), replicas=0, restart_policy="Never")


def _complete_replica(replica: Any, *, replicas: int, restart_policy: str) -> None:
    if not isinstance(replica, dict):
        return
    if replica.get("replicas") is None:
        replica["replicas"] = replicas
    if not replica.get("restartPolicy"):
        replica["restartPolicy"] = restart_policy


def _time(text: str | None) -> datetime | None:
    """A time of the API; none where the text is no time."""
    try:
        read = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return read.replace(tzinfo=UTC) if read is not None and read.tzinfo is None else read


KINDS: Final[tuple[type[Kind], ...]] = (MPIJob,)
MPIJOBS: Final = MPIJob.resource()
