"""Area 5, run policy: how the job is restarted, ended and cleaned up, and by whom."""

from __future__ import annotations

from corral.api.mpi import rules
from corral.families.mpijob.validation.findings import (
    Findings,
    Subject,
    advice,
    error,
    errors,
)
from corral.kube.problems import invalid_value

__all__ = ["check"]

_PATH = "spec.runPolicy"
_MAX_DEADLINE = 2**63 - 1


def check(subject: Subject) -> Findings:
    run = subject.spec.run_policy
    yield from errors(
        problem
        for problem in rules.replica_problems(subject.spec)
        if problem.field.endswith(".restartPolicy")
    )
    yield from errors(rules.run_policy_problems(run))
    deadline = run.active_deadline_seconds
    if deadline is not None and deadline > _MAX_DEADLINE:
        why = f"must be less than or equal to {_MAX_DEADLINE}"
        yield error(invalid_value(f"{_PATH}.activeDeadlineSeconds", deadline, why))
    if subject.old is not None:
        yield from errors(rules.managed_by_problems(run, subject.old.spec.run_policy))
    yield from _remarks(subject)


def _remarks(subject: Subject) -> Findings:
    run = subject.spec.run_policy
    if run.active_deadline_seconds == 0:
        text = "0 fails the job as soon as it has started"
        yield advice(f"{_PATH}.activeDeadlineSeconds", text)
    if run.ttl_seconds_after_finished == 0:
        text = "0 deletes the job as soon as it has finished, with its logs"
        yield advice(f"{_PATH}.ttlSecondsAfterFinished", text)
    if subject.old is not None and not subject.old.spec.run_policy.suspend:
        before = dict(subject.old.spec.replica_specs())
        for role, now in subject.spec.replica_specs():
            if role in before and before[role].template != now.template:
                text = "pods that exist already do not follow the change"
                yield advice(f"{rules.replica_path(role)}.template", text)
