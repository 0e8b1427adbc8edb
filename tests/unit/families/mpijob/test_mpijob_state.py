"""What is decided about MPIJobs."""

from __future__ import annotations

from typing import Any

import pytest

from corral.families.mpijob.lifecycle.decision import Decision, Launcher
from corral.runtime.sightings import Sightings
from tests.unit.families.mpijob.mpijob_world import (
    again,
    conditions,
    ended,
    launcher,
    look,
    make_job,
    over,
    pod,
    stamp,
    worker,
)

Obj = dict[str, Any]
WAITS = {"spec|launcherCreationPolicy": "WaitForWorkersReady"}
SUSPENDED = {"run|suspend": True}
AHEAD = "2090-01-01T00:00:00Z"
"""What a wrong clock wrote."""


def going(found: Obj) -> Obj:
    found["metadata"]["deletionTimestamp"] = stamp()
    return found


def follow(seen: Obj, decision: Decision) -> Obj:
    """The job, once the status was written."""
    return {**seen, "status": decision.status}


class TestBeginning:
    def test_everything_is_made(self) -> None:
        found = look()
        assert found.objects and found.pod_group is True
        assert found.create == (0, 1)
        assert found.launcher is Launcher.CREATE
        assert conditions(found.status) == [("Created", "True", "MPIJobCreated")]
        assert found.status["startTime"] == stamp()
        assert found.status["replicaStatuses"] == {"Worker": {}}

    def test_suspended(self) -> None:
        found = look(make_job(SUSPENDED))
        assert found.objects and found.pod_group is False
        assert not found.create
        assert found.launcher is Launcher.CREATE
        assert "startTime" not in found.status
        assert conditions(found.status) == [
            ("Created", "True", "MPIJobCreated"),
            ("Suspended", "True", "MPIJobSuspended"),
            ("Running", "False", "MPIJobSuspended"),
        ]

    @pytest.mark.parametrize(
        ("workers", "begins"),
        [
            ((), False),
            ((worker(0), worker(1, ready=False)), False),
            ((worker(0), worker(1, "Pending")), False),
            ((worker(0), going(worker(1))), False),
            ((worker(0), worker(1)), True),
        ],
    )
    def test_a_launcher_that_waits(self, workers: tuple[Obj, ...], begins: bool) -> None:
        found = look(make_job(WAITS), workers=workers)
        assert found.launcher is (Launcher.CREATE if begins else Launcher.LEAVE)
        held = launcher(suspend=True)
        found = look(make_job(WAITS), workers=workers, job_launcher=held)
        assert found.launcher is (Launcher.RESUME if begins else Launcher.LEAVE)

    def test_one_without_workers_does_not_wait(self) -> None:
        assert look(make_job({**WAITS, "W": None})).launcher is Launcher.CREATE

    def test_a_steady_job(self) -> None:
        seen = make_job()
        where: Any = {
            "job_launcher": launcher(),
            "pods": (pod("foo-launcher-x"),),
            "workers": (worker(0), worker(1)),
        }
        first = look(seen, **where)
        assert conditions(first.status)[-1] == ("Running", "True", "MPIJobRunning")
        second = look(follow(seen, first), after=100, **where)
        assert second.status == first.status
        assert not second.acts and second.requeue_after == 0
        assert second.running == ("foo-worker-0", "foo-worker-1")


class TestWorkers:
    def test_missing_ones_are_made_and_others_taken_away(self) -> None:
        found = look(workers=(worker(1), worker(2), going(worker(3)), pod("foo-worker-x")))
        assert found.create == (0,)
        names = [p["metadata"]["name"] for p in found.delete]
        assert names == ["foo-worker-2", "foo-worker-x"]
        assert found.running == ("foo-worker-1",)

    def test_one_that_goes_is_waited_for(self) -> None:
        found = look(workers=(worker(0), going(worker(1))))
        assert not found.create
        assert found.running == ("foo-worker-0",)

    def test_the_dead_are_replaced_after_a_while(self) -> None:
        dead = worker(1, "Failed", containerStatuses=[ended(3)])
        where: Any = {"job_launcher": launcher(), "workers": (worker(0), dead)}
        early = look(after=0.4, **where)
        assert not early.replace
        assert early.requeue_after == pytest.approx(0.6)
        late = look(after=1, **where)
        assert late.replace == (dead,)
        assert late.status_first
        assert late.status["failure"]["pod"] == "foo-worker-1"
        once_more = look(after=1, replaced={1: 3}, **where)
        assert not once_more.replace
        assert once_more.requeue_after == pytest.approx(7)

    def test_a_dead_worker_of_a_wrong_clock_is_replaced_after_a_while(self) -> None:
        """It died while the clock was two years ahead."""
        finished = {**ended(3), "state": {"terminated": {"exitCode": 3, "finishedAt": AHEAD}}}
        dead = worker(1, "Failed", containerStatuses=[finished])
        where: Any = {"job_launcher": launcher(), "workers": (worker(0), dead)}
        where["sightings"] = Sightings()
        early = look(**where)
        assert not early.replace
        assert early.requeue_after == 1
        assert look(after=1, **where).replace == (dead,)

    def test_a_time_to_live_of_a_wrong_clock(self) -> None:
        seen = make_job({"run|ttlSecondsAfterFinished": 5})
        over = {"type": "Succeeded", "status": "True", "reason": "MPIJobSucceeded"}
        seen["status"] = {"conditions": [over], "completionTime": AHEAD}
        known = Sightings()
        assert look(seen, sightings=known).requeue_after == 5
        assert look(seen, sightings=known, after=5).expired

    def test_one_that_its_node_refused(self) -> None:
        dead = worker(1, "Failed", reason="OutOfcpu")
        where: Any = {"job_launcher": launcher(), "workers": (worker(0), dead)}
        assert not look(after=1, replaced={1: 1}, **where).replace
        assert look(after=2, replaced={1: 1}, **where).replace == (dead,)

    def test_not_when_the_launcher_cannot_try_again(self) -> None:
        dead = worker(1, "Failed", containerStatuses=[ended(3)])
        last = launcher(limit=1, failed=1)
        assert not look(job_launcher=last, workers=(worker(0), dead), after=60).replace
        fresh = launcher(limit=1, failed=0)
        assert look(job_launcher=fresh, workers=(worker(0), dead), after=60).replace

    def test_what_ended_before_a_pause_is_of_no_use(self) -> None:
        done = worker(1, "Succeeded", containerStatuses=[ended(0)])
        held = launcher(suspend=True)
        assert look(job_launcher=held, workers=(worker(0), done), after=9).replace == (done,)
        assert not look(job_launcher=launcher(), workers=(worker(0), done), after=9).replace


