"""What the status of a job may say, and how it may change.

Each rule is only applied when what it looks at changes, so a status written by an older
controller can still be updated.
"""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.builtin.validation.fields import check
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, int_of, same
from corral.cluster.apiserver.builtin.validation.workloads.job_policies import (
    IndexesError,
    count_indexes,
    overlap,
)
from corral.kube.types import Obj

__all__ = ["validate_job_status"]

_COUNTS = check.counts("active succeeded failed ready terminating")


class _View:
    """A job, asked the questions the rules ask."""

    def __init__(self, job: Obj) -> None:
        self.spec: Obj = job.get("spec") or {}
        self.status: Obj = job.get("status") or {}
        self.true = {
            c.get("type") for c in self.status.get("conditions") or () if c.get("status") == "True"
        }
        self.false = {
            c.get("type") for c in self.status.get("conditions") or () if c.get("status") == "False"
        }

    @property
    def finished(self) -> bool:
        return bool(self.true & {"Complete", "Failed"})

    def number(self, name: str) -> int:
        return int_of(self.status.get(name))


def _changed(new: _View, old: _View, *names: str) -> bool:
    for name in names:
        if name[0].isupper():
            if (name in new.true) != (name in old.true):
                return True
        elif not same(new.status.get(name), old.status.get(name)):
            return True
    return False


def _check_uncounted(errs: Errors, uncounted: Obj | None) -> None:
    seen: set[str] = set()
    for kind in ("succeeded", "failed"):
        for i, uid in enumerate((uncounted or {}).get(kind) or ()):
            where = f"status.uncountedTerminatedPods.{kind}[{i}]"
            if not uid:
                errs.invalid(where, uid, "must not be empty")
            elif uid in seen:
                errs.duplicate(where, uid)
            seen.add(uid)


def _conditions(errs: Errors, why: str) -> None:
    errs.omitted("status.conditions", why)


def _check_completion(errs: Errors, new: _View, old: _View) -> None:
    complete, failed = "Complete" in new.true, "Failed" in new.true
    if complete and failed and _changed(new, old, "Complete", "Failed"):
        _conditions(errs, "cannot set Complete=True and Failed=true conditions")
    target = "FailureTarget" in new.true
    if complete and target and _changed(new, old, "Complete", "FailureTarget"):
        _conditions(errs, "cannot set Complete=True and FailureTarget=true conditions")
    ended, path = new.status.get("completionTime"), "status.completionTime"
    if _changed(new, old, "Complete", "completionTime"):
        if ended is not None and not complete:
            why = "cannot set completionTime when there is no Complete=True condition"
            errs.invalid(path, ended, why)
        if ended is None and complete:
            errs.required(path, "completionTime is required for Complete jobs")
    started = new.status.get("startTime")
    if _changed(new, old, "startTime", "completionTime") and started and ended and ended < started:
        errs.invalid(path, ended, "must be equal to or after `startTime`")
    indexes = not same(new.status.get("failedIndexes"), old.status.get("failedIndexes"))
    if failed and not target and (_changed(new, old, "Failed") or indexes):
        why = "cannot set Failed=True condition without the FailureTarget=true condition"
        _conditions(errs, why)
    met = "SuccessCriteriaMet" in new.true
    if complete and not met and _changed(new, old, "Complete", "SuccessCriteriaMet"):
        why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        _conditions(errs, why)


def _check_finished(errs: Errors, new: _View, old: _View) -> None:
    if not new.finished:
        return
    ends = new.finished != old.finished
    active = new.number("active")
    if active > 0 and (ends or _changed(new, old, "active")):
        errs.invalid("status.active", active, "active>0 is invalid for finished job")
    idle = new.spec.get("suspend") is True and new.spec.get("completions") == 0
    if (
        new.status.get("startTime") is None
        and not idle
        and (ends or _changed(new, old, "startTime"))
    ):
        errs.required("status.startTime", "startTime is required for finished job")
    uncounted = new.status.get("uncountedTerminatedPods") or {}
    if any(uncounted.get(k) for k in ("succeeded", "failed")) and (
        ends or _changed(new, old, "uncountedTerminatedPods")
    ):
        shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
        errs.invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job")


