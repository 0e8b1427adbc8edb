"""``training.training.dcnlab.com/v1alpha1``: training on spot machines, and backups of its pods.

SpotInstanceJob and SpotInstanceVM take the group's manifests as they are; what this platform adds
is optional. CheckpointBackup (``migration.dcnlab.com/v1alpha1``) takes both shapes that are in use.
The parts are in `spot_spec`, `spot_vm`, `spot_backup` and `spot_status`, the rules in `spot_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final, Self

from corral.api import names
from corral.api.kind import Check, Column, Kind, Names, Scale
from corral.api.spot import rules
from corral.api.spot.backup import IMMEDIATELY, CheckpointBackupSpec
from corral.api.spot.spec import SpotInstanceJobSpec
from corral.api.spot.status import (
    CheckpointBackupStatus,
    SpotInstanceJobStatus,
    SpotInstanceVMStatus,
)
from corral.api.spot.vm import SpotInstanceVMSpec
from corral.kube.problems import FieldError
from corral.kube.types import Obj

__all__ = [
    "BACKUP_FINALIZER",
    "BACKUP_JOB_LABEL",
    "CHECKPOINTBACKUPS",
    "CLOUD_LABEL",
    "CREDENTIALS_KEY",
    "GROUP",
    "INSTANCE_LABEL",
    "JOB_FINALIZER",
    "JOB_LABEL",
    "JOIN_SECRET",
    "KINDS",
    "MIGRATION_GROUP",
    "PREEMPTION_CONDITION",
    "PREEMPTION_TAINT",
    "REPLICA_LABEL",
    "RESTORED_LABEL",
    "RISK_CONDITION",
    "RISK_TAINT",
    "SPOTINSTANCEJOBS",
    "SPOTINSTANCEVMS",
    "VERSION",
    "VM_FINALIZER",
    "CheckpointBackup",
    "SpotInstanceJob",
    "SpotInstanceVM",
]

GROUP: Final = names.SPOT_GROUP
MIGRATION_GROUP: Final = names.SPOT_MIGRATION_GROUP
VERSION: Final = names.SPOT_VERSION

JOB_FINALIZER: Final = "training.dcnlab.com/finalizer"
VM_FINALIZER: Final = "training.dcnlab.com/vm-finalizer"
BACKUP_FINALIZER: Final = "checkpointbackup.migration.dcnlab.com/finalizer"
JOB_LABEL: Final = names.SPOT_JOB_LABEL
REPLICA_LABEL: Final = names.SPOT_REPLICA_LABEL
BACKUP_JOB_LABEL: Final = "training.dcnlab.com/job"
"""On backups: the batch/v1 Job."""
INSTANCE_LABEL: Final = "training.dcnlab.com/provisioned-instance"
"""On nodes of ours, and on them a taint (NoSchedule) too: which machine they are."""
CLOUD_LABEL: Final = "training.dcnlab.com/cloud"
"""On nodes of ours: whose machine they are (gcp, aws, azure or local)."""
PREEMPTION_TAINT: Final = "training.dcnlab.com/preemption"
"""On nodes that their cloud will take (NoSchedule): the deadline, in seconds since the epoch."""
PREEMPTION_CONDITION: Final = "SpotPreemption"
"""Of nodes that their cloud will take; the message ends in the deadline."""
RISK_TAINT: Final = "training.dcnlab.com/preemption-risk"
"""On nodes that are more likely than others to be taken (PreferNoSchedule)."""
RISK_CONDITION: Final = "SpotPreemptionRisk"
"""Of such nodes: what runs there writes a checkpoint at once."""
RESTORED_LABEL: Final = "restored-from"
"""On a Job that goes on with another's checkpoint: that one."""
CREDENTIALS_KEY: Final = "credentials.json"
JOIN_SECRET: Final = "kubeadm-join-token"


