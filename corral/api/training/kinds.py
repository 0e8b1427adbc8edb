"""``training.corral.dev/v1alpha1``: TrainingJob and Checkpoint.

The parts are in `training_spec` and `training_status`, the rules beyond the schema in
`training_rules`, and the pod template with the shorthand in it is `merged_template`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints

from corral.api import names
from corral.api.fields import Conditions, Int64, LocalReference, Model, cel
from corral.api.kind import Check, Column, Kind, Names, Scale
from corral.api.training import rules
from corral.api.training.spec import TrainingJobSpec
from corral.api.training.status import TrainingJobStatus
from corral.api.training.template import merged_template
from corral.kube.problems import FieldError, invalid_value
from corral.kube.types import Obj

__all__ = [
    "CHECKPOINTS",
    "GROUP",
    "JOB_LABEL",
    "KINDS",
    "QUEUE_LABEL",
    "REPLICA_LABEL",
    "TRAININGJOBS",
    "VERSION",
    "Checkpoint",
    "CheckpointFile",
    "TrainingJob",
    "merged_template",
]

GROUP: Final = names.TRAINING_GROUP
VERSION: Final = names.TRAINING_VERSION

JOB_LABEL: Final = names.TRAINING_JOB_LABEL
REPLICA_LABEL: Final = names.TRAINING_REPLICA_LABEL
QUEUE_LABEL: Final = "corral.dev/queue-name"

MAX_NAME: Final = 56
"""Pods and services add up to seven characters to it, and theirs are DNS labels."""


class TrainingJob(Kind):
    """TrainingJob trains a model with a set of replicas that find each other."""

    names: ClassVar[Names] = names.TRAININGJOB
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Phase", ".status.phase"),
        Column("Desired", ".spec.replicas", "integer"),
        Column("Ready", ".status.replicas.ready", "integer"),
        Column("Step", ".status.progress.step", "integer"),
        Column("Percent", ".status.progress.percent", "integer"),
        Column("Restarts", ".status.replicas.restarts", "integer"),
        Column("Framework", ".spec.framework", wide=True),
        Column("Queue", ".spec.scheduling.queue", wide=True),
        Column("Checkpoint", ".status.checkpoint.last", wide=True),
        Column("Reason", ".status.failure.reason", wide=True),
        Column("Age", ".metadata.creationTimestamp", "date"),
    )
    scale: ClassVar[Scale | None] = Scale(
        ".spec.replicas", ".status.replicas.active", ".status.selector"
    )
    name_schema: ClassVar[Obj] = {
        "maxLength": MAX_NAME,
        "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$",
    }

    spec: TrainingJobSpec
    status: TrainingJobStatus | None = None

    def checks(self, old: Self | None) -> Iterator[Check]:
        """Rules of the job, and of the change to it."""
        spec = self.spec
        yield Check(("spec.template", *_SHORTHAND), rules.template_problems(self._wire_spec()))
        if spec.elastic is not None:
            bounds = "spec.elastic.minReplicas", "spec.elastic.maxReplicas"
            yield Check(bounds, rules.elastic_range_problems(spec.elastic))
            reads = "spec.replicas", *bounds
            yield Check(reads, rules.elastic_problems(spec.replicas, spec.elastic))
        if spec.checkpoint is not None:
            path, storage = "spec.checkpoint.storage", spec.checkpoint.storage
            yield Check((path,), rules.storage_problems(storage))
            yield Check((f"{path}.pvc",), rules.size_problems(storage))
            source = spec.checkpoint.restore.from_
            yield Check(("spec.checkpoint.restore",), rules.restore_problems(source))
        if old is not None:
            yield Check(("spec",), rules.permanent_problems(spec, old.spec))
            yield Check(("spec",), rules.running_problems(spec, old.spec))

    def _wire_spec(self) -> Obj:
        return {"template": self.spec.template, **self.spec.shorthand()}

    def remarks(self) -> Iterator[str]:
        return rules.remarks(self.spec)


_SHORTHAND = ("spec.image", "spec.env", "spec.resources", "spec.command", "spec.args")


class CheckpointFile(Model):
    """One file of a checkpoint."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    size: Annotated[Int64, Field(ge=0)]
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$", max_length=64)]


class CheckpointObjectSpec(Model):
    """Which job made it, when, and what it consists of."""

    job_ref: LocalReference
    """The TrainingJob."""
    step: Annotated[Int64, Field(ge=0)]
    uri: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    """Where it is kept."""
    files: list[CheckpointFile] | None = None
    """Known when it is complete."""
    metrics: dict[str, float] | None = None
    """What was reported at this step."""


class CheckpointObjectStatus(Model):
    """How far it is."""

    phase: Literal["Writing", "Ready", "Failed", "Deleted"] | None = None
    bytes: Int64 | None = None
    duration_seconds: float | None = None
    message: str | None = None
    """Why it failed."""
    conditions: Conditions | None = None


class Checkpoint(Kind):
    """Checkpoint is a state of training that a TrainingJob can be resumed from."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                cel(
                    "self.spec.jobRef == oldSelf.spec.jobRef && self.spec.step == "
                    "oldSelf.spec.step && self.spec.uri == oldSelf.spec.uri",
                    "spec.jobRef, spec.step and spec.uri are immutable",
                )
            ]
        }
    )
    names: ClassVar[Names] = names.CHECKPOINT
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Job", ".spec.jobRef.name"),
        Column("Step", ".spec.step", "integer"),
        Column("Phase", ".status.phase"),
        Column("Bytes", ".status.bytes", "integer"),
        Column("URI", ".spec.uri", wide=True),
        Column("Age", ".metadata.creationTimestamp", "date"),
    )

    spec: CheckpointObjectSpec
    status: CheckpointObjectStatus | None = None

    def checks(self, old: Self | None) -> Iterator[Check]:
        if old is not None:
            yield Check(("spec",), _moved(self.spec, old.spec))


def _moved(spec: CheckpointObjectSpec, old: CheckpointObjectSpec) -> Iterator[FieldError]:
    for name, path in (("job_ref", "jobRef"), ("step", "step"), ("uri", "uri")):
        value = getattr(spec, name)
        if value != getattr(old, name):
            shown = value.model_dump(by_alias=True) if isinstance(value, Model) else value
            yield invalid_value(f"spec.{path}", shown, "field is immutable")


KINDS: Final[tuple[type[Kind], ...]] = (TrainingJob, Checkpoint)
TRAININGJOBS: Final = TrainingJob.resource()
CHECKPOINTS: Final = Checkpoint.resource()