def _check_indexes(errs: Errors, new: _View, old: _View) -> None:
    completions = new.spec.get("completions")
    done, failed = new.status.get("completedIndexes") or "", new.status.get("failedIndexes")
    done_changed = _changed(new, old, "completedIndexes")
    failed_changed = _changed(new, old, "failedIndexes")
    per_index = new.spec.get("backoffLimitPerIndex") is not None
    if done_changed and completions is not None:
        _check_format(errs, done, completions, "completedIndexes")
    if failed_changed and completions is not None and per_index and failed is not None:
        _check_format(errs, failed, completions, "failedIndexes")
    if done_changed and done and new.spec.get("completionMode") != "Indexed":
        why = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errs.invalid("status.completedIndexes", done, why)
    if failed_changed and not per_index and failed is not None:
        why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errs.invalid("status.failedIndexes", failed, why)
    if (done_changed or failed_changed) and completions is not None and failed is not None:
        clash = overlap(done, failed, completions)
        if clash is not None:
            why = f"failedIndexes and completedIndexes overlap at index: {clash}"
            errs.invalid("status.failedIndexes", failed, why)


def _check_format(errs: Errors, text: str, completions: int, name: str) -> None:
    try:
        count_indexes(text, completions)
    except IndexesError as bad:
        errs.invalid(f"status.{name}", text, f"error parsing {name}: {bad}")


def _check_pods(errs: Errors, new: _View, old: _View) -> None:
    ends = new.finished != old.finished
    going: Any = new.number("terminating")
    if going > 0 and new.finished and (ends or _changed(new, old, "terminating")):
        errs.invalid("status.terminating", going, "terminating>0 is invalid for finished job")
    ready = new.status.get("ready")
    if ready is not None and ready > new.number("active") and _changed(new, old, "ready", "active"):
        errs.invalid("status.ready", ready, "cannot set more ready pods than active")
    if "SuccessCriteriaMet" in new.true:
        for other in ("Failed", "FailureTarget"):
            if other in new.true:
                _conditions(errs, f"cannot set SuccessCriteriaMet=True and {other}=true conditions")
    elif new.spec.get("successPolicy") is not None and "Complete" in new.true:
        why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        _conditions(errs, why)


def _check_history(errs: Errors, new: _View, old: _View) -> None:
    for kind in ("Failed", "Complete", "FailureTarget"):
        if kind in old.true and kind not in new.true:
            _conditions(errs, f"cannot disable the terminal {kind}=True condition")
    scaled = new.spec.get("completionMode") == "Indexed" and same(
        new.spec.get("completions"), new.spec.get("parallelism")
    )
    for name in ("failed", "succeeded"):
        if new.number(name) < old.number(name) and not (scaled and name == "succeeded"):
            errs.invalid(f"status.{name}", new.number(name), f"cannot decrease the {name} counter")
    ended, before = new.status.get("completionTime"), old.status.get("completionTime")
    if ended is not None and before is not None and ended != before:
        errs.invalid("status.completionTime", ended, "field is immutable")
    started, before = new.status.get("startTime"), old.status.get("startTime")
    resuming = "Suspended" in old.true and "Suspended" in new.false
    if before is not None and before != started and not new.spec.get("suspend") and not resuming:
        errs.invalid("status.startTime", started, "field is immutable for unsuspended job once set")
    met = "SuccessCriteriaMet"
    if met in old.true and met not in new.true:
        _conditions(errs, "cannot disable the SuccessCriteriaMet=True condition")
    if "Complete" in old.true and met not in old.true and met in new.true:
        why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        _conditions(errs, why)


def validate_job_status(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = _View(new), _View(old)
    _COUNTS(errs, after.status, "status")
    _check_uncounted(errs, after.status.get("uncountedTerminatedPods"))
    _check_completion(errs, after, before)
    _check_finished(errs, after, before)
    _check_indexes(errs, after, before)
    _check_pods(errs, after, before)
    _check_history(errs, after, before)
