"""Stateful sets: pods with names, order and claims of their own; decisions without I/O."""

from __future__ import annotations

from corral.cluster.workloads.deployment.steps import Answer, Verdict
from corral.cluster.workloads.statefulset.sync import (
    Create,
    Delete,
    Emit,
    Pass,
    Step,
    Update,
    WriteStatus,
    claim_pods,
    sync_stateful_set,
)

__all__ = [
    "Answer",
    "Create",
    "Delete",
    "Emit",
    "Pass",
    "Step",
    "Update",
    "Verdict",
    "WriteStatus",
    "claim_pods",
    "sync_stateful_set",
]
