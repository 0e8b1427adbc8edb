"""Jobs: one pass over a job as a sans-I/O state machine, and the small decisions around it.

``sync_job`` yields steps (create, delete, write the status, free pods) and is told how they went;
``claim_pods`` says which pods are the job's; ``is_abandoned`` which pods no job will ever free;
``time_to_live`` when a finished job goes. Start reading at ``sync.py``.
"""

from __future__ import annotations

from corral.cluster.workloads.job.backoff import NO_FAILURES, Backoff
from corral.cluster.workloads.job.orphans import FREE_POD, claim_pods, is_abandoned
from corral.cluster.workloads.job.state import finished_condition, managed_by_other
from corral.cluster.workloads.job.steps import (
    DONE,
    CreatePods,
    DeletePods,
    Emit,
    Event,
    Pass,
    RemoveFinalizers,
    Report,
    Step,
    Verdict,
    WriteStatus,
)
from corral.cluster.workloads.job.sync import sync_job
from corral.cluster.workloads.job.ttl import time_to_live
from corral.cluster.workloads.pods import Claims, slow_start

__all__ = [
    "DONE",
    "FREE_POD",
    "NO_FAILURES",
    "Backoff",
    "Claims",
    "CreatePods",
    "DeletePods",
    "Emit",
    "Event",
    "Pass",
    "RemoveFinalizers",
    "Report",
    "Step",
    "Verdict",
    "WriteStatus",
    "claim_pods",
    "finished_condition",
    "is_abandoned",
    "managed_by_other",
    "slow_start",
    "sync_job",
    "time_to_live",
]
