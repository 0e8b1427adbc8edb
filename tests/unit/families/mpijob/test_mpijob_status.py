"""Conditions by Kubeflow's rules, counts, and the events that changes stand for."""

from __future__ import annotations

from corral.families.mpijob.lifecycle.events import transitions
from corral.families.mpijob.lifecycle.status import (
    Draft,
    is_invalid,
    is_over,
    only_counts_differ,
    shortened,
)
from tests.unit.families.mpijob.mpijob_world import START, Obj, conditions, make_job, stamp


def draft(status: Obj | None = None, *, after: float = 0.0) -> Draft:
    return Draft(make_job(status=status or {}), START + after)


class TestConditions:
    def test_the_last_to_change_is_the_last(self) -> None:
        found = draft()
        found.created()
        found.suspended()
        found.resumed()
        assert [c[0] for c in conditions(found.status)] == ["Created", "Running", "Suspended"]

    def test_a_message_alone_changes_nothing(self) -> None:
        found = draft()
        found.condition("Running", holds=True, reason="A", message="one")
        later = draft(found.status, after=9)
        later.condition("Running", holds=True, reason="A", message="two")
        assert later.status == found.status

    def test_another_reason_keeps_the_time_of_the_transition(self) -> None:
        found = draft()
        found.condition("Failed", holds=True, reason="A", message="one")
        later = draft(found.status, after=9)
        later.condition("Failed", holds=True, reason="B", message="two")
        (only,) = later.status["conditions"]
        assert only == {
            "type": "Failed",
            "status": "True",
            "reason": "B",
            "message": "two",
            "lastUpdateTime": stamp(9),
            "lastTransitionTime": stamp(),
        }

    def test_success_ends_running_and_an_older_failure(self) -> None:
        found = draft()
        found.running()
        found.condition("Failed", holds=True, reason="A", message="one")
        later = draft(found.status, after=9)
        later.succeeded()
        known = {c["type"]: c for c in later.status["conditions"]}
        assert known["Running"] == {**found.status["conditions"][0], "status": "False"}
        assert known["Failed"]["status"] == "False"
        assert known["Failed"]["lastTransitionTime"] == stamp()
        assert known["Succeeded"]["lastTransitionTime"] == stamp(9)

    def test_running_and_restarting_exclude_each_other(self) -> None:
        found = draft()
        found.condition("Restarting", holds=True, reason="A", message="")
        found.running()
        assert [c[0] for c in conditions(found.status)] == ["Running"]

    def test_one_that_never_ran(self) -> None:
        found = draft(after=9)
        found.succeeded(stamp(5))
        never = found.status["conditions"][-1]
        assert (never["type"], never["status"], never["lastUpdateTime"]) == (
            "Running",
            "False",
            stamp(5),
        )


class TestInvalid:
    def test_told_and_taken_back(self) -> None:
        found = draft()
        found.invalid("wrong")
        assert is_invalid(found.status) and not is_over(found.status)
        later = draft(found.status, after=5)
        later.invalid("more wrong")
        assert later.status["conditions"][0]["message"] == "more wrong"
        last = draft(later.status, after=9)
        last.created()
        assert conditions(last.status) == [
            ("Created", "True", "MPIJobCreated"),
            ("Failed", "False", "MPIJobValid"),
        ]

    def test_a_job_that_has_begun_goes_on(self) -> None:
        found = draft({"startTime": stamp()})
        found.invalid("wrong")
        assert "conditions" not in found.status


def test_zero_is_left_out() -> None:
    found = draft()
    found.count_workers(active=0, failed=2, succeeded=0)
    found.count_launcher(active=0)
    assert found.status["replicaStatuses"] == {"Worker": {"failed": 2}, "Launcher": {}}


def test_what_is_progress_only() -> None:
    old = {"replicaStatuses": {"Worker": {"active": 1}, "Launcher": {}}}
    more = {"replicaStatuses": {"Worker": {"active": 2}, "Launcher": {"active": 1}}}
    assert only_counts_differ(old, more)
    dead = {"replicaStatuses": {"Worker": {"active": 1, "failed": 1}, "Launcher": {}}}
    assert not only_counts_differ(old, dead)
    assert not only_counts_differ(old, {**old, "startTime": stamp()})


def test_messages_fit_into_events() -> None:
    assert shortened("short") == "short"
    cut = shortened("ö" * 1000)
    assert len(cut.encode()) <= 1024
    assert cut.endswith("...")


class TestEvents:
    def test_in_order_and_once(self) -> None:
        first = draft()
        first.created()
        first.running()
        said = transitions({}, first.status)
        assert [(e.type, e.reason, e.message) for e in said] == [
            ("Normal", "MPIJobCreated", "MPIJob bar/foo is created."),
            ("Normal", "MPIJobRunning", "MPIJob bar/foo is running"),
        ]
        assert transitions(first.status, first.status) == []

    def test_suspended_and_resumed(self) -> None:
        paused = draft()
        paused.suspended()
        assert [e.reason for e in transitions({}, paused.status)] == ["MPIJobSuspended"]
        resumed = draft(paused.status)
        resumed.resumed()
        said = transitions(paused.status, resumed.status)
        assert [(e.reason, e.message) for e in said] == [("MPIJobResumed", "MPIJob resumed")]

    def test_failures_and_restarts(self) -> None:
        failure = {"replica": "Worker", "pod": "foo-worker-1", "reason": "OOMKilled"}
        failure |= {"exitCode": 137, "node": "n1"}
        (said,) = transitions({}, {"failure": failure})
        assert (said.type, said.reason) == ("Warning", "MPIJobRestarting")
        text = "pod foo-worker-1 failed (OOMKilled, exit code 137) on node n1: it is replaced"
        assert said.message == text
        assert not transitions({"failure": failure}, {"failure": {**failure, "logTail": "x"}})
        ended = draft({"failure": failure})
        ended.failed("MPIJobFailed", "gone")
        said_last = transitions({}, ended.status)
        assert [(e.type, e.reason) for e in said_last] == [("Warning", "MPIJobFailed")]

    def test_another_mistake_is_told_as_well(self) -> None:
        first, second = draft(), draft()
        first.invalid("one")
        second.invalid("two")
        assert [e.message for e in transitions(first.status, second.status)] == ["two"]
