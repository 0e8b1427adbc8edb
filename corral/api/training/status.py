"""What is known about a TrainingJob: its ``status``, and the names of its conditions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from corral.api.fields import Conditions, Int32, Int64, Model, Timestamp

__all__ = [
    "CONDITION_FAILED",
    "CONDITION_RESTARTING",
    "CONDITION_RUNNING",
    "CONDITION_SUCCEEDED",
    "CONDITION_SUSPENDED",
    "CONDITION_VALID",
    "PHASES",
    "Phase",
    "TrainingJobStatus",
]

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]
PHASES: tuple[str, ...] = ("Pending", "Running", "Succeeded", "Failed")

CONDITION_VALID = "Valid"
CONDITION_RUNNING = "Running"
CONDITION_RESTARTING = "Restarting"
CONDITION_SUSPENDED = "Suspended"
CONDITION_SUCCEEDED = "Succeeded"
CONDITION_FAILED = "Failed"


class ReplicaCounts(Model):
    """How many replicas are in which state."""

    desired: Int32 = 0
    active: Int32 = 0
    ready: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    restarts: Int32 = 0
    """Failures that were answered with a restart; these count against the backoffLimit."""
    disruptions: Int32 = 0
    """Restarts in a row because pods were lost with their node; these do not."""


class Progress(Model):
    """What the master reported last."""

    step: Int64 | None = None
    total_steps: Int64 | None = None
    epoch: Int64 | None = None
    percent: Int32 | None = None
    eta_seconds: Int64 | None = None
    metrics: dict[str, float] | None = None
    updated_at: Timestamp | None = None


class CheckpointSummary(Model):
    """The checkpoints of the job."""

    last: str | None = None
    """The name of the newest that is complete."""
    last_step: Int64 | None = None
    last_time: Timestamp | None = None
    count: Int32 | None = None
    bytes: Int64 | None = None
    restored_from: str | None = None
    """The name of the one that the present run started from."""


class Failure(Model):
    """The failure that the last restart or the end of the job is due to."""

    replica: Int32 | None = None
    pod: str | None = None
    node: str | None = None
    reason: str | None = None
    exit_code: Int32 | None = None
    signal: Int32 | None = None
    message: str | None = None
    log_tail: str | None = None


class Cost(Model):
    """What the job costs."""

    currency: str | None = None
    per_hour: float | None = None
    total: float | None = None
    gpu_hours: float | None = None


class TrainingJobStatus(Model):
    """Written by the operator only."""

    phase: Phase | None = None
    """Suspended and Restarting are conditions."""
    conditions: Conditions | None = None
    observed_generation: Int64 | None = None
    """The generation of the spec that this status is about."""
    start_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    next_attempt_time: Timestamp | None = None
    """No pods are made before this time: the delay of a restart."""
    suspended_seconds: Int64 | None = None
    """How long the job has been suspended since it started, when it was resumed last."""
    selector: str | None = None
    """Selects the pods of the job; for the scale subresource."""
    attempt: Int32 | None = None
    """The number of the present set of pods: goes up with every restart, resize and resume."""
    world_size: Int32 | None = None
    """How many replicas the present attempt has."""
    replica_attempts: dict[str, Int32] | None = None
    """By index: the attempts of replicas that were started anew alone; higher than attempt."""
    launched_attempt: Int32 | None = None
    """The highest attempt number for which all pods have been seen."""
    completed_replicas: str | None = None
    """The indexes of replicas of the present attempt that have succeeded, such as 0-2,5."""
    replicas: ReplicaCounts | None = Field(default=None)
    progress: Progress | None = None
    checkpoint: CheckpointSummary | None = None
    failure: Failure | None = None
    cost: Cost | None = None
