"""What is known about spot jobs, machines and backups: their ``status``, and the words in it."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from corral.api.fields import Conditions, Int32, Int64, Model, Timestamp
from corral.api.spot.spec import SecretReference

__all__ = [
    "BACKUP_ENDS",
    "FAILED",
    "LOST",
    "RUNNING",
    "SUCCEEDED",
    "BuiltImage",
    "CheckpointBackupStatus",
    "CheckpointFile",
    "CheckpointRequest",
    "Cost",
    "JobProgress",
    "JobStatus",
    "MachineOffer",
    "PlacementStatus",
    "ProvisionedInstance",
    "SpotInstanceJobStatus",
    "SpotInstanceVMStatus",
]

RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
LOST: Final = "Lost"
"""Why a machine ended that its cloud took."""
BACKUP_ENDS: Final = ("Completed", "CompletedPodDeleted", "CompletedWithError", "Failed")
"""Phases of a backup that nothing follows."""
Model_ = Literal["Spot", "OnDemand"]


class JobStatus(Model):
    """One copy of the job."""

    name: str
    """Of the batch/v1 Job."""
    node_name: str | None = None
    phase: str | None = None
    last_checkpoint_image: str | None = None
    replica: Int32 | None = None
    attempt: Int32 | None = None
    """Each start has a higher one; checkpoints of a lower one are refused."""


class PlacementStatus(Model):
    """A machine that a copy of the job is wished on, until it has an end."""

    instance: str
    vm: str | None = None
    """The SpotInstanceVM that it comes from."""
    replica: Int32 | None = None
    cloud: str | None = None
    region: str | None = None
    zone: str | None = None
    machine_type: str | None = None
    provisioning_model: Model_ | None = None
    start_time: Timestamp | None = None
    """When it was asked for."""
    ready_time: Timestamp | None = None
    """When it was a node."""
    node_name: str | None = None
    end_time: Timestamp | None = None
    """When it was no longer wanted; machines without one are wanted."""
    end_reason: str | None = None
    """Lost, Refused, Moved, Paused, Scaled, Finished or Deleted."""
    price_per_hour: float | None = None
    cost: float | None = None
    lost_work_seconds: float | None = None


class Cost(Model):
    """What the job has cost so far."""

    spot: float | None = None
    on_demand: float | None = None
    transfers: float | None = None
    total: float | None = None
    machine_seconds: float | None = None
    lost_work_seconds: float | None = None
    losses: Int32 | None = None
    starts: Int32 | None = None
    on_demand_equivalent: float | None = None
    """What the same work would have cost on demand."""
    saving_percent: float | None = None


class CheckpointRequest(Model):
    """A checkpoint that was asked for at once, since the machine of another copy is about to go."""

    id: str
    replica: Int32 | None = None
    """The copy that is asked."""
    time: Timestamp | None = None


class JobProgress(Model):
    """How far the copy that is ahead is, by its own reports."""

    step: Int64 | None = None
    total_steps: Int64 | None = None
    percent: float | None = None
    saved_percent: float | None = None
    """What the newest verified checkpoint holds."""
    updated_at: Timestamp | None = None


class SpotInstanceJobStatus(Model):
    """Written by the operator only."""

    conditions: Conditions | None = None
    phase: str | None = None
    message: str | None = None
    observed_generation: Int64 | None = None
    active_replicas: Int32 | None = None
    selector: str | None = None
    start_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    last_checkpoint_time: Timestamp | None = None
    last_checkpoint_image: str | None = None
    checkpoint_interval_seconds: float | None = None
    """What is in use, where it is auto."""
    job_statuses: list[JobStatus] | None = None
    placements: list[PlacementStatus] | None = None
    """The last machines, those in use at the end."""
    cost: Cost | None = None
    machines: Int64 | None = None
    """How many machines were asked for so far; names of machines end in this number."""
    attempt: Int32 | None = None
    """How many starts of copies there were; each has a number of its own."""
    failures: Int32 | None = None
    """How often a copy failed by itself; counts against the backoffLimit of the template."""
    checkpoint_request: CheckpointRequest | None = None
    progress: JobProgress | None = None


class ProvisionedInstance(Model):
    """A machine."""

    name: str
    instance_id: str | None = Field(default=None, alias="instanceID")
    internal_ip: str | None = Field(default=None, alias="internalIP")
    external_ip: str | None = Field(default=None, alias="externalIP")
    state: str | None = None
    """PENDING, PROVISIONING, STAGING, RUNNING, STOPPING or TERMINATED."""
    joined_cluster: bool | None = None
    node_name: str | None = None
    creation_time: Timestamp | None = None
    job: str | None = None
    """The SpotInstanceJob that it is for."""
    request_id: str | None = Field(default=None, alias="requestID")
    """The same for every attempt to make it."""
    cloud: str | None = None
    region: str | None = None
    zone: str | None = None
    machine_type: str | None = None
    provisioning_model: Model_ | None = None
    price_per_hour: float | None = None
    preemption_notice: Timestamp | None = None
    """When a notice came."""
    preemption_deadline: Timestamp | None = None
    """When it says that the machine will be taken."""
    reason: str | None = None
    """Why it has ended: StockOut, QuotaExceeded, AccountRefused, BadRequest, NotJoined, Lost,
    Preempted or Deleted."""
    message: str | None = None
    end_time: Timestamp | None = None
    """When nothing was left of it."""
    credentials_secret_ref: SecretReference | None = None
    """What it was made with, and is deleted with."""


class MachineOffer(Model):
    """What a machine costs now, and how soon it is lost."""

    cloud: str
    region: str
    zone: str
    machine_type: str
    provisioning_model: Model_
    price_per_hour: float
    hazard_per_hour: float | None = None
    """Losses that the cloud publishes."""


class SpotInstanceVMStatus(Model):
    """Written by the operator only."""

    conditions: Conditions | None = None
    phase: str | None = None
    observed_generation: Int64 | None = None
    offers: list[MachineOffer] | None = None
    """Prices of the clouds; machines without a price are used when there are none with one."""
    provisioned_instances: list[ProvisionedInstance] | None = None


class BuiltImage(Model):
    """An image that was made of a container."""

    container_name: str | None = None
    image_name: str | None = None
    build_time: Timestamp | None = None
    pushed: bool | None = None
    digest: str | None = None


class CheckpointFile(Model):
    """What the kubelet wrote."""

    container_name: str | None = None
    file_path: str | None = None
    checkpoint_time: Timestamp | None = None


class CheckpointBackupStatus(Model):
    """Written by the operator and its agents only."""

    conditions: Conditions | None = None
    phase: str | None = None
    message: str | None = None
    observed_generation: Int64 | None = None
    start_time: Timestamp | None = None
    last_checkpoint_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    checkpoint_image: str | None = None
    """The first of builtImages."""
    built_images: list[BuiltImage] | None = None
    checkpoint_files: list[CheckpointFile] | None = None
