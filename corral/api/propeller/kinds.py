"""``propeller.absmach.io/v1alpha1``: tasks on proplets, and federated learning in rounds of them.

Everything that the group's manifests say is taken, and what this platform adds is optional. The
parts are in `propeller_tasks`, `propeller_learning` and `propeller_status`, the rules beyond the
schema in `propeller_rules` and `propeller_strategies`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final, Self

from corral.api import names
from corral.api.kind import Check, Column, Kind, Names
from corral.api.propeller import rules
from corral.api.propeller.learning import (
    FederatedJobSpec,
    ModelCheckpointSpec,
    TrainingRoundSpec,
)
from corral.api.propeller.status import (
    FederatedJobStatus,
    ModelCheckpointStatus,
    PropletGroupStatus,
    TrainingRoundStatus,
    WasmTaskStatus,
)
from corral.api.propeller.tasks import PropletGroupSpec, TaskTemplate, WasmTaskSpec
from corral.kube.types import Obj

__all__ = [
    "AGGREGATED_ANNOTATION",
    "COLLECTED_ANNOTATION",
    "FEDERATEDJOBS",
    "GROUP",
    "KINDS",
    "MODELCHECKPOINTS",
    "PARTICIPANT_LABEL",
    "PROGRESS_ANNOTATION",
    "PROPLETGROUPS",
    "PROPLET_LABEL",
    "RESULT_ANNOTATION",
    "ROUND_ID_LABEL",
    "ROUND_LABEL",
    "TRAININGROUNDS",
    "VERSION",
    "WASMTASKS",
    "FederatedJob",
    "ModelCheckpoint",
    "PropletGroup",
    "TrainingRound",
    "WasmTask",
]

GROUP: Final = names.PROPELLER_GROUP
VERSION: Final = names.PROPELLER_VERSION

PROPLET_LABEL: Final = "proplet-id"
"""On pods and nodes that are proplets: the id; else their name is the id."""
ROUND_LABEL: Final = "training-round"
"""On a WasmTask of a round: the name of the TrainingRound."""
ROUND_ID_LABEL: Final = "round-id"
PARTICIPANT_LABEL: Final = "participant"
RESULT_ANNOTATION: Final = f"{GROUP}/result"
"""On a Job or pod: the result of the task as JSON."""
PROGRESS_ANNOTATION: Final = f"{GROUP}/progress"
"""On a pod: what the task has given so far, as JSON."""
COLLECTED_ANNOTATION: Final = f"{GROUP}/collected-updates"
AGGREGATED_ANNOTATION: Final = f"{GROUP}/aggregated-update"

_SUBDOMAIN = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_AGE = Column("Age", ".metadata.creationTimestamp", "date")


class _Propeller(Kind):
    """What the five kinds share."""

    @property
    def name(self) -> str:
        """Empty while it is still to be generated."""
        name = self.metadata.get("name")
        return name if isinstance(name, str) else ""


class WasmTask(_Propeller):
    """WasmTask runs a WebAssembly module on a proplet."""

    names: ClassVar[Names] = names.WASMTASK
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Phase", ".status.phase"),
        Column("Proplet", ".status.propletId"),
        Column("Image", ".spec.imageUrl", wide=True),
        Column("Error", ".status.error", wide=True),
        _AGE,
    )
    name_schema: ClassVar[Obj] = {"maxLength": rules.MAX_TASK_NAME, "pattern": _SUBDOMAIN}

    spec: WasmTaskSpec
    status: WasmTaskStatus | None = None

    def checks(self, old: Self | None) -> Iterator[Check]:
        yield Check(("spec.imageUrl", "spec.file"), rules.source_problems(self.spec))
        yield Check(("spec.volumes", "spec.volumeMounts"), rules.template_problems(self.spec))
        if old is not None:
            yield Check(("spec",), rules.change_problems(self.spec, old.spec))

    def remarks(self) -> Iterator[str]:
        return rules.task_remarks(self.spec)


class PropletGroup(_Propeller):
    """PropletGroup says which pods or nodes are proplets, and how tasks are spread over them."""

    names: ClassVar[Names] = names.PROPLETGROUP
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Total", ".status.totalProplets", "integer"),
        Column("Available", ".status.availableProplets", "integer"),
        Column("Algorithm", ".spec.scheduling.algorithm", wide=True),
        _AGE,
    )

    spec: PropletGroupSpec
    status: PropletGroupStatus | None = None


class FederatedJob(_Propeller):
    """FederatedJob trains a model in rounds, on proplets that keep their data to themselves."""

    names: ClassVar[Names] = names.FEDERATEDJOB
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Phase", ".status.phase"),
        Column("Current Round", ".status.currentRound", "integer"),
        Column("Completed Rounds", ".status.completedRounds", "integer"),
        Column("Total", ".spec.rounds.total", "integer", wide=True),
        Column("Model", ".status.aggregatedModelRef", wide=True),
        _AGE,
    )

    spec: FederatedJobSpec
    status: FederatedJobStatus | None = None

    def checks(self, old: Self | None) -> Iterator[Check]:
        spec, ids = self.spec, rules.participants_of(self.spec)
        path = "spec.participants[{}].propletId"
        yield Check(("spec.participants",), rules.participant_problems(path, ids))
        last = rules.round_name(self.name, max(spec.rounds.total, 1))
        reads = "spec.participants", "spec.rounds"
        yield Check(reads, rules.name_problems(last, ids, self.name))
        yield Check(("spec.aggregator",), rules.aggregator_rules(spec.aggregator))
        for where, template in _templates(spec):
            yield Check((where,), rules.template_problems(template, where))

    def remarks(self) -> Iterator[str]:
        why = rules.invalid_spec(self.spec)
        if why:
            yield f"{why}; the job will fail with InvalidSpec"
        if self.spec.rounds.total <= 0:
            yield "spec.rounds.total: less than 1 counts as 1"


def _templates(spec: FederatedJobSpec) -> Iterator[tuple[str, TaskTemplate]]:
    if spec.template is not None:
        yield "spec.template", spec.template
    for i, participant in enumerate(spec.participants):
        if participant.template is not None:
            yield f"spec.participants[{i}].template", participant.template


class TrainingRound(_Propeller):
    """TrainingRound has every participant train once, and makes one model of the updates."""

    names: ClassVar[Names] = names.TRAININGROUND
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Phase", ".status.phase"),
        Column("Updates", ".status.updatesReceived", "integer"),
        Column("Required", ".status.updatesRequired", "integer"),
        Column("Model", ".status.aggregatedModelRef", wide=True),
        _AGE,
    )

    spec: TrainingRoundSpec
    status: TrainingRoundStatus | None = None

    def checks(self, old: Self | None) -> Iterator[Check]:
        spec, ids = self.spec, rules.participants_of(self.spec)
        path = "spec.participants[{}]"
        yield Check(("spec.participants",), rules.participant_problems(path, ids))
        yield Check(("spec.participants",), rules.name_problems(self.name, ids, self.name))
        if spec.aggregator is not None:
            yield Check(("spec.aggregator",), rules.aggregator_rules(spec.aggregator))
        if spec.template is not None:
            yield Check(("spec.template",), rules.template_problems(spec.template, "spec.template"))


class ModelCheckpoint(_Propeller):
    """ModelCheckpoint is the model that a round gave, kept in a registry."""

    names: ClassVar[Names] = names.MODELCHECKPOINT
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Job", ".spec.federatedJobRef.name"),
        Column("Round", ".spec.round", "integer"),
        Column("Phase", ".status.phase"),
        Column("Bytes", ".status.sizeBytes", "integer"),
        Column("Model", ".spec.modelRef", wide=True),
        _AGE,
    )

    spec: ModelCheckpointSpec
    status: ModelCheckpointStatus | None = None


KINDS: Final[tuple[type[Kind], ...]] = (
    FederatedJob,
    TrainingRound,
    WasmTask,
    PropletGroup,
    ModelCheckpoint,
)
WASMTASKS: Final = WasmTask.resource()
PROPLETGROUPS: Final = PropletGroup.resource()
FEDERATEDJOBS: Final = FederatedJob.resource()
TRAININGROUNDS: Final = TrainingRound.resource()
MODELCHECKPOINTS: Final = ModelCheckpoint.resource()
