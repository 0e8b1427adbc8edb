"""Cron jobs: schedules, the run that is due, and one pass over a cron job without I/O."""

from __future__ import annotations

from corral.cluster.workloads.cronjob.sync import (
    CreateJob,
    DeleteJob,
    LookUpJob,
    Pass,
    Step,
    WriteStatus,
    job_body,
    job_name,
    sync_cron_job,
)
from corral.cluster.workloads.cronjob.timing import Due, due_run, seconds_to_next
from corral.cluster.workloads.steps import Answer, Emit, Verdict
from corral.kube.cron import ScheduleError, parse

__all__ = [
    "Answer",
    "CreateJob",
    "DeleteJob",
    "Due",
    "Emit",
    "LookUpJob",
    "Pass",
    "ScheduleError",
    "Step",
    "Verdict",
    "WriteStatus",
    "due_run",
    "job_body",
    "job_name",
    "parse",
    "seconds_to_next",
    "sync_cron_job",
]
