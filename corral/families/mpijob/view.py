"""An MPIJob as the builders see it: complete, without nulls, its parts at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from corral.api.mpi.kinds import LAUNCHER, MPIJOBS, WORKER, MPIJob
from corral.api.mpi.rules import OWN_MANAGER
from corral.families.mpijob import names
from corral.kube.types import Obj
from corral.runtime.owners import owner_reference

__all__ = ["AT_STARTUP", "JobView", "is_managed_elsewhere", "without_nulls"]

AT_STARTUP: Final = "AtStartup"


@dataclass(frozen=True, slots=True)
class JobView:
    """Read only: builders copy what they put into an object."""

    obj: Obj
    """The job with every default."""
    name: str
    namespace: str
    spec: Obj
    launcher: Obj
    """The ReplicaSpec."""
    worker: Obj | None
    """The ReplicaSpec."""

    @classmethod
    def of(cls, obj: Obj) -> JobView:
        """View a job that is valid; the object itself is left alone.

        Raises:
            KeyError: it has no launcher, name or namespace.
        """
        copy = MPIJOBS.stamp({**obj, "spec": without_nulls(obj["spec"])})
        MPIJob.default(copy)
        specs = copy["spec"]["mpiReplicaSpecs"]
        metadata = copy["metadata"]
        return cls(
            obj=copy,
            name=metadata["name"],
            namespace=metadata["namespace"],
            spec=copy["spec"],
            launcher=specs[LAUNCHER],
            worker=specs.get(WORKER),
        )

    @property
    def workers(self) -> int:
        """How many workers are wanted."""
        return int(self.worker["replicas"]) if self.worker is not None else 0

    @property
    def slots(self) -> int:
        return int(self.spec["slotsPerWorker"])

    @property
    def implementation(self) -> str:
        return str(self.spec["mpiImplementation"])

    @property
    def launcher_is_worker(self) -> bool:
        return bool(self.spec["runLauncherAsWorker"])

    @property
    def ssh_path(self) -> str:
        return str(self.spec["sshAuthMountPath"])

    @property
    def run_policy(self) -> Obj:
        policy: Obj = self.spec["runPolicy"]
        return policy

    @property
    def suspended(self) -> bool:
        return bool(self.run_policy.get("suspend"))

    @property
    def waits_for_workers(self) -> bool:
        """Whether the launcher is created only when all workers are ready."""
        return bool(self.spec["launcherCreationPolicy"] != AT_STARTUP and self.workers)

    @property
    def scheduling_policy(self) -> Obj:
        return self.run_policy.get("schedulingPolicy") or {}

    @property
    def annotations(self) -> dict[str, str]:
        return self.obj["metadata"].get("annotations") or {}

    def metadata(self, name: str, *, labels: dict[str, str] | None = None) -> Obj:
        """The metadata of an object that is made for the job and controlled by it."""
        chosen = {names.APP_LABEL: self.name} if labels is None else labels
        out: Obj = {"name": name, "namespace": self.namespace}
        if chosen:
            out["labels"] = chosen
        return {**out, "ownerReferences": [self.owner()]}

    def owner(self) -> Obj:
        return owner_reference(self.obj)


def is_managed_elsewhere(job: Obj) -> bool:
    """Whether another controller has the job: nothing at all is done about it then."""
    spec = job.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, dict) else None
    manager = policy.get("managedBy") if isinstance(policy, dict) else None
    return manager not in (None, OWN_MANAGER)


def without_nulls(value: Any) -> Any:
    """A copy in which nothing is null: to Kubernetes a null field is an absent one."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return value