class SpotInstanceJob(Kind):
    """SpotInstanceJob runs a job on spot machines and survives losing them."""

    names: ClassVar[Names] = names.SPOTINSTANCEJOB
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Phase", ".status.phase"),
        Column("Active", ".status.activeReplicas", "integer"),
        Column("Replicas", ".spec.replicas", "integer"),
        Column("Checkpoint", ".status.lastCheckpointTime", "date"),
        Column("Cost", ".status.cost.total", "number", wide=True),
        Column("Saving", ".status.cost.savingPercent", "number", wide=True),
        Column("Age", ".metadata.creationTimestamp", "date"),
    )
    scale: ClassVar[Scale | None] = Scale(
        ".spec.replicas", ".status.activeReplicas", ".status.selector"
    )
    name_schema: ClassVar[Obj] = {"maxLength": 63}
    """It is a label of the job's pods."""

    spec: SpotInstanceJobSpec
    status: SpotInstanceJobStatus | None = None

    def checks(self, old: Self | None) -> Iterator[Check]:
        yield from _each(rules.job_problems(self.spec))

    def remarks(self) -> Iterator[str]:
        return rules.job_remarks(self.spec)


class SpotInstanceVM(Kind):
    """SpotInstanceVM says which machines jobs may be placed on, in which clouds."""

    names: ClassVar[Names] = names.SPOTINSTANCEVM
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Phase", ".status.phase"),
        Column("GPU", ".spec.gpu.type"),
        Column("Instances", ".status.provisionedInstances[*].name", wide=True),
        Column("Age", ".metadata.creationTimestamp", "date"),
    )

    spec: SpotInstanceVMSpec
    status: SpotInstanceVMStatus | None = None

    def checks(self, old: Self | None) -> Iterator[Check]:
        yield from _each(rules.vm_problems(self.spec))

    def remarks(self) -> Iterator[str]:
        return rules.vm_remarks(self.spec)


class CheckpointBackup(Kind):
    """CheckpointBackup saves a pod as an image, at once or on a schedule."""

    names: ClassVar[Names] = names.CHECKPOINTBACKUP
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Pod", ".spec.podName"),
        Column("Phase", ".status.phase"),
        Column("Image", ".status.checkpointImage", wide=True),
        Column("Completed", ".status.completionTime", "date"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    )

    spec: CheckpointBackupSpec
    status: CheckpointBackupStatus | None = None

    @classmethod
    def complete(cls, obj: Obj) -> None:
        """Either shape becomes both: what one says, the other says too."""
        spec = obj.get("spec")
        if isinstance(spec, dict):
            _complete_backup(spec)

    def checks(self, old: Self | None) -> Iterator[Check]:
        yield from _each(rules.backup_problems(self.spec))
        if old is not None:
            changed = rules.backup_change_problems(self.spec, old.spec)
            yield Check(("spec.podName", "spec.podRef"), changed)


def _each(problems: Iterator[FieldError]) -> Iterator[Check]:
    """One check per finding: it is dropped where the field itself is wrong already."""
    for problem in problems:
        yield Check((problem.field,), (problem,))


def _complete_backup(spec: dict[str, Any]) -> None:
    reference = spec.get("podRef")
    if isinstance(reference, dict):
        if reference.get("name") and not spec.get("podName"):
            spec["podName"] = reference["name"]
    elif reference is None and isinstance(spec.get("podName"), str) and spec["podName"]:
        spec["podRef"] = {"name": spec["podName"]}
    if not spec.get("schedule"):
        spec["schedule"] = IMMEDIATELY


KINDS: Final[tuple[type[Kind], ...]] = (SpotInstanceJob, SpotInstanceVM, CheckpointBackup)
SPOTINSTANCEJOBS: Final = SpotInstanceJob.resource()
SPOTINSTANCEVMS: Final = SpotInstanceVM.resource()
CHECKPOINTBACKUPS: Final = CheckpointBackup.resource()
