"""Stateful sets: pods with names, order and claims of their own; decisions without I/O."""

from __future__ import annotations

from corral.cluster.workloads.statefulset.sync import (
    Create,
    Delete,
    Pass,
    Step,
    Together,
    Update,
    WriteStatus,
    claim_pods,
    sync_stateful_set,
)
from corral.cluster.workloads.steps import Answer, Emit, Verdict

__all__ = [
    "Answer",
    "Create",
    "Delete",
    "Emit",
    "Pass",
    "Step",
    "Together",
    "Update",
    "Verdict",
    "WriteStatus",
    "claim_pods",
    "sync_stateful_set",
]
