"""Runs that are due, and whole passes over a cron job."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from corral.cluster.workloads.cronjob import (
    Answer,
    CreateJob,
    DeleteJob,
    Emit,
    LookUpJob,
    ScheduleError,
    WriteStatus,
    due_run,
    job_body,
    parse,
    seconds_to_next,
    sync_cron_job,
)
from corral.kube.types import Obj

TOP = datetime.fromisoformat("2016-05-19T10:00:00Z")
AFTER = TOP + timedelta(seconds=61)
OPTIONS: Obj = {"schedule": "0 * * * ?", "concurrencyPolicy": "Allow"}


def text(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def cron_job(
    *,
    last: datetime | None = None,
    created: datetime | None = None,
    status: Any = None,
    **spec: Any,
) -> Obj:
    full: Obj = {**OPTIONS, "jobTemplate": {
        "metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}},
        "spec": {"template": {}}}, **spec}  # fmt: skip
    meta = {"name": "mine", "namespace": "ns", "uid": "cron",
            "creationTimestamp": text(created or TOP - timedelta(hours=2))}  # fmt: skip
    state = dict(status or {})
    if last is not None:
        state["lastScheduleTime"] = text(last)
    return {"metadata": meta, "spec": full, "status": state}


def job(name: str, finished: str | None = None, *, owner: str = "cron", **status: Any) -> Obj:
    conditions = [{"type": finished, "status": "True"}] if finished else []
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "7",
                     "ownerReferences": [{"uid": owner, "controller": True}]},
        "status": {"conditions": conditions, **status},
    }  # fmt: skip


def ref(name: str) -> Obj:
    return {"apiVersion": "batch/v1", "kind": "Job", "name": name, "namespace": "ns",
            "resourceVersion": "7", "uid": f"uid-{name}"}  # fmt: skip


class Ran:
    def __init__(self, subject: Obj, jobs: list[Obj], now: datetime, **answers: Any) -> None:
        self.created: list[Obj] = []
        self.deleted: list[str] = []
        self.looked: list[str] = []
        self.status: Obj | None = None
        self.reasons: list[str] = []
        passing = sync_cron_job(subject, jobs, now=now)
        answer: Answer | None = None
        while True:
            try:
                step = passing.send(answer) if answer else next(passing)
            except StopIteration as stop:
                self.verdict = stop.value
                break
            answer = self.answer(step, answers)

    def answer(self, step: Any, answers: Any) -> Answer:
        match step:
            case LookUpJob(_, name):
                self.looked.append(name)
                return Answer(found=answers.get("live"), error=answers.get("look_error"))
            case CreateJob(body):
                if "create" in answers:
                    return answers["create"]  # type: ignore[no-any-return]
                self.created.append(body)
                return Answer(found=job(body["metadata"]["name"]))
            case DeleteJob(_, name):
                if "delete_error" in answers:
                    return Answer(error=answers["delete_error"])
                self.deleted.append(name)
                return Answer(existed=not answers.get("gone"))
            case Emit(events):
                self.reasons += [event.reason for event in events]
            case WriteStatus(status):
                self.status = status
                return Answer(error=answers.get("status_error"))
        return Answer()


HOURLY = parse("0 * * * ?")


@pytest.mark.parametrize(
    ("last", "now", "deadline", "run", "missed"),
    [
        (None, TOP - timedelta(hours=1, minutes=59), None, None, 0),
        (None, TOP - timedelta(minutes=59, seconds=1), None, TOP - timedelta(hours=1), 0),
        (TOP - timedelta(hours=1), TOP - timedelta(seconds=1), None, None, 0),
        (TOP - timedelta(hours=1), AFTER, None, TOP, 0),
        (TOP - timedelta(hours=3), AFTER, None, TOP, 3),
        (TOP - timedelta(hours=150), AFTER, None, TOP, 150),
        (TOP - timedelta(hours=150), AFTER, 3600, TOP, 0),
        (TOP - timedelta(hours=150), AFTER, 30, None, 0),
        # the last run was started by a clock that was wrong by two years
        (TOP + timedelta(days=730), AFTER, None, TOP, 0),
        (TOP + timedelta(days=730), TOP - timedelta(seconds=1), None, None, 0),
    ],
)
def test_due(last: Any, now: datetime, deadline: Any, run: Any, missed: int) -> None:
    spec = {"startingDeadlineSeconds": deadline} if deadline else {}
    due = due_run(cron_job(last=last, **spec), now, HOURLY)
    assert (due.run, due.missed) == (run, missed)
    assert due.too_many is (missed > 100)


def test_due_with_uneven_gaps() -> None:
    schedule = parse("30 6-16/4 * * 1-5")
    subject = cron_job(last=datetime.fromisoformat("2022-09-16T14:30:00Z"))
    due = due_run(subject, datetime.fromisoformat("2022-09-21T08:50:25Z"), schedule)
    assert due.run == datetime.fromisoformat("2022-09-21T06:30:00Z")


def test_due_with_an_interval() -> None:
    subject = cron_job(last=TOP - timedelta(hours=5))
    due = due_run(subject, TOP, parse("@every 1h30m"))
    assert due.run == TOP - timedelta(minutes=30)


def test_a_schedule_that_never_comes() -> None:
    with pytest.raises(ScheduleError, match="less than 1 second"):
        due_run(cron_job(), TOP, parse("59 23 31 2 *"))
    assert seconds_to_next(cron_job(), TOP, parse("59 23 31 2 *")) is None


def test_the_wait_after_a_wrong_clock() -> None:
    subject = cron_job(last=TOP + timedelta(days=730))
    assert seconds_to_next(subject, TOP - timedelta(seconds=200), HOURLY) == pytest.approx(200.1)


def test_the_wait_is_padded() -> None:
    assert seconds_to_next(cron_job(last=TOP), AFTER, HOURLY) == pytest.approx(3539.1)
    assert seconds_to_next(cron_job(last=TOP - timedelta(hours=9)), AFTER, HOURLY) == pytest.approx(
        3539.1
    )


HOUR = timedelta(hours=1)
NAME = f"mine-{int(TOP.timestamp()) // 60}"
ACTIVE = {"active": [ref("old")]}

# name: (cron job, jobs, now, answers, expected: created, deleted, active names, reasons)
CASES: dict[str, tuple[Any, ...]] = {
    "never ran, not due": (
        cron_job(created=TOP), [], TOP + timedelta(minutes=5), {}, 0, [], None, []),
    "never ran, due": (cron_job(), [], AFTER, {}, 1, [], [NAME], ["SuccessfulCreate"]),
    "ran before, not due": (
        cron_job(last=TOP), [], TOP + timedelta(minutes=5), {}, 0, [], None, []),
    "ran before, due": (
        cron_job(last=TOP - HOUR), [], AFTER, {}, 1, [], [NAME], ["SuccessfulCreate"]),
    "suspended": (cron_job(suspend=True), [], AFTER, {}, 0, [], None, []),
    "being deleted": (
        {**cron_job(), "metadata": {**cron_job()["metadata"], "deletionTimestamp": text(TOP)}},
        [], AFTER, {}, 0, [], None, []),
    "past the deadline": (
        cron_job(last=TOP - HOUR, startingDeadlineSeconds=30), [], AFTER, {}, 0, [], None, []),
    "within the deadline": (
        cron_job(last=TOP - HOUR, startingDeadlineSeconds=120), [], AFTER, {},
        1, [], [NAME], ["SuccessfulCreate"]),
    "still running, Allow": (
        cron_job(last=TOP - HOUR, status=ACTIVE), [job("old")], AFTER, {},
        1, [], ["old", NAME], ["SuccessfulCreate"]),
    "still running, Forbid": (
        cron_job(last=TOP - HOUR, status=ACTIVE, concurrencyPolicy="Forbid"), [job("old")], AFTER,
        {}, 0, [], None, ["JobAlreadyActive"]),
    "still running, Replace": (
        cron_job(last=TOP - HOUR, status=ACTIVE, concurrencyPolicy="Replace"), [job("old")], AFTER,
        {}, 1, ["old"], [NAME], ["SuccessfulDelete", "SuccessfulCreate"]),
    "Replace, deletion refused": (
        cron_job(last=TOP - HOUR, status=ACTIVE, concurrencyPolicy="Replace"), [job("old")], AFTER,
        {"delete_error": "no"}, 0, [], None, ["FailedDelete"]),
    "Forbid, the old one is done": (
        cron_job(last=TOP - HOUR, status=ACTIVE, concurrencyPolicy="Forbid"),
        [job("old", "Complete", completionTime=text(TOP))], AFTER, {},
        1, [], [NAME], ["SawCompletedJob", "SuccessfulCreate"]),
    "active job went missing": (
        cron_job(last=TOP, status=ACTIVE), [], AFTER, {}, 0, [], [], ["MissingJob"]),
    "active job only missing in the cache": (
        cron_job(last=TOP, status=ACTIVE), [], AFTER, {"live": job("old")}, 0, [], None, []),
    "active job cannot be looked up": (
        cron_job(last=TOP - HOUR, status=ACTIVE), [], AFTER, {"look_error": "x"}, 0, [], None, []),
    "a job nobody knows": (
        cron_job(last=TOP), [job("stray")], AFTER, {}, 0, [], None, ["UnexpectedJob"]),
    "somebody else's job": (cron_job(last=TOP), [job("x", owner="y")], AFTER, {}, 0, [], None, []),
    "created in a pass that was cut short": (
        cron_job(last=TOP - HOUR), [], AFTER,
        {"create": Answer(found=job(NAME), existed=True)}, 0, [], [NAME], []),
    "name taken by somebody else": (
        cron_job(last=TOP - HOUR), [], AFTER,
        {"create": Answer(found=job(NAME, owner="y"), existed=True)}, 0, [], None, []),
    "creation refused": (
        cron_job(last=TOP - HOUR), [], AFTER, {"create": Answer(error="quota")},
        0, [], None, ["FailedCreate"]),
    "already active under this name": (
        cron_job(last=TOP - HOUR, status={"active": [ref(NAME)]}), [job(NAME)], AFTER, {},
        0, [], None, []),
    "unknown time zone": (
        cron_job(timeZone="bad/zone"), [], AFTER, {}, 0, [], None, ["UnknownTimeZone"]),
    "unreadable schedule": (
        cron_job(schedule="obvious error"), [], AFTER, {}, 0, [], None, ["UnparseableSchedule"]),
    "schedule that never comes": (
        cron_job(schedule="59 23 31 2 *"), [], AFTER, {}, 0, [], None, ["InvalidSchedule"]),
    "zone in the schedule": (
        cron_job(schedule="TZ=UTC 0 * * * *"), [], AFTER, {},
        1, [], [NAME], ["UnsupportedSchedule", "SuccessfulCreate"]),
    "too many missed": (
        cron_job(last=TOP - 150 * HOUR), [], AFTER, {},
        1, [], [NAME], ["TooManyMissedTimes", "SuccessfulCreate"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_pass(name: str) -> None:
    subject, jobs, now, answers, created, deleted, active, reasons = CASES[name]
    ran = Ran(subject, jobs, now, **answers)
    assert len(ran.created) == created
    assert ran.deleted == deleted
    assert ran.reasons == reasons
    found = None if ran.status is None else [r["name"] for r in ran.status.get("active", ())]
    assert found == active


@pytest.mark.parametrize(
    "name", ["active job cannot be looked up", "creation refused", "Replace, deletion refused"]
)
def test_failures_are_retried(name: str) -> None:
    subject, jobs, now, answers = CASES[name][:4]
    assert Ran(subject, jobs, now, **answers).verdict.retry


def test_status_of_a_started_run() -> None:
    ran = Ran(cron_job(last=TOP - HOUR), [], AFTER)
    assert ran.status == {"active": [ref(NAME)], "lastScheduleTime": text(TOP)}
    assert ran.verdict.requeue_after == pytest.approx(3539.1)
    assert Ran(cron_job(), [], AFTER, status_error="conflict").verdict.retry


def test_last_success_only_moves_forward() -> None:
    done = [job("a", "Complete", completionTime=text(TOP - HOUR)),
            job("b", "Complete", completionTime=text(TOP)), job("c", "Failed")]  # fmt: skip
    ran = Ran(cron_job(last=TOP), done, AFTER)
    assert ran.status == {"lastSuccessfulTime": text(TOP), "lastScheduleTime": text(TOP)}
    later = {"lastSuccessfulTime": text(AFTER)}
    assert Ran(cron_job(last=TOP, status=later), done, AFTER).status is None


def test_history_limits() -> None:
    def ended(name: str, kind: str, hours: int | None) -> Obj:
        start = {} if hours is None else {"startTime": text(TOP - hours * HOUR)}
        return job(name, kind, **start)

    jobs = [ended("s1", "Complete", 1), ended("s3", "Complete", 3), ended("s2", "Complete", 2),
            ended("s0", "Complete", None), ended("f2", "Failed", 2), ended("f1", "Failed", 1),
            job("running")]  # fmt: skip
    subject = cron_job(last=TOP, successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1)
    assert Ran(subject, jobs, AFTER).deleted == ["s3", "s2", "f2"]
    assert Ran(cron_job(last=TOP), jobs, AFTER).deleted == []
    assert "SuccessfulDelete" not in Ran(subject, jobs, AFTER, gone=True).reasons
    going = {**jobs[1], "metadata": {**jobs[1]["metadata"], "deletionTimestamp": text(TOP)}}
    assert Ran(subject, [*jobs[:1], going, *jobs[2:]], AFTER).deleted == ["s2", "f2"]


def test_history_is_kept_short_before_anything_else() -> None:
    done = job("old", "Complete", completionTime=text(TOP))
    subject = cron_job(last=TOP, status=ACTIVE, successfulJobsHistoryLimit=0)
    assert Ran(subject, [done], AFTER).reasons == ["SuccessfulDelete"]


def test_body() -> None:
    body = job_body(cron_job(timeZone="America/New_York"), TOP)
    assert body == {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": NAME, "namespace": "ns", "labels": {"a": "b"},
            "annotations": {
                "x": "y",
                "batch.kubernetes.io/cronjob-scheduled-timestamp": "2016-05-19T06:00:00-04:00"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "mine",
                                 "uid": "cron", "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"template": {}},
    }  # fmt: skip
    stamp = job_body(cron_job(), TOP)["metadata"]["annotations"]
    assert stamp["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2016-05-19T10:00:00Z"