class TestSuspension:
    def test_workers_and_launcher_go(self) -> None:
        seen = make_job(SUSPENDED, {"startTime": stamp(), "conditions": []})
        workers = (worker(0), worker(1, "Succeeded"))
        found = look(seen, job_launcher=launcher(), workers=workers)
        assert found.launcher is Launcher.SUSPEND
        assert found.delete == workers
        assert found.status["startTime"] == stamp()
        assert found.status["replicaStatuses"]["Worker"] == {"active": 1, "succeeded": 1}

    def test_finished_ones_stay_by_policy(self) -> None:
        seen = make_job({**SUSPENDED, "run|cleanPodPolicy": "Running"})
        workers = (worker(0, "Pending"), worker(1, "Succeeded"))
        assert look(seen, workers=workers).delete == workers[:1]

    def test_resumed(self) -> None:
        seen = make_job(SUSPENDED)
        paused = follow(make_job(), look(seen, job_launcher=launcher(suspend=True)))
        found = look(paused, job_launcher=launcher(suspend=True), after=50)
        assert found.launcher is Launcher.RESUME
        assert found.create == (0, 1)
        assert found.status["startTime"] == stamp(50)
        assert conditions(found.status)[-1] == ("Suspended", "False", "MPIJobResumed")

    def test_what_is_over_is_not_suspended(self) -> None:
        done = launcher(over("Complete"), completionTime=stamp(5))
        found = look(make_job(SUSPENDED), job_launcher=done)
        assert found.status["completionTime"] == stamp(5)
        assert ("Succeeded", "True", "MPIJobSucceeded") in conditions(found.status)


class TestEnd:
    @pytest.mark.parametrize(
        ("policy", "gone"), [("None", ()), ("Running", (0, 1)), ("All", (0, 1, 2))]
    )
    def test_clean_up(self, policy: str, gone: tuple[int, ...]) -> None:
        seen = make_job({"run|cleanPodPolicy": policy, "W|replicas": 3})
        workers = (worker(0), worker(1, "Pending"), worker(2, "Succeeded"))
        done = launcher(over("Complete"), completionTime=stamp(5))
        found = look(seen, job_launcher=done, workers=workers, after=9)
        assert found.delete == tuple(workers[index] for index in gone)
        assert found.pod_group is (None if policy == "None" else False)
        assert found.status_first and not found.objects and not found.create
        assert found.status["replicaStatuses"] == {"Launcher": {"succeeded": 1}, "Worker": {}}
        assert conditions(found.status)[-1] == ("Running", "False", "MPIJobRunning")
        later = look(follow(seen, found), job_launcher=None, after=99)
        assert later.launcher is Launcher.LEAVE and not later.create
        assert later.status == found.status

    def test_time_to_live(self) -> None:
        seen = make_job({"run|ttlSecondsAfterFinished": 60})
        done = launcher(over("Complete"), completionTime=stamp(5))
        found = look(seen, job_launcher=done, after=15)
        assert (found.expired, found.requeue_after) == (False, 50)
        assert look(follow(seen, found), after=65).expired

    def test_failure_in_the_words_of_the_last_pod(self) -> None:
        pods = (
            pod("foo-launcher-b", "Failed", made=5, reason="Two", message="second"),
            pod("foo-launcher-a", "Failed", made=1, reason="One", message="first"),
        )
        ended_by = over("Failed", "BackoffLimitExceeded", "has reached the limit")
        found = look(job_launcher=launcher(ended_by, failed=2), pods=pods, after=30)
        failed = found.status["conditions"][-2]
        assert failed["reason"] == "BackoffLimitExceeded/Two"
        assert failed["message"] == "has reached the limit: second"
        assert found.status["completionTime"] == stamp(30)
        assert found.status["replicaStatuses"]["Launcher"] == {"failed": 2}
        assert found.status["failure"]["pod"] == "foo-launcher-b"
        assert found.trouble is not None

    def test_a_failure_without_words(self) -> None:
        found = look(job_launcher=launcher(over("Failed")))
        failed = found.status["conditions"][1]
        assert (failed["reason"], failed["message"]) == (
            "MPIJobFailed",
            "MPIJob bar/foo has failed",
        )
        assert found.status["failure"]["replica"] == "Launcher"

    def test_a_deadline_is_nobodys_fault(self) -> None:
        known = {"failure": {"replica": "Worker", "pod": "foo-worker-0", "reason": "Error"}}
        done = launcher(over("Failed", "DeadlineExceeded", "too long"))
        found = look(make_job(status=known), job_launcher=done)
        assert found.status["failure"]["reason"] == "DeadlineExceeded"
        assert found.status["failure"]["replica"] == "Launcher"

    def test_eviction(self) -> None:
        workers = (worker(0), worker(1, "Failed", reason="Evicted"))
        found = look(job_launcher=launcher(), workers=workers, after=7)
        assert ("Failed", "True", "MPIJobEvicted") in conditions(found.status)
        assert found.status["completionTime"] == stamp(7)
        assert found.launcher is Launcher.SUSPEND
        assert found.status["failure"]["index"] == 1
        again_ = look(follow(make_job(), found), job_launcher=launcher(suspend=True))
        assert again_.launcher is Launcher.LEAVE and not again_.acts


