"""What an MPIJob consists of: its ``spec``, field by field as Kubeflow's v2beta1 has it."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import ConfigDict, Field

from corral.api.fields import Int32, Int64, Model, QuantityText, section
from corral.api.mpi.template import PodTemplateSpec

__all__ = [
    "IMPLEMENTATIONS",
    "INTEL_SPELLINGS",
    "LAUNCHER",
    "WORKER",
    "MPIJobSpec",
    "ReplicaSpec",
    "RunPolicy",
    "SchedulingPolicy",
]

LAUNCHER: Final = "Launcher"
WORKER: Final = "Worker"
IMPLEMENTATIONS: Final = ("OpenMPI", "Intel", "MPICH")
INTEL_SPELLINGS: Final = {"IntelMPI": "Intel"}
"""Other words for an implementation, and the one that is kept."""
_ACCEPTED: Final = [*IMPLEMENTATIONS, *INTEL_SPELLINGS]


class SchedulingPolicy(Model):
    """How the pods are scheduled together; used where the operator schedules gangs."""

    min_available: Int32 | None = None
    """How many pods must be schedulable at once; launcher and workers if absent."""
    queue: str | None = None
    """The queue (Volcano only)."""
    min_resources: dict[str, QuantityText] | None = None
    """What must be free; computed of the pods if absent."""
    priority_class: str | None = None
    """The priority class of the group (Volcano only)."""
    schedule_timeout_seconds: Int32 | None = None
    """How long the pods wait for each other (scheduler-plugins only)."""


class RunPolicy(Model):
    """How the job is run, ended and cleaned up."""

    clean_pod_policy: str | None = None
    """Which workers are deleted when the job has finished: None, Running or All."""
    ttl_seconds_after_finished: Int32 | None = None
    """How long the job is kept when it has finished; for ever if absent."""
    active_deadline_seconds: Int64 | None = None
    """How long the launcher may run."""
    backoff_limit: Int32 | None = None
    """How many failures of the launcher are answered by another try; 6 if absent."""
    scheduling_policy: SchedulingPolicy | None = None
    suspend: bool = False
    """Whether the pods are taken away until this is false again."""
    managed_by: str | None = None
    """Who runs the job: kubeflow.org/mpi-operator (also if absent) or kueue.x-k8s.io/multikueue."""


class ReplicaSpec(Model):
    """The launcher, or the workers."""

    replicas: Int32 | None = None
    """How many pods."""
    restart_policy: str | None = None
    """Never or OnFailure; the one of the template does not count."""
    template: PodTemplateSpec = section(PodTemplateSpec)


class MPIJobSpec(Model):
    """A launcher that starts a parallel program, and the workers it runs on."""

    model_config = ConfigDict(json_schema_extra={"required": ["mpiReplicaSpecs"]})

    slots_per_worker: Int32 | None = Field(default=None, json_schema_extra={"default": 1})
    """How many processes each worker has room for."""
    run_launcher_as_worker: bool = False
    """Whether the launcher's pod has room for processes too."""
    run_policy: RunPolicy = section(RunPolicy)
    mpi_replica_specs: dict[str, ReplicaSpec] | None = None
    """The pods: Launcher, and mostly Worker."""
    ssh_auth_mount_path: str | None = Field(
        default=None, json_schema_extra={"default": "/root/.ssh"}
    )
    """Where containers find the keys."""
    launcher_creation_policy: str = "AtStartup"
    """AtStartup, or WaitForWorkersReady: only when all workers are ready."""
    mpi_implementation: Annotated[str, Field(json_schema_extra={"enum": _ACCEPTED})] = "OpenMPI"
    """Which MPI is in the images."""

    @property
    def launcher(self) -> ReplicaSpec | None:
        return (self.mpi_replica_specs or {}).get(LAUNCHER)

    @property
    def worker(self) -> ReplicaSpec | None:
        return (self.mpi_replica_specs or {}).get(WORKER)

    @property
    def workers(self) -> int:
        """How many workers are wanted."""
        return (self.worker.replicas or 0) if self.worker is not None else 0

    def replica_specs(self) -> list[tuple[str, ReplicaSpec]]:
        """Those that count, the launcher first; other names are ignored."""
        known = ((LAUNCHER, self.launcher), (WORKER, self.worker))
        return [(name, spec) for name, spec in known if spec is not None]
