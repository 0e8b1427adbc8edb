"""Whole passes over a job: expectations are those of the upstream job controller's own tables."""

from __future__ import annotations

from typing import Any

import pytest
from job_builders import NOW, STAMP, ago, job, many, pod, run

from corral.cluster.workloads.job import Backoff, Event

SUCCESS = ("CompletionsReached", "Reached expected number of succeeded pods")
LIMIT = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = ("DeadlineExceeded", "Job was active longer than specified deadline")
COMPLETE = [("SuccessCriteriaMet", "True", *SUCCESS), ("Complete", "True", *SUCCESS)]
TARGET = [("FailureTarget", "True", *LIMIT)]
FAILED = [*TARGET, ("Failed", "True", *LIMIT)]
SUSPENDED = [("Suspended", "True", "JobSuspended", "Job suspended")]
RESUMED = [("Suspended", "False", "JobResumed", "Job resumed")]


def running(count: int, ready: int = 0) -> list[Any]:
    return many("ready", ready, ready=True) + many("run", count - ready)


def pending(count: int) -> list[Any]:
    return many("pend", count, "Pending")


def done(count: int) -> list[Any]:
    return many("done", count, "Succeeded")


def failed(count: int) -> list[Any]:
    return many("fail", count, "Failed")


def terminating(count: int) -> list[Any]:
    return many("term", count, deleted=True)


def indexed(*pods: tuple[Any, str]) -> list[Any]:
    return [pod(f"i{n}", phase, index=index) for n, (index, phase) in enumerate(pods)]