class TestWhy:
    def test_a_worker_explains_the_launcher(self) -> None:
        dead = worker(1, "Failed", containerStatuses=[ended(137, reason="OOMKilled")])
        seen = make_job()
        first = look(seen, job_launcher=launcher(), workers=(worker(0), dead), after=0.5)
        assert first.trouble is not None
        failed = pod("foo-launcher-a", "Failed", containerStatuses=[ended(1, at=3)])
        done = launcher(over("Failed", "BackoffLimitExceeded", "x"), failed=1)
        fresh = worker(1, made=2)
        last = look(
            follow(seen, first), job_launcher=done, pods=(failed,), workers=(worker(0), fresh)
        )
        assert last.status["failure"]["reason"] == "OOMKilled"
        assert last.status["failure"]["pod"] == "foo-worker-1"
        assert last.trouble is None

    def test_a_worker_that_was_restarted_by_its_node(self) -> None:
        restarted = worker(1, containerStatuses=[again(137, at=5, reason="OOMKilled")])
        failed = pod("foo-launcher-a", "Failed", containerStatuses=[ended(1, at=6)])
        done = launcher(over("Failed", "BackoffLimitExceeded", "x"), failed=1)
        found = look(job_launcher=done, pods=(failed,), workers=(worker(0), restarted))
        assert found.status["failure"]["pod"] == "foo-worker-1"
        assert found.trouble is not None and found.trouble.previous

    def test_told_once_per_failure(self) -> None:
        running = pod("foo-launcher-a", containerStatuses=[again(1, at=5, count=2)])
        seen = make_job()
        where: Any = {"job_launcher": launcher(), "workers": (worker(0), worker(1))}
        first = look(seen, pods=(running,), **where)
        assert first.trouble is not None
        assert first.status["failure"]["message"] == "container main has ended 2 times"
        written = follow(seen, first)
        written["status"]["failure"]["logTail"] = "words"
        second = look(written, pods=(running,), **where)
        assert second.trouble is None
        assert second.status["failure"]["logTail"] == "words"

    def test_a_process_that_the_log_named_is_kept(self) -> None:
        failed = pod("foo-launcher-a", "Failed", containerStatuses=[ended(1)])
        first = look(job_launcher=launcher(failed=1), pods=(failed,))
        assert first.trouble is not None
        named = {"failure": {"replica": "Worker", "index": 0, "reason": "ProcessFailed"}}
        second = look(
            make_job(status=named),
            job_launcher=launcher(failed=1),
            pods=(failed,),
            explained=first.trouble.failure,
        )
        assert second.trouble is None
        assert second.status["failure"] == named["failure"]

    def test_forgiven_when_all_run_again(self) -> None:
        known = {"failure": {"replica": "Worker", "index": 1, "pod": "foo-worker-1"}}
        running = {"name": "main", "state": {"running": {"startedAt": stamp(20)}}}
        begun = pod("foo-launcher-b", made=19, containerStatuses=[running])
        where: Any = {"job_launcher": launcher(failed=1), "pods": (begun,)}
        found = look(make_job(status=known), workers=(worker(0), worker(1, made=10)), **where)
        assert "failure" not in found.status
        found = look(make_job(status=known), workers=(worker(0), worker(1, made=30)), **where)
        assert "failure" in found.status
