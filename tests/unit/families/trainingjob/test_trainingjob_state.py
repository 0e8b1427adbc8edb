"""What is decided about a job, case by case."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from corral.families.trainingjob.lifecycle.decision import Decision, Launch, Observation, Refusal
from corral.families.trainingjob.lifecycle.limits import RunLimits
from corral.families.trainingjob.lifecycle.state import decide
from corral.runtime.keys import format_time
from corral.runtime.sightings import Sightings
from tests.unit.families.trainingjob.training_world import (
    START,
    condition,
    deleting,
    ended,
    make_job,
    make_pod,
    scheduled,
    unschedulable,
    waiting,
)

Obj = dict[str, Any]
LIMITS = RunLimits()
AHEAD = 730 * 86400.0
"""Seconds by which a clock is wrong."""


def look(job: Obj, *pods: Obj, now: float = START, **more: Any) -> Decision:
    """A decision about these pods; the job has the new status afterwards."""
    more.setdefault("claimed", frozenset(range(1, 20)))
    seen = Observation(deepcopy(job), pods, {"count": 0, "bytes": 0}, now, **more)
    decision = decide(seen, LIMITS)
    job["status"] = decision.status
    return decision


def running_job(**spec: Any) -> Obj:
    """A job whose two replicas run in their first attempt."""
    job = make_job(**spec)
    look(job)
    look(job, *pods_of(job))
    return job


def pods_of(job: Obj, phase: str = "Running") -> list[Obj]:
    status = job["status"]
    world = status["worldSize"]
    return [make_pod(i, status["attempt"], world=world, phase=phase) for i in range(world)]


def names(pods: Any) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


# --- the beginning -------------------------------------------------------------------------------


def test_a_new_job_is_claimed_and_launched_at_once() -> None:
    job = make_job(replicas=3)
    decision = look(job, claimed=frozenset())
    assert decision.claimed == {1}
    assert decision.launches == (Launch(1, 3, (0, 1, 2)),)
    status = job["status"]
    assert (status["phase"], status["attempt"], status["worldSize"]) == ("Pending", 1, 3)
    assert status["startTime"] == format_time(START)
    assert condition(status, "Running")["reason"] == "PodsPending"
    assert status["selector"] == "trainingjob=job"


def test_runs_when_all_replicas_do() -> None:
    job = make_job()
    look(job)
    decision = look(job, make_pod(0, phase="Running"), make_pod(1))
    assert job["status"]["phase"] == "Pending"
    assert not decision.launches
    look(job, make_pod(0, phase="Running"), make_pod(1, phase="Running"))
    assert job["status"]["phase"] == "Running"
    assert job["status"]["launchedAttempt"] == 1
    assert condition(job["status"], "Running")["status"] == "True"


def test_the_same_again_changes_nothing() -> None:
    job = running_job()
    before = deepcopy(job["status"])
    decision = look(job, *pods_of(job), now=START + 100)
    assert decision.status == before
    assert not (decision.delete or decision.launches or decision.claimed)


def test_pods_that_another_process_may_have_made_are_claimed_anew() -> None:
    job = make_job()
    look(job)
    decision = look(job, claimed=frozenset())
    assert decision.claimed == {2}
    assert decision.launches == (Launch(2, 2, (0, 1)),)


def test_a_set_that_was_begun_by_another_process_is_made_anew_as_a_whole() -> None:
    job = make_job()
    look(job)
    decision = look(job, make_pod(0), claimed=frozenset())
    assert names(decision.delete) == ["job-0"]
    assert not decision.launches
    assert condition(job["status"], "Restarting")["reason"] == "Interrupted"
    assert job["status"]["replicas"]["restarts"] == 0


# --- ends ----------------------------------------------------------------------------------------


def test_succeeds_when_all_replicas_have() -> None:
    job = running_job()
    first = ended(make_pod(0), 0)
    decision = look(job, first, make_pod(1, phase="Running"))
    assert job["status"]["completedReplicas"] == "0"
    assert not decision.launches
    decision = look(job, ended(make_pod(1), 0))  # the first is gone meanwhile: it has succeeded
    assert job["status"]["phase"] == "Succeeded"
    assert job["status"]["completionTime"]
    assert job["status"]["replicas"]["succeeded"] == 2
    assert decision.clean_pods == "Running"


def test_is_deleted_when_its_time_is_over() -> None:
    job = running_job(policy={"ttlSecondsAfterFinished": 10})
    look(job, *(ended(pod, 0) for pod in pods_of(job)))
    early = look(job, now=START + 4)
    assert not early.expired
    assert early.requeue_after == 6
    assert look(job, now=START + 10).expired


def test_is_deleted_though_a_wrong_clock_ended_it() -> None:
    job, known = running_job(policy={"ttlSecondsAfterFinished": 10}), Sightings()
    look(job, *(ended(pod, 0) for pod in pods_of(job)), now=START + AHEAD)
    assert look(job, now=START + 20, sightings=known).requeue_after == 10
    assert look(job, now=START + 30, sightings=known).expired


def test_takes_too_long_though_a_wrong_clock_began_it() -> None:
    job, known = make_job(policy={"activeDeadlineSeconds": 60}), Sightings()
    look(job, now=START + AHEAD)
    assert look(job, *pods_of(job), now=START, sightings=known).requeue_after == 60
    look(job, *pods_of(job), now=START + 60, sightings=known)
    assert job["status"]["failure"]["reason"] == "DeadlineExceeded"


def test_fails_when_it_takes_too_long() -> None:
    job = running_job(policy={"activeDeadlineSeconds": 60})
    assert look(job, *pods_of(job), now=START + 20).requeue_after == 40
    look(job, *pods_of(job), now=START + 60)
    assert job["status"]["phase"] == "Failed"
    assert condition(job["status"], "Failed")["reason"] == "DeadlineExceeded"
    assert job["status"]["failure"]["reason"] == "DeadlineExceeded"


def test_time_in_suspension_does_not_count() -> None:
    job = running_job(policy={"activeDeadlineSeconds": 60})
    job["spec"]["runPolicy"]["suspend"] = True
    look(job, now=START + 50)
    assert look(job, now=START + 500).requeue_after == 0
    job["spec"]["runPolicy"]["suspend"] = False
    decision = look(job, now=START + 550)
    assert job["status"]["suspendedSeconds"] == 500
    assert decision.requeue_after == 10
    assert job["status"]["phase"] == "Pending"


# --- restarts ------------------------------------------------------------------------------------


def test_a_failure_restarts_all_after_a_wait() -> None:
    job = running_job()
    pods = [make_pod(0, phase="Running"), ended(make_pod(1), 3, message="no data")]
    decision = look(job, *pods)
    status = job["status"]
    assert (status["attempt"], status["replicas"]["restarts"]) == (2, 1)
    assert names(decision.delete) == ["job-0", "job-1"]
    assert decision.culprit is pods[1]
    assert not decision.launches
    assert status["phase"] == "Running"
    assert condition(status, "Restarting")["reason"] == "ReplicaFailed"
    assert status["failure"] == {
        "replica": 1, "pod": "job-1", "reason": "Error", "exitCode": 3, "message": "no data",
    }  # fmt: skip
    waiting_for = look(job)
    assert not waiting_for.launches
    assert waiting_for.requeue_after == 1
    assert look(job, now=START + 1).launches == (Launch(2, 2, (0, 1)),)


def test_new_pods_wait_until_the_old_ones_have_gone() -> None:
    job = running_job()
    look(job, make_pod(0, phase="Running"), ended(make_pod(1), 3))
    old = deleting(make_pod(0, phase="Running"))
    decision = look(job, old, now=START + 5)
    assert not decision.launches and not decision.delete
    assert condition(job["status"], "Running")["reason"] == "PodsEnding"


def test_a_pod_whose_node_is_dead_is_removed_by_force() -> None:
    job = running_job()
    look(job, make_pod(0, phase="Running"), ended(make_pod(1), 3))
    old = deleting(make_pod(0, phase="Running"), grace=30)
    assert look(job, old, now=START + 40).requeue_after == 50
    assert names(look(job, old, now=START + 90).kill) == ["job-0"]


def test_a_pod_that_a_wrong_clock_deleted_is_removed_by_force() -> None:
    """The clock was two years ahead when its node died, and is right again."""
    job, known = running_job(), Sightings()
    look(job, make_pod(0, phase="Running"), ended(make_pod(1), 3))
    old = deleting(make_pod(0, phase="Running"), at=START + AHEAD, grace=30)
    early = look(job, old, now=START + 10, sightings=known)
    assert not early.kill
    assert early.requeue_after == 90
    assert names(look(job, old, now=START + 100, sightings=known).kill) == ["job-0"]


def test_a_failure_restarts_one_alone() -> None:
    job = running_job(policy={"restartScope": "Replica"})
    decision = look(job, make_pod(0, phase="Running"), ended(make_pod(1), 3))
    status = job["status"]
    assert (status["attempt"], status["replicaAttempts"]) == (1, {"1": 2})
    assert names(decision.delete) == ["job-1"]
    decision = look(job, make_pod(0, phase="Running"), now=START + 1)
    assert decision.launches == (Launch(2, 2, (1,)),)
    look(job, make_pod(0, phase="Running"), make_pod(1, 2, phase="Running"), now=START + 2)
    assert condition(job["status"], "Running")["status"] == "True"
    assert job["status"]["launchedAttempt"] == 2


def test_each_restart_waits_longer() -> None:
    job = running_job(policy={"backoffLimit": 20})
    waits = []
    now = START
    for _ in range(12):
        now += 1000
        pods = pods_of(job)
        look(job, *pods, now=now)
        ended(pods[0], 1)
        look(job, *pods, now=now)
        waits.append(look(job, now=now).requeue_after)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


def test_a_wait_that_a_wrong_clock_wrote_is_none() -> None:
    """The clock was a year ahead when the replica failed, and is right again."""
    job = running_job(policy={"backoffLimit": 20})
    pods = pods_of(job)
    ended(pods[0], 1)
    look(job, *pods, now=START + 365 * 86400)
    decision = look(job, now=START + 1)
    assert [launch.attempt for launch in decision.launches] == [job["status"]["attempt"]]


@pytest.mark.parametrize("limit", [0, 2])
def test_fails_at_the_limit(limit: int) -> None:
    job = running_job(policy={"backoffLimit": limit})
    for _ in range(limit + 1):
        assert job["status"]["phase"] != "Failed"
        pods = pods_of(job)
        look(job, *pods, now=START + 1000)
        ended(pods[0], 1)
        look(job, *pods, now=START + 1000)
    assert job["status"]["phase"] == "Failed"
    assert condition(job["status"], "Failed")["reason"] == "BackoffLimitExceeded"
    assert job["status"]["replicas"] | {"restarts": limit, "failed": 1} == job["status"]["replicas"]


def _evicted(pod: Obj) -> Obj:
    pod["status"] |= {"phase": "Failed", "reason": "Evicted", "message": "disk"}
    return pod


def _preempted(pod: Obj) -> Obj:
    ended(pod, 143)
    pod["status"]["conditions"] = [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    ]
    return pod


def _unknown(pod: Obj) -> Obj:
    pod["status"] |= {"phase": "Unknown"}
    return pod


LOSSES = {
    "deleted": (deleting, "PodLost"),
    "evicted": (_evicted, "Evicted"),
    "preempted": (_preempted, "PreemptionByScheduler"),
    "unknown": (_unknown, "PodLost"),
    "ended-by-deletion": (lambda pod: ended(deleting(pod), 143), "PodLost"),
    "gone": (None, "PodLost"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_lost_does_not_count_as_a_failure(loss: str) -> None:
    lose, reason = LOSSES[loss]
    job = running_job(policy={"backoffLimit": 0})
    lost = [lose(make_pod(1, phase="Running"))] if lose else []
    # The other one fails for want of it.
    look(job, ended(make_pod(0), 1), *lost)
    status = job["status"]
    assert (status["attempt"], status["phase"]) == (2, "Running")
    assert status["replicas"] | {"restarts": 0, "disruptions": 1} == status["replicas"]
    assert (status["failure"]["replica"], status["failure"]["reason"]) == (1, reason)
    assert condition(status, "Restarting")["reason"] == "PodLost"


def test_a_failure_before_the_deletion_is_a_failure() -> None:
    job = running_job(policy={"backoffLimit": 0})
    look(job, make_pod(0, phase="Running"), ended(deleting(make_pod(1), at=START + 9), 1, at=START))
    assert condition(job["status"], "Failed")["reason"] == "BackoffLimitExceeded"


def test_disruptions_are_forgotten_when_the_job_runs_for_a_while() -> None:
    job = running_job()
    for round_ in range(1, 4):
        pods = pods_of(job)
        look(job, *pods, now=START + round_)
        look(job, pods[0], now=START + round_)
        assert job["status"]["replicas"]["disruptions"] == round_
    pods = pods_of(job)
    look(job, *pods, now=START + 100)
    look(job, pods[0], now=START + 100 + LIMITS.stable_after)
    assert job["status"]["replicas"]["disruptions"] == 1


# --- what cannot start ---------------------------------------------------------------------------


def test_what_cannot_start_is_shown_and_not_restarted() -> None:
    job = make_job()
    look(job)
    stuck = waiting(make_pod(1), "ImagePullBackOff", "no such image")
    decision = look(job, make_pod(0, phase="Running"), stuck, now=START + 5000)
    assert not (decision.delete or decision.launches)
    assert condition(job["status"], "Running")["reason"] == "ImagePullBackOff"
    assert (
        job["status"]["failure"] | {"reason": "ImagePullBackOff", "replica": 1}
        == (job["status"]["failure"])
    )
    look(job, make_pod(0, phase="Running"), make_pod(1, phase="Running"))
    assert "failure" not in job["status"]


def test_a_refusal_is_shown_and_tried_again_later() -> None:
    job = make_job()
    look(job)
    refusal = Refusal("QuotaExceeded", "exceeded quota: few", since=START, until=START + 4)
    decision = look(job, make_pod(0), refusal=refusal)
    assert condition(job["status"], "Running")["reason"] == "QuotaExceeded"
    assert not decision.launches
    assert decision.requeue_after == 4
    later = look(job, make_pod(0), refusal=refusal, now=START + 4)
    assert later.launches == (Launch(1, 2, (1,)),)


def test_an_invalid_spec_is_shown_and_left_alone() -> None:
    job = make_job()
    del job["spec"]["image"]
    decision = look(job)
    assert not (decision.launches or decision.upkeep or decision.requeue_after)
    assert job["status"]["phase"] == "Failed"
    assert condition(job["status"], "Valid")["status"] == "False"
    assert condition(job["status"], "Failed")["reason"] == "InvalidSpec"
    job["spec"]["image"] = "trainer"
    job["metadata"]["generation"] = 2
    assert look(job).launches
    assert job["status"]["phase"] == "Pending"
    assert condition(job["status"], "Failed")["status"] == "False"


def test_a_running_job_whose_spec_becomes_invalid_is_left_alone() -> None:
    job = running_job()
    del job["spec"]["image"]
    job["metadata"]["generation"] = 2
    decision = look(job, *pods_of(job))
    assert not decision.delete
    assert job["status"]["phase"] == "Running"
    assert condition(job["status"], "Valid")["reason"] == "InvalidSpec"


# --- suspension and size -------------------------------------------------------------------------


def test_suspension_takes_the_pods_away_and_a_resume_begins_anew() -> None:
    job = running_job()
    job["spec"]["runPolicy"]["suspend"] = True
    decision = look(job, *pods_of(job))
    assert names(decision.delete) == ["job-0", "job-1"]
    assert job["status"]["phase"] == "Pending"
    assert condition(job["status"], "Suspended")["status"] == "True"
    job["spec"]["runPolicy"]["suspend"] = False
    decision = look(job, deleting(make_pod(0, phase="Running")))
    assert decision.claimed == {2}
    assert not decision.launches
    assert look(job).launches == (Launch(2, 2, (0, 1)),)
    assert (
        job["status"]["replicas"] | {"restarts": 0, "disruptions": 0} == (job["status"]["replicas"])
    )


def test_a_job_that_has_succeeded_cannot_be_suspended() -> None:
    job = running_job()
    job["spec"]["runPolicy"]["suspend"] = True
    look(job, *(ended(pod, 0) for pod in pods_of(job)))
    assert job["status"]["phase"] == "Succeeded"


def test_scaling_begins_a_new_set() -> None:
    job = running_job(elastic={"minReplicas": 1, "maxReplicas": 4})
    job["spec"]["replicas"] = 4
    decision = look(job, *pods_of(job))
    assert len(decision.delete) == 2
    assert (job["status"]["worldSize"], job["status"]["attempt"]) == (4, 2)
    assert condition(job["status"], "Restarting")["reason"] == "Scaled"


def test_goes_on_with_what_fits_and_takes_in_more_when_there_is_room() -> None:
    job = make_job(replicas=3, elastic={"minReplicas": 1, "maxReplicas": 3})
    look(job)
    pods = [
        scheduled(make_pod(0, world=3, phase="Running")),
        scheduled(make_pod(1, world=3, phase="Running")),
        unschedulable(make_pod(2, world=3)),
    ]
    assert look(job, *pods, now=START + 3).requeue_after == 7
    look(job, *pods, now=START + 10)
    assert (job["status"]["worldSize"], job["status"]["attempt"]) == (2, 2)
    assert condition(job["status"], "Restarting")["reason"] == "Shrunk"
    assert job["status"]["replicas"]["desired"] == 3
    pods = pods_of(job)
    assert look(job, *pods, now=START + 20).placeholders == (2,)
    place = make_pod(2, 2)
    place["metadata"]["name"] = "job-grow-2"
    place["metadata"]["labels"]["training.corral.dev/placeholder"] = "true"
    assert not look(job, *pods, unschedulable(place), now=START + 30).placeholders
    assert look(job, *pods, scheduled(place), now=START + 30).requeue_after == 50
    decision = look(job, *pods, place, now=START + 80)
    assert (job["status"]["worldSize"], job["status"]["attempt"]) == (3, 3)
    assert condition(job["status"], "Restarting")["reason"] == "Grown"
    assert len(decision.delete) == 3


def test_what_others_write_into_the_status_stays() -> None:
    job = running_job()
    job["status"] |= {"progress": {"step": 3}, "checkpoint": {"restoredFrom": "job-000001"}}
    seen = Observation(job, pods_of(job), {"count": 1, "bytes": 7, "last": "job-000002"}, START)
    status = decide(seen, LIMITS).status
    assert status["progress"] == {"step": 3}
    assert status["checkpoint"] == {
        "restoredFrom": "job-000001", "count": 1, "bytes": 7, "last": "job-000002",
    }  # fmt: skip