# name: (spec and options of the job, pods, options of the run, expectations)
# expectations: c(reated), d(eleted), p(atches to free), a(ctive), s(ucceeded), f(ailed),
# r(eady), t(erminating); the ones left out are 0.
CASES: dict[str, tuple[dict[str, Any], list[Any], dict[str, Any], dict[str, Any]]] = {
    "job start": ({"parallelism": 2, "completions": 5}, [], {}, {"c": 2, "a": 2}),
    "work queue start": ({"parallelism": 2, "completions": None}, [], {}, {"c": 2, "a": 2}),
    "pending pods": ({"parallelism": 2, "completions": 5}, pending(2), {}, {"a": 2}),
    "right number of pods": (
        {"parallelism": 3, "completions": 5},
        running(3, 2),
        {},
        {"a": 3, "r": 2},
    ),
    "work queue, right number": ({"parallelism": 2, "completions": None}, running(2), {}, {"a": 2}),
    "too few active": (
        {"parallelism": 2, "completions": 5},
        running(1) + done(1),
        {},
        {"c": 1, "a": 2, "s": 1, "p": 1},
    ),
    "work queue, replace only failed": (
        {"completions": None, "podReplacementPolicy": "Failed"},
        running(1) + failed(1) + terminating(1),
        {},
        {"t": 1, "p": 1, "f": 1, "a": 1},
    ),
    "no replacement policy": (
        {},
        running(1) + failed(1) + terminating(1),
        {},
        {"t": 1, "a": 1, "p": 2, "f": 2},
    ),
    "replace terminating or failed": (
        {"completions": None, "podReplacementPolicy": "TerminatingOrFailed"},
        running(1) + failed(1) + terminating(1),
        {},
        {"t": 1, "a": 1, "p": 2, "f": 2},
    ),
    "more terminating than parallelism": (
        {"podReplacementPolicy": "Failed"},
        running(2) + terminating(4),
        {},
        {"t": 5, "a": 1, "d": 1, "p": 1},
    ),
    "more terminating than parallelism, with a failure policy": (
        {"podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": []}},
        running(2) + terminating(4),
        {},
        {"t": 5, "a": 1, "d": 1, "p": 1},
    ),
    "back-off holds": ({}, [], {"backoff": Backoff(1, NOW)}, {"requeue": 10.0}),
    "back-off holds beside a running pod": (
        {"parallelism": 2, "completions": 2},
        running(1, 1),
        {"backoff": Backoff(1, NOW)},
        {"a": 1, "r": 1, "requeue": 10.0},
    ),
    "no back-off without failures": ({}, [], {"backoff": Backoff(0, NOW)}, {"c": 1, "a": 1}),
    "too few active in a work queue": (
        {"parallelism": 2, "completions": None},
        running(1),
        {},
        {"c": 1, "a": 2},
    ),
    "too few active, writes refused": (
        {"parallelism": 2, "completions": 5},
        running(1) + done(1),
        {"refuse": True},
        {"a": 1, "p": 1, "retry": True, "uncounted": {"succeeded": ["done0"]}},
    ),
    "too many active": (
        {"parallelism": 2, "completions": 5},
        running(3),
        {},
        {"d": 1, "a": 2, "p": 1, "t": 1},
    ),
    "too many active, writes refused": (
        {"parallelism": 2, "completions": 5},
        running(3),
        {"refuse": True},
        {"p": 1, "a": 3, "retry": True},
    ),
    "ready pods when too many are active": (
        {"parallelism": 2, "completions": 5},
        running(3, 3),
        {},
        {"d": 1, "a": 2, "p": 1, "r": 2, "t": 1},
    ),
    "failed and succeeded reset the delay": (
        {"parallelism": 2, "completions": 5},
        running(1) + done(1) + failed(1),
        {},
        {"c": 1, "a": 2, "s": 1, "f": 1, "p": 2},
    ),
    "a new failed pod": (
        {"parallelism": 2, "completions": 5},
        running(1) + failed(1),
        {},
        {"c": 1, "a": 2, "f": 1, "p": 1},
    ),
    "a failure counted before": (
        {"status": {"active": 1, "failed": 1}},
        running(1),
        {},
        {"a": 1, "f": 1},
    ),
    "a new failed pod, writes refused": (
        {"parallelism": 2, "completions": 5},
        running(1) + failed(1),
        {"refuse": True},
        {"a": 1, "p": 1, "retry": True, "uncounted": {"failed": ["fail0"]}},
    ),
    "job finish": (
        {"parallelism": 2, "completions": 5},
        done(5),
        {},
        {"s": 5, "p": 5, "cond": COMPLETE},
    ),
    "work queue finishing": (
        {"parallelism": 2, "completions": None},
        running(1) + done(1),
        {},
        {"a": 1, "s": 1, "p": 1},
    ),
    "work queue finished": (
        {"parallelism": 2, "completions": None},
        done(2),
        {},
        {"s": 2, "p": 2, "cond": COMPLETE},
    ),
    "work queue finished despite a failure": (
        {"parallelism": 2, "completions": None},
        done(1) + failed(1),
        {},
        {"s": 1, "f": 1, "p": 2, "cond": COMPLETE},
    ),
    "more active than parallelism": (
        {"parallelism": 2, "completions": 5},
        running(10),
        {},
        {"d": 8, "a": 2, "p": 8, "t": 8},
    ),
    "more active than remaining completions": (
        {"parallelism": 3, "completions": 4},
        running(3) + done(2),
        {},
        {"d": 1, "a": 2, "s": 2, "p": 3, "t": 1},
    ),
    "status change": (
        {"parallelism": 2, "completions": 5},
        running(2) + done(2),
        {},
        {"a": 2, "s": 2, "p": 2},
    ),
    "a job being deleted": (
        {"parallelism": 2, "completions": 5, "deleting": True},
        pending(1) + running(1) + done(1),
        {},
        {"a": 2, "s": 1, "p": 3},
    ),
    "a quota of ten pods": (
        {"parallelism": 100, "completions": 200},
        [],
        {"create_limit": 10},
        {"c": 10, "a": 10, "retry": True},
    ),
    "too many failures": (
        {"parallelism": 2, "completions": 5, "backoffLimit": 0, "deleting": True},
        failed(1),
        {},
        {"f": 1, "p": 1, "cond": FAILED},
    ),
    "too many failures, pods not seen yet": (
        {"parallelism": 2, "completions": 5, "backoffLimit": 0, "deleting": True},
        failed(1),
        {"satisfied": False},
        {"f": 1, "p": 1},
    ),
    "indexed start": (
        {"parallelism": 2, "completions": 5, "completionMode": "Indexed"},
        [],
        {},
        {"c": 2, "a": 2, "idx": [0, 1]},
    ),
    "indexed, a deleted pod keeps its place": (
        {
            "parallelism": 2,
            "completions": 5,
            "completionMode": "Indexed",
            "podReplacementPolicy": "Failed",
        },
        terminating(1),
        {},
        {"c": 1, "a": 1, "t": 1, "idx": [0]},
    ),
    "indexed, a deleted pod is replaced": (
        {
            "parallelism": 2,
            "completions": 5,
            "completionMode": "Indexed",
            "podReplacementPolicy": "TerminatingOrFailed",
        },
        terminating(1),
        {},
        {"c": 2, "a": 2, "t": 1, "p": 1, "idx": [0, 1]},
    ),
    "indexed, the index of a terminating pod is not given out": (
        {
            "parallelism": 3,
            "completions": 5,
            "completionMode": "Indexed",
            "podReplacementPolicy": "Failed",
        },
        [pod("t", index=0, deleted=True)],
        {},
        {"c": 2, "a": 2, "t": 1, "idx": [1, 2]},
    ),
    "indexed completed": (
        {"parallelism": 2, "completions": 3, "completionMode": "Indexed"},
        indexed((0, "Succeeded"), (1, "Failed"), (1, "Succeeded"), (2, "Succeeded")),
        {},
        {"s": 3, "f": 1, "p": 4, "done": "0-2", "cond": COMPLETE},
    ),
    "indexed failed": (
        {"parallelism": 2, "completions": 3, "backoffLimit": 0, "completionMode": "Indexed"},
        indexed((0, "Succeeded"), (1, "Failed"), (2, "Running")),
        {},
        {"s": 1, "f": 2, "p": 3, "d": 1, "t": 1, "done": "0", "cond": TARGET},
    ),
    "ready pods when a job fails": (
        {"parallelism": 2, "completions": 3, "backoffLimit": 0},
        running(2, 2) + failed(1),
        {},
        {"f": 3, "p": 3, "d": 2, "t": 2, "cond": TARGET},
    ),
    "indexed, an index twice": (
        {"parallelism": 2, "completions": 3, "completionMode": "Indexed"},
        indexed((0, "Succeeded"), (1, "Succeeded"), (1, "Succeeded")),
        {},
        {"c": 1, "a": 1, "s": 2, "p": 3, "done": "0,1", "idx": [2]},
    ),
    "indexed, some running and some done": (
        {"parallelism": 8, "completions": 20, "completionMode": "Indexed"},
        indexed(
            (0, "Running"),
            (2, "Succeeded"),
            (3, "Pending"),
            (4, "Succeeded"),
            (5, "Succeeded"),
            (7, "Succeeded"),
            (8, "Succeeded"),
            (9, "Succeeded"),
        ),
        {},
        {"c": 6, "a": 8, "s": 6, "p": 6, "done": "2,4,5,7-9", "idx": [1, 6, 10, 11, 12, 13]},
    ),
    "indexed, some failed": (
        {"parallelism": 3, "completions": 4, "completionMode": "Indexed"},
        indexed((0, "Failed"), (1, "Pending"), (2, "Failed")),
        {},
        {"c": 2, "a": 3, "f": 2, "p": 2, "idx": [0, 2]},
    ),
    "indexed, pods without an index": (
        {"parallelism": 2, "completions": 5, "completionMode": "Indexed"},
        running(1)
        + done(1)
        + failed(1)
        + indexed(
            ("invalid", "Running"),
            ("invalid", "Succeeded"),
            ("invalid", "Failed"),
            ("invalid", "Pending"),
            (0, "Succeeded"),
            (1, "Running"),
            (2, "Running"),
        ),
        {},
        {"d": 3, "a": 2, "s": 1, "p": 8, "t": 3, "done": "0"},
    ),
    "indexed, repeated indexes": (
        {"parallelism": 5, "completions": 5, "completionMode": "Indexed"},
        done(1)
        + failed(1)
        + indexed(
            ("invalid", "Running"), (0, "Succeeded"), (1, "Running"), (2, "Running"), (2, "Pending")
        ),
        {},
        {"d": 2, "a": 2, "s": 1, "p": 5, "t": 2, "done": "0"},
    ),
    "indexed, indexes out of range": (
        {"parallelism": 2, "completions": 5, "completionMode": "Indexed"},
        indexed((0, "Succeeded"), (5, "Running"), (6, "Succeeded"), (7, "Pending"), (8, "Failed")),
        {},
        {"s": 1, "d": 2, "p": 5, "t": 2, "done": "0"},
    ),
    "suspending": (
        {"suspend": True, "parallelism": 2, "completions": 4},
        running(2),
        {},
        {"d": 2, "p": 2, "t": 2, "cond": SUSPENDED},
    ),
    "suspending ready pods": (
        {"suspend": True, "parallelism": 2, "completions": 4},
        running(2, 2),
        {},
        {"d": 2, "p": 2, "t": 2, "cond": SUSPENDED},
    ),
    "suspending, pods not seen yet": (
        {"suspend": True, "parallelism": 2, "completions": 4},
        running(3, 3),
        {"satisfied": False},
        {"a": 3, "r": 3},
    ),
    "resuming": (
        {
            "suspend": False,
            "parallelism": 2,
            "completions": 4,
            "status": {
                "conditions": [
                    {
                        "type": "Suspended",
                        "status": "True",
                        "reason": "JobSuspended",
                        "message": "Job suspended",
                    }
                ]
            },
        },
        [],
        {},
        {"c": 2, "a": 2, "cond": RESUMED},
    ),
    "suspending a job being deleted": (
        {"suspend": True, "deleting": True, "parallelism": 2, "completions": 4},
        running(2),
        {},
        {"a": 2, "p": 2},
    ),
    "a false FailureTarget is ignored": (
        {
            "status": {
                "active": 1,
                "conditions": [
                    {"type": "FailureTarget", "status": "False", "reason": "R", "message": "M"}
                ],
            }
        },
        running(1, 1),
        {},
        {"a": 1, "r": 1, "cond": [("FailureTarget", "False", "R", "M")]},
    ),
    "a false SuccessCriteriaMet is ignored": (
        {
            "status": {
                "active": 1,
                "conditions": [
                    {"type": "SuccessCriteriaMet", "status": "False", "reason": "R", "message": "M"}
                ],
            }
        },
        running(1, 1),
        {},
        {"a": 1, "r": 1, "cond": [("SuccessCriteriaMet", "False", "R", "M")]},
    ),
    # activeDeadlineSeconds
    "past the deadline with a running pod": (
        {"activeDeadlineSeconds": 10, "status": {"startTime": ago(15)}},
        running(1),
        {},
        {"d": 1, "f": 1, "p": 1, "t": 1, "cond": [("FailureTarget", "True", *DEADLINE)]},
    ),
    "past the deadline with one pod done": (
        {"completions": 2, "activeDeadlineSeconds": 10, "status": {"startTime": ago(10)}},
        running(1) + done(1),
        {},
        {"d": 1, "f": 1, "s": 1, "p": 2, "t": 1, "cond": [("FailureTarget", "True", *DEADLINE)]},
    ),
    "past the deadline before any pod": (
        {"activeDeadlineSeconds": 10, "status": {"startTime": ago(10)}},
        [],
        {},
        {"cond": [("FailureTarget", "True", *DEADLINE), ("Failed", "True", *DEADLINE)]},
    ),
    "past the deadline and the back-off limit": (
        {"activeDeadlineSeconds": 1, "backoffLimit": 0, "status": {"startTime": ago(10)}},
        failed(1),
        {},
        {"f": 1, "p": 1, "cond": FAILED},
    ),
    "no deadline while suspended": (
        {
            "suspend": True,
            "parallelism": 1,
            "completions": 2,
            "activeDeadlineSeconds": 10,
            "status": {"startTime": ago(15)},
        },
        [],
        {},
        {"cond": SUSPENDED},
    ),
    "before the deadline": (
        {"activeDeadlineSeconds": 10, "status": {"startTime": ago(4)}},
        running(1),
        {},
        {"a": 1, "requeue": 6.0},
    ),
    # restartPolicy OnFailure
    **{
        f"OnFailure, limit {limit}, restarts {restarts}, {phase}": (
            {"restartPolicy": "OnFailure", "backoffLimit": limit, "parallelism": 1},
            [
                pod(
                    "p",
                    phase,
                    status={"containerStatuses": [{"name": "main", "restartCount": restarts}]},
                )
            ],
            {},
            {"d": 1, "f": 1, "p": 1, "t": 1, "cond": TARGET} if over else {"a": 1},
        )
        for limit, restarts, phase, over in [
            (0, 0, "Running", False),
            (1, 0, "Running", False),
            (1, 1, "Running", True),
            (1, 1, "Pending", True),
            (0, 1, "Running", True),
            (6, 5, "Running", False),
            (6, 6, "Running", True),
        ]
    },
    "OnFailure, restarts of two pods add up": (
        {"restartPolicy": "OnFailure", "backoffLimit": 2, "parallelism": 2, "completions": 5},
        [
            pod(f"p{i}", status={"initContainerStatuses": [{"name": "i", "restartCount": 1}]})
            for i in range(2)
        ],
        {},
        {"d": 2, "f": 2, "p": 2, "t": 2, "cond": TARGET},
    ),
    "Never, restarts do not count": (
        {"restartPolicy": "Never", "backoffLimit": 1},
        [pod("p", status={"containerStatuses": [{"name": "main", "restartCount": 9}]})],
        {},
        {"a": 1},
    ),
    "Never, failures below the limit": (
        {"backoffLimit": 6, "parallelism": 2, "completions": 2},
        running(1) + failed(6),
        {},
        {"a": 2, "c": 1, "f": 6, "p": 6},
    ),
    "Never, failures above the limit": (
        {"backoffLimit": 6, "parallelism": 2, "completions": 2},
        failed(7),
        {},
        {"f": 7, "p": 7, "cond": FAILED},
    ),
    # ends decided before
    "failure target, last pod gone": (
        {
            "status": {
                "failed": 1,
                "conditions": [
                    {
                        "type": "FailureTarget",
                        "status": "True",
                        "reason": LIMIT[0],
                        "message": LIMIT[1],
                    }
                ],
            }
        },
        [],
        {},
        {"f": 1, "cond": FAILED},
    ),
    "failure target, last pod going": (
        {
            "status": {
                "failed": 1,
                "conditions": [
                    {
                        "type": "FailureTarget",
                        "status": "True",
                        "reason": LIMIT[0],
                        "message": LIMIT[1],
                    }
                ],
            }
        },
        many("t", 1, deleted=True, tracked=False),
        {},
        {"f": 1, "t": 1, "cond": TARGET},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_pass(name: str) -> None:
    spec, pods, options, expected = CASES[name]
    ran = run(job(**spec), pods, **options)
    status = ran.status
    seen = {
        "c": len(ran.created), "d": len(ran.deleted), "p": len(ran.freed),
        "a": status.get("active", 0), "s": status.get("succeeded", 0),
        "f": status.get("failed", 0), "r": status["ready"], "t": status["terminating"],
        "done": status.get("completedIndexes", ""), "idx": ran.indexes if "idx" in expected else 0,
        "cond": ran.conditions, "requeue": ran.verdict.requeue_after,
        "retry": ran.verdict.retry, "uncounted": status["uncountedTerminatedPods"],
    }  # fmt: skip
    default = {**dict.fromkeys(("c", "d", "p", "a", "s", "f", "r", "t", "idx"), 0), "done": "",
               "cond": [], "requeue": None, "retry": False, "uncounted": {}}  # fmt: skip
    assert seen == {**default, **expected}


def test_first_pass_starts_the_clock_and_writes_the_wire_form() -> None:
    ran = run(job(), [])
    assert ran.statuses == [
        {"active": 1, "ready": 0, "terminating": 0, "startTime": STAMP,
         "uncountedTerminatedPods": {}}
    ]  # fmt: skip


def test_nothing_is_written_when_nothing_changed() -> None:
    status = {"active": 1, "ready": 0, "terminating": 0, "startTime": ago(5)}
    ran = run(job(status), running(1))
    assert ran.steps == [] and not ran.verdict.retry


def test_completion_is_announced_before_the_pods_are_freed() -> None:
    ran = run(job(), done(1))
    assert [type(step).__name__ for step in ran.steps] == [
        "WriteStatus", "RemoveFinalizers", "WriteStatus",
    ]  # fmt: skip
    first, last = ran.statuses
    assert [c["type"] for c in first["conditions"]] == ["SuccessCriteriaMet"]
    assert first["uncountedTerminatedPods"] == {"succeeded": ["done0"]}
    assert "succeeded" not in first and "completionTime" not in first
    assert last["completionTime"] == STAMP and last["succeeded"] == 1
    assert last["conditions"][1] == {
        "type": "Complete", "status": "True", "lastProbeTime": STAMP, "lastTransitionTime": STAMP,
        "reason": SUCCESS[0], "message": SUCCESS[1],
    }  # fmt: skip
    assert ran.events == [Event("Normal", "Completed", "Job completed")]
    assert ran.verdict.finished


def test_failure_keeps_finalizers_until_the_target_is_written() -> None:
    ran = run(job(backoffLimit=0, parallelism=2), running(1) + failed(1))
    names = [type(step).__name__ for step in ran.steps]
    assert names == ["DeletePods", "WriteStatus", "RemoveFinalizers", "WriteStatus"]
    assert ran.steps[0].free_first is False
    assert not ran.events and not ran.verdict.finished
    later = run(job(ran.status, backoffLimit=0, parallelism=2), [])
    assert later.events == [Event("Warning", *LIMIT)]
    assert later.verdict.finished and "completionTime" not in later.status


def test_too_many_succeeded_pods_is_an_event() -> None:
    ran = run(job(completions=1), done(2))
    assert [e.reason for e in ran.events] == ["TooManySucceededPods", "Completed"]


def test_suspension_and_resumption_events_and_start_time() -> None:
    ran = run(job({"startTime": ago(50)}, suspend=True), running(1))
    assert ran.events == [Event("Normal", "Suspended", "Job suspended")]
    assert "startTime" not in ran.status
    again = run(job(ran.status, suspend=True), [])
    assert again.events == [] and again.conditions == SUSPENDED
    resumed = run(job(again.status), [])
    assert resumed.events == [Event("Normal", "Resumed", "Job resumed")]
    assert resumed.status["startTime"] == STAMP and len(resumed.created) == 1


@pytest.mark.parametrize(
    ("manager", "acts"),
    [("kubernetes.io/job-controller", True), (None, True), ("example.com/other", False)],
)
def test_managed_by(manager: str | None, acts: bool) -> None:
    ran = run(job(managedBy=manager), [])
    assert bool(ran.steps) is acts


@pytest.mark.parametrize("kind", ["Complete", "Failed"])
def test_finished_jobs_are_left_alone(kind: str) -> None:
    ran = run(job({"conditions": [{"type": kind, "status": "True"}]}), running(1))
    assert ran.steps == [] and ran.verdict.finished


def test_unknown_completion_mode_is_only_reported() -> None:
    ran = run(job(completionMode="Odd"), [])
    message = "Skipped Job sync because completion mode is unknown"
    assert ran.events == [Event("Warning", "UnknownCompletionMode", message)]
    assert ran.statuses == []


def test_one_pass_makes_at_most_500_pods() -> None:
    ran = run(job(parallelism=700, completions=700), [])
    assert len(ran.created) == 500 and ran.status["active"] == 500


def test_a_pass_can_be_replayed() -> None:
    the_job, pods = job(parallelism=3, completions=9), running(1) + done(2) + failed(1)
    assert run(the_job, pods).steps == run(the_job, pods).steps
    assert the_job == job(parallelism=3, completions=9)
