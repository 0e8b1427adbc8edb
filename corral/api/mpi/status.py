"""What is known about an MPIJob: its ``status``, and the names of its conditions."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from corral.api.fields import AnyObject, Int32, Model, Timestamp

__all__ = [
    "CREATED",
    "FAILED",
    "PENDING",
    "RESTARTING",
    "RUNNING",
    "SUCCEEDED",
    "SUSPENDED",
    "Failure",
    "JobCondition",
    "MPIJobStatus",
    "ReplicaStatus",
]

CREATED: Final = "Created"
RUNNING: Final = "Running"
RESTARTING: Final = "Restarting"
SUSPENDED: Final = "Suspended"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
PENDING: Final = "Pending"
"""No condition: the phase of a job that nobody has seen yet."""


class JobCondition(Model):
    """What is known about one aspect of the job."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str | None = None
    message: str | None = None
    last_update_time: Timestamp | None = None
    last_transition_time: Timestamp | None = None


class ReplicaStatus(Model):
    """How many pods of a role are in which state."""

    active: Int32 | None = None
    succeeded: Int32 | None = None
    failed: Int32 | None = None
    label_selector: AnyObject | None = None
    """Not used."""
    selector: str | None = None
    """Not used."""


class Failure(Model):
    """The pod that the failure of the job is due to, and what became of it."""

    replica: Literal["Launcher", "Worker"] | None = None
    index: Int32 | None = None
    """Of the worker."""
    pod: str | None = None
    node: str | None = None
    reason: str | None = None
    exit_code: Int32 | None = None
    signal: Int32 | None = None
    message: str | None = None
    log_tail: str | None = None
    """The last lines that the container wrote."""


Conditions = Annotated[
    list[JobCondition],
    Field(
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        }
    ),
]


class MPIJobStatus(Model):
    """Written by the operator only."""

    conditions: Conditions | None = None
    replica_statuses: dict[str, ReplicaStatus] | None = None
    start_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    last_reconcile_time: Timestamp | None = None
    """Not used."""
    failure: Failure | None = None

    def condition(self, type_: str) -> JobCondition | None:
        return next((c for c in self.conditions or () if c.type == type_), None)

    def is_true(self, type_: str) -> bool:
        found = self.condition(type_)
        return found is not None and found.status == "True"

    def replicas(self, role: str) -> ReplicaStatus:
        """The counts of a role; none where nothing is known."""
        return (self.replica_statuses or {}).get(role) or ReplicaStatus()
