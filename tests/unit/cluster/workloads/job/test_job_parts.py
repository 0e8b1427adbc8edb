"""The parts alone: index sets, back-off, bodies, ranking, claims, tracking, time to live."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from job_builders import FINALIZER, INDEX, NOW, ago, job, many, pod, run

from corral.cluster.workloads.job import (
    NO_FAILURES,
    Backoff,
    claim_pods,
    is_abandoned,
    slow_start,
    time_to_live,
)
from corral.cluster.workloads.job.backoff import finish_time, next_backoff, remaining, remaining_for
from corral.cluster.workloads.job.indexes import IndexSet, completion_index, failure_count
from corral.cluster.workloads.pods import deletion_rank, generate_prefix


@pytest.mark.parametrize(
    ("text", "completions", "intervals"),
    [
        ("", 10, ()),
        ("0", 10, ((0, 0),)),
        ("1,3-5,7", 10, ((1, 1), (3, 5), (7, 7))),
        ("0,1", 10, ((0, 1),)),
        ("0-2,3-5,6,7", 10, ((0, 7),)),
        ("0,1,3-9", 5, ((0, 1), (3, 4))),
        ("5-9", 5, ()),
        ("x,2,3-y,4", 10, ((2, 2), (4, 4))),
    ],
)
def test_index_set_parses(text: str, completions: int, intervals: tuple[Any, ...]) -> None:
    assert IndexSet.parse(text, completions).intervals == intervals


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([0], "0"), ([3, 4], "3,4"), ([3, 4, 5], "3-5"), ([9, 1, 2, 3, 7, 8], "1-3,7-9"),
     ([1, 3, 5, 6], "1,3,5,6")],
)  # fmt: skip
def test_index_set_is_written_compressed(indexes: list[int], text: str) -> None:
    found = IndexSet.of(indexes)
    assert str(found) == text and len(found) == len(indexes)
    assert [i for i in range(12) if i in found] == sorted(indexes)


@pytest.mark.parametrize(
    ("left", "right", "union", "overlap"),
    [
        ("", "", "", 0),
        ("0-3", "", "0-3", 0),
        ("0,2,4", "1,3", "0-4", 0),
        ("0-5", "2-3", "0-5", 2),
        ("0-3,8", "3-6", "0-6,8", 1),
        ("2-5,7-9", "0-1,4-8", "0-9", 4),
    ],
)
def test_index_set_algebra(left: str, right: str, union: str, overlap: int) -> None:
    a, b = IndexSet.parse(left, 20), IndexSet.parse(right, 20)
    assert str(a.union(b)) == str(b.union(a)) == union
    assert a.overlap(b) == b.overlap(a) == overlap


@pytest.mark.parametrize(
    ("taken", "below", "limit", "missing"),
    [("", 5, 2, [0, 1]), ("1-3", 5, 9, [0, 4]), ("0-4", 5, 3, []), ("2", 9, 0, []),
     ("0,7", 4, 9, [1, 2, 3])],
)  # fmt: skip
def test_missing_indexes(taken: str, below: int, limit: int, missing: list[int]) -> None:
    assert IndexSet.parse(taken, 20).missing(below, limit) == missing


@pytest.mark.parametrize(
    ("value", "index"), [("0", 0), ("12", 12), ("-1", None), ("x", None), ("", None), ("1.5", None)]
)
def test_completion_index(value: str, index: int | None) -> None:
    assert completion_index(pod("a", index=value)) == index
    assert completion_index(pod("a")) is None


@pytest.mark.parametrize(("value", "n"), [("3", 3), ("-1", 0), ("x", 0), (str(2**31), 0)])
def test_nonsense_failure_counts_are_zero(value: str, n: int) -> None:
    assert failure_count(pod("a", failures=value)) == n


@pytest.mark.parametrize(
    ("failures", "elapsed", "wait"),
    [(0, 0, 0), (1, 0, 10), (1, 4, 6), (1, 11, 0), (2, 0, 20), (3, 0, 40), (6, 0, 320),
     (7, 0, 600), (8, 0, 600), (200, 0, 600), (3, 30, 10),
     # a clock that is a little ahead, and one that was wrong by a year and is right again
     (1, -5, 15), (3, -365 * 86400, 0)],
)  # fmt: skip
def test_back_off_doubles_to_ten_minutes(failures: int, elapsed: int, wait: int) -> None:
    assert remaining(Backoff(failures, NOW - timedelta(seconds=elapsed)), NOW) == wait


@pytest.mark.parametrize(
    ("succeeded", "failed", "failures", "last"),
    [
        ([], [], 2, 99),
        ([5], [], 0, None),
        ([], [5, 9], 4, 5),
        ([7], [5, 6, 9], 2, 5),
        ([1], [5, 9], 0, None),
        ([3, 8], [5, 2], 1, 2),
    ],
)
def test_back_off_record(
    succeeded: list[int], failed: list[int], failures: int, last: int | None
) -> None:
    old = Backoff(2, NOW - timedelta(seconds=99))
    new = next_backoff(
        old,
        [pod(f"s{s}", "Succeeded", finished=s) for s in succeeded],
        [pod(f"f{s}", "Failed", finished=s) for s in failed],
    )
    when = None if last is None else NOW - timedelta(seconds=last)
    assert new == Backoff(failures, when)


def terminated(name: str, seconds: int) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"finishedAt": ago(seconds)}}}


SIDECAR = {"initContainers": [{"name": "side", "restartPolicy": "Always"}, {"name": "init"}]}


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({"status": {"containerStatuses": [terminated("a", 9), terminated("b", 4)]}}, 4),
        ({"status": {"containerStatuses": [terminated("a", 9), {"name": "b", "state": {}}],
                     "conditions": [{"type": "Ready", "status": "False",
                                     "lastTransitionTime": ago(3)}]}}, 3),
        ({"spec": SIDECAR, "status": {"containerStatuses": [terminated("a", 9)],
                                      "initContainerStatuses": [terminated("side", 2),
                                                                terminated("init", 1)]}}, 2),
        ({"meta": {"deletionTimestamp": ago(0), "deletionGracePeriodSeconds": 30}}, 30),
        ({"meta": {"creationTimestamp": ago(70)}}, 70),
    ],
    ids=["latest container", "ready false", "sidecar", "deletion less grace", "creation"],
)  # fmt: skip
def test_finish_time(options: dict[str, Any], seconds: int) -> None:
    assert finish_time(pod("a", "Failed", **options)) == NOW - timedelta(seconds=seconds)


def test_index_back_off_counts_ignored_failures_too() -> None:
    assert remaining_for(None, NOW) == 0
    annotations = {
        "annotations": {
            "batch.kubernetes.io/job-index-failure-count": "1",
            "batch.kubernetes.io/job-index-ignored-failure-count": "1",
        }
    }
    assert remaining_for(pod("a", "Failed", finished=0, meta=annotations), NOW) == 40


def test_short_waits_are_batched() -> None:
    ran = run(job(), [], backoff=Backoff(1, NOW - timedelta(seconds=9.8)))
    assert ran.verdict.requeue_after == 1.0


def test_the_record_is_kept_with_the_status() -> None:
    ran = run(job(), [pod("a", "Failed", finished=3)])
    assert ran.backoff == Backoff(1, NOW - timedelta(seconds=3))
    assert ran.created == [] and ran.verdict.requeue_after == 7.0
    assert run(job(), many("s", 1, "Succeeded"), backoff=ran.backoff).backoff == NO_FAILURES


def test_body_of_a_plain_pod() -> None:
    the_job = job()
    (body,) = run(the_job, []).created
    assert body == {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": "train-", "namespace": "ns", "labels": {"job": "train"},
            "finalizers": [FINALIZER],
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-uid",
                "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": the_job["spec"]["template"]["spec"],
    }  # fmt: skip


def test_body_of_an_indexed_pod() -> None:
    the_job = job(completionMode="Indexed", parallelism=2, completions=2)
    spec = the_job["spec"]["template"]["spec"]
    spec["initContainers"] = [
        {"name": "i", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]}
    ]
    body = run(the_job, []).created[1]
    assert body["metadata"]["generateName"] == "train-1-"
    assert body["metadata"]["annotations"] == {INDEX: "1"}
    assert body["metadata"]["labels"] == {"job": "train", INDEX: "1"}
    assert body["spec"]["hostname"] == "train-1"
    path = f"metadata.labels['{INDEX}']"
    assert body["spec"]["containers"][0]["env"] == [
        {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    ]
    assert body["spec"]["initContainers"] == spec["initContainers"]
    assert "env" not in spec["containers"][0]


def test_long_names_leave_room_for_the_index() -> None:
    the_job = job(completionMode="Indexed")
    the_job["metadata"]["name"] = "n" * 63
    (body,) = run(the_job, []).created
    assert body["metadata"]["generateName"] == "n" * 55 + "-0-"
    assert generate_prefix("n" * 253) == "n" * 253


def test_ranking_of_pods_to_delete() -> None:
    on = {"nodeName": "n"}
    ready = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ago(9)}]}
    longer = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ago(99)}]}
    order = [
        pod("unassigned", "Running"),
        pod("pending", "Pending", spec=on),
        pod("unknown", "Unknown", spec=on),
        pod("restarts", spec=on, status={"containerStatuses": [{"restartCount": 3}]}),
        pod("undated", spec=on),
        pod("young", spec=on, meta={"creationTimestamp": ago(5)}),
        pod("old", spec=on, meta={"creationTimestamp": ago(50)}),
        pod("ready", spec=on, status=ready),
        pod("ready longer", spec=on, status=longer),
    ]
    shuffled = order[::-1]
    assert sorted(shuffled, key=deletion_rank) == order


def test_slow_start() -> None:
    assert list(slow_start(10)) == [1, 2, 4, 3]
    assert list(slow_start(0)) == []


# --- tracking -------------------------------------------------------------------------------


def test_a_pod_that_flips_to_succeeded_stays_failed() -> None:
    status = {"uncountedTerminatedPods": {"failed": ["a", "b"]}, "conditions": [
        {"type": "FailureTarget", "status": "True", "reason": "R", "message": "M"}]}  # fmt: skip
    ran = run(job(status, parallelism=2, completions=2),
              [pod("a", "Failed"), pod("b", "Succeeded")])  # fmt: skip
    assert ran.status["failed"] == 2 and "succeeded" not in ran.status


def test_pods_freed_before_move_into_the_counters() -> None:
    status = {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["b"]}}
    ran = run(
        job(status, parallelism=5, completions=9, backoffLimit=9),
        [pod("a", "Succeeded", tracked=False), pod("c", "Succeeded"), pod("d", "Failed")],
        refuse_freeing=frozenset({"c"}),
    )
    assert [s["uncountedTerminatedPods"] for s in ran.statuses] == [
        {"succeeded": ["c"], "failed": ["d"]}, {"succeeded": ["c"]},
    ]  # fmt: skip
    assert [(s.get("succeeded", 0), s.get("failed", 0)) for s in ran.statuses] == [(1, 1), (1, 2)]
    assert ran.verdict.retry and not ran.verdict.finished


def test_pods_known_to_be_freed_are_not_counted_again() -> None:
    ran = run(job({"succeeded": 1}, completions=3), [pod("a", "Succeeded")],
              removed=frozenset({"a"}))  # fmt: skip
    assert ran.status["succeeded"] == 1 and ran.freed == []


def test_one_pass_counts_at_most_500() -> None:
    ran = run(job(parallelism=600, completions=600), many("s", 600, "Succeeded"))
    assert len(ran.freed) == 500 and ran.status["succeeded"] == 500
    assert not ran.verdict.finished
    assert [c[0] for c in ran.conditions] == ["SuccessCriteriaMet"]


def test_completed_indexes_beyond_completions_are_forgotten() -> None:
    status = {"completedIndexes": "1,3-5,7-9", "succeeded": 7}
    ran = run(job(status, completionMode="Indexed", completions=5, parallelism=1),
              [pod("a", "Succeeded", index=0)])  # fmt: skip
    assert ran.status["completedIndexes"] == "0,1,3,4" and ran.status["succeeded"] == 4


# --- claims ---------------------------------------------------------------------------------


def orphan(uid: str, **meta: Any) -> dict[str, Any]:
    return pod(uid, tracked=False, meta={"ownerReferences": [], **meta})


def test_adoption_and_release() -> None:
    mine, other = pod("mine"), pod("other")
    other["metadata"]["ownerReferences"][0]["uid"] = "someone"
    stray = pod("stray", meta={"labels": {"job": "else"}})
    free = orphan("free")
    found = claim_pods(job(), [
        mine, other, stray, free, orphan("unrelated", labels={}),
        orphan("going", deletionTimestamp=ago(1)), orphan("elsewhere", namespace="far"),
    ])  # fmt: skip
    assert found.owned == (mine,)
    assert [(p["metadata"]["uid"], patch) for p, patch in found.adopt] == [("free", {"metadata": {
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train",
                             "uid": "job-uid", "controller": True, "blockOwnerDeletion": True}],
        "uid": "free", "finalizers": [FINALIZER]}})]  # fmt: skip
    ((released, patch),) = found.release
    assert released is stray
    assert patch == {"metadata": {
        "uid": "stray", "ownerReferences": [{"$patch": "delete", "uid": "job-uid"}],
        "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}  # fmt: skip
    assert "finalizers" not in free["metadata"]


def test_a_job_being_deleted_claims_nothing_new() -> None:
    stray = pod("stray", meta={"labels": {}})
    found = claim_pods(job(deleting=True), [pod("mine"), stray, orphan("free")])
    assert len(found.owned) == 1 and found.adopt == () and found.release == ()


FINISHED = {"conditions": [{"type": "Complete", "status": "True"}]}


@pytest.mark.parametrize(
    ("reference", "the_job", "abandoned"),
    [
        ({}, job(), False),
        ({}, job(FINISHED), True),
        ({}, None, True),
        ({}, job(FINISHED, managedBy="example.com/x"), False),
        ({"uid": "older"}, job(), True),
        ({"kind": "CronJob"}, None, False),
        ({"apiVersion": "example.com/v1"}, None, False),
        ({"controller": False}, job(), True),
    ],
)
def test_abandoned_pods(reference: Any, the_job: Any, abandoned: bool) -> None:
    one = pod("a")
    one["metadata"]["ownerReferences"][0].update(reference)
    assert is_abandoned(one, lambda ns, name: the_job) is abandoned
    assert not is_abandoned(pod("b", tracked=False), lambda ns, name: None)


@pytest.mark.parametrize(
    ("ttl", "status", "deleting", "left"),
    [
        (10, {}, False, None),
        (None, {"conditions": [{"type": "Failed", "status": "True",
                                "lastTransitionTime": ago(5)}]}, False, None),
        (10, {"conditions": [{"type": "Failed", "status": "True",
                              "lastTransitionTime": ago(4)}]}, False, 6.0),
        (0, {"conditions": [{"type": "Complete", "status": "True",
                             "lastTransitionTime": ago(0)}]}, False, 0.0),
        (10, {"conditions": [{"type": "Complete", "status": "True",
                              "lastTransitionTime": ago(99)}]}, False, 0.0),
        (10, {"conditions": [{"type": "Complete", "status": "True",
                              "lastTransitionTime": ago(99)}]}, True, None),
    ],
)  # fmt: skip
def test_time_to_live(ttl: int | None, status: Any, deleting: bool, left: float | None) -> None:
    assert time_to_live(job(status, deleting=deleting, ttlSecondsAfterFinished=ttl), NOW) == left
