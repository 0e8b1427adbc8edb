"""What is known about the objects of ``propeller.absmach.io``: their ``status``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from corral.api.fields import Conditions, Int32, Int64, Model, Timestamp
from corral.api.propeller.tasks import AnyJson

__all__ = [
    "FederatedJobStatus",
    "ModelCheckpointStatus",
    "ObjectReference",
    "ParticipantStatus",
    "PropletGroupStatus",
    "PropletInfo",
    "RoundMetrics",
    "RoundParticipant",
    "TrainingRoundStatus",
    "WasmTaskStatus",
]

Number = Annotated[float | int, WithJsonSchema({"type": "number"})]


class ObjectReference(Model):
    """Names an object of any kind (core/v1 ObjectReference)."""

    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class WasmTaskStatus(Model):
    """Written by the operator only."""

    phase: Literal["Pending", "Scheduled", "Running", "Completed", "Failed"] | None = None
    proplet_id: str | None = None
    """The proplet that it runs on."""
    node_name: str | None = None
    """The node of that proplet."""
    job_ref: ObjectReference | None = None
    start_time: Timestamp | None = None
    finish_time: Timestamp | None = None
    results: AnyJson = None
    """What the task gave; while the condition Partial is true, what it has given so far."""
    result_source: str | None = None
    """Where the results were found."""
    monitoring: AnyJson = None
    """The last readings of its monitoringProfile."""
    error: str | None = None
    reschedules: Int32 | None = None
    """How often it has lost its proplet and begun anew on another."""
    conditions: Conditions | None = None
    observed_generation: Int64 | None = None


class PropletInfo(Model):
    """A proplet, and how it is."""

    id: str
    namespace: str | None = None
    alive: bool
    task_count: Int32
    """The tasks that are bound to it and not over."""
    last_heartbeat: Timestamp | None = None
    node_name: str | None = None
    kind: Literal["Pod", "Node"] | None = None
    message: str | None = None
    """Why it is not alive, or what its health checks say."""


class PropletGroupStatus(Model):
    """Written by the operator only."""

    proplets: list[PropletInfo] | None = None
    total_proplets: Int32 | None = None
    available_proplets: Int32 | None = None
    """Those that are alive."""
    last_selected: str | None = None
    """The proplet that got the last task, for round-robin."""
    conditions: Conditions | None = None
    observed_generation: Int64 | None = None


class ParticipantStatus(Model):
    """A participant, over all rounds."""

    proplet_id: str
    status: str | None = None
    last_update: Timestamp | None = None
    updates: Int32 | None = None
    """In how many rounds its update was counted."""
    rejected: Int32 | None = None
    samples: Int64 | None = None
    """Of its last update."""
    bytes: Int64 | None = None
    duration_seconds: Number | None = None
    metrics: dict[str, Number] | None = None
    """Of its last update: loss, accuracy and others."""


class RoundMetrics(Model):
    """What a round gave."""

    round: Int32
    updates: Int32 | None = None
    rejected: Int32 | None = None
    samples: Int64 | None = None
    bytes: Int64 | None = None
    duration_seconds: Number | None = None
    aggregation_seconds: Number | None = None
    metrics: dict[str, Number] | None = None
    """Means over the participants, weighted by samples."""
    model_ref: str | None = None
    epsilon: Number | None = None
    """Privacy spent up to here."""


class FederatedJobStatus(Model):
    """Written by the operator only."""

    phase: Literal["Pending", "Running", "Completed", "Failed"] | None = None
    current_round: Int32 | None = None
    completed_rounds: Int32 | None = None
    conditions: Conditions | None = None
    participants: list[ParticipantStatus] | None = None
    aggregated_model_ref: str | None = None
    model_digest: str | None = None
    rounds: list[RoundMetrics] | None = None
    """The last rounds, the newest at the end."""
    start_time: Timestamp | None = None
    finish_time: Timestamp | None = None
    message: str | None = None
    privacy: AnyJson = None
    """What has been spent of the privacy budget."""
    observed_generation: Int64 | None = None


class RoundParticipant(Model):
    """A participant in one round."""

    proplet_id: str
    task_ref: ObjectReference | None = None
    status: Literal["Pending", "Running", "Completed", "Failed"] | None = None
    update_received: bool | None = None
    samples: Int64 | None = None
    bytes: Int64 | None = None
    format: str | None = None
    metrics: dict[str, Number] | None = None
    update_ref: str | None = None
    update_digest: str | None = None
    """Of the payload that was counted."""
    received_time: Timestamp | None = None
    selected: bool | None = None
    """Whether it is of the set that is aggregated: decided before, so that it is decided once."""
    rejected: bool | None = None
    """Whether its update was looked at and does not count."""
    rounds_late: Int32 | None = None
    """For how many rounds its task has been running; it counts less by the root of that."""
    duration_seconds: Number | None = None
    message: str | None = None
    """Why its update was rejected, or its task failed."""


class TrainingRoundStatus(Model):
    """Written by the operator only."""

    phase: Literal["Pending", "Running", "Aggregating", "Completed", "Failed"] | None = None
    start_time: Timestamp | None = None
    end_time: Timestamp | None = None
    deadline: Timestamp | None = None
    """When its time is over."""
    extensions: Int32 | None = None
    participants: list[RoundParticipant] | None = None
    updates_received: Int32 | None = None
    updates_required: Int32 | None = None
    updates_rejected: Int32 | None = None
    base_model_ref: str | None = None
    """The model that the round started from, as the registry has it; none where it has none."""
    aggregation_time: Timestamp | None = None
    """When the updates to aggregate were chosen."""
    aggregated_model_ref: str | None = None
    model_digest: str | None = None
    state_digest: str | None = None
    global_version: str | None = None
    format: str | None = None
    samples: Int64 | None = None
    bytes: Int64 | None = None
    aggregation_seconds: Number | None = None
    metrics: dict[str, Number] | None = None
    message: str | None = None
    privacy: AnyJson = None
    conditions: Conditions | None = None
    observed_generation: Int64 | None = None


class ModelCheckpointStatus(Model):
    """Written by the operator only."""

    phase: Literal["Pending", "Uploading", "Ready", "Failed"] | None = None
    upload_time: Timestamp | None = None
    size_bytes: Annotated[Int64, Field(ge=0)] | None = None
    digest: str | None = None
    message: str | None = None
    conditions: Conditions | None = None
    observed_generation: Int64 | None = None
