"""Suspension, deadlines, time to live, ownership, deletion and quotas."""

from __future__ import annotations

from typing import Any

from tests.cluster.jobs.stage import TRACKING, Obj, Stage, pod_spec_of_one
from tests.cluster.jobs.telling import story

MINE = {"story": "mine"}


@story
def born_suspended(stage: Stage) -> None:
    stage.make(suspend=True, completions=2, parallelism=2)
    stage.until("Suspended")
    stage.quiet()
    stage.mark("asleep")
    stage.change(suspend=False)
    stage.until(active=2, pods=2)
    stage.mark("awake")


@story
def put_to_sleep(stage: Stage) -> None:
    stage.make(completions=2, parallelism=2)
    stage.until(active=2, pods=2)
    stage.change(suspend=True)
    stage.until("Suspended", active=0, terminating=0, pods=0)
    stage.mark("asleep")
    stage.change(suspend=False)
    stage.until(active=2, pods=2)
    stage.mark("awake")
    stage.change(suspend=True)
    stage.until("Suspended", active=0, terminating=0, pods=0)
    stage.mark("asleep again")


@story
def put_to_sleep_on_a_node(stage: Stage) -> None:
    stage.make(completions=2, parallelism=2, node=True)
    stage.until(active=2, pods=2)
    for pod in stage.active():
        stage.run(pod)
    stage.until(ready=2)
    stage.change(suspend=True)
    stage.until("Suspended", active=0, terminating=2)
    stage.mark("going")
    stage.stop()
    stage.until("Suspended", terminating=0, pods=0)
    stage.mark("asleep")


@story
def sleep_keeps_what_is_done(stage: Stage) -> None:
    stage.make(completions=2, parallelism=1)
    stage.until(active=1, pods=1)
    stage.succeed(*stage.active())
    stage.until(active=1, succeeded=1, pods=2)
    stage.change(suspend=True)
    stage.until("Suspended", active=0, terminating=0)
    stage.mark("asleep")
    stage.change(suspend=False)
    stage.until(active=1, pods=2)
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")


@story
def indexed_sleep(stage: Stage) -> None:
    stage.make(completionMode="Indexed", completions=3, parallelism=3)
    stage.until(active=3, pods=3)
    stage.succeed(*stage.active(1))
    stage.until(active=2, completedIndexes="1")
    stage.change(suspend=True)
    stage.until("Suspended", active=0, terminating=0)
    stage.mark("asleep")
    stage.change(suspend=False, parallelism=1)
    stage.until(active=1, pods=2)
    stage.mark("awake, narrower")


@story
def a_deadline_passes(stage: Stage) -> None:
    stage.make(activeDeadlineSeconds=4, completions=2, parallelism=2)
    stage.until(active=2, pods=2)
    stage.mark("in time")
    stage.until("Failed")
    stage.mark("too late")


@story
def a_deadline_passes_on_a_node(stage: Stage) -> None:
    stage.make(activeDeadlineSeconds=4, node=True)
    stage.until(active=1, pods=1)
    stage.until("FailureTarget", active=0, terminating=1)
    stage.mark("announced")
    stage.stop()
    stage.until("Failed")
    stage.mark("failed")


@story
def a_deadline_is_set_later(stage: Stage) -> None:
    stage.make(activeDeadlineSeconds=3600)
    stage.until(active=1, pods=1)
    stage.change(activeDeadlineSeconds=1)
    stage.until("Failed")
    stage.mark("failed")


@story
def no_deadline_in_sleep(stage: Stage) -> None:
    stage.make(activeDeadlineSeconds=4, suspend=True)
    stage.until("Suspended")
    stage.quiet(4.5)
    stage.mark("still asleep")
    stage.change(suspend=False)
    stage.until(active=1, pods=1)
    stage.mark("awake")
    stage.until("Failed")
    stage.mark("too late")


@story
def gone_when_done(stage: Stage) -> None:
    stage.make(ttlSecondsAfterFinished=0)
    stage.until(active=1, pods=1)
    stage.succeed(*stage.active())
    stage.gone()
    stage.wait(lambda: not stage.all("pods"))
    stage.mark("gone")


@story
def gone_some_time_after(stage: Stage) -> None:
    stage.make(ttlSecondsAfterFinished=5, backoffLimit=0)
    stage.until(active=1, pods=1)
    stage.fail(*stage.active())
    stage.until("Failed")
    stage.mark("failed, and still there")
    stage.gone()
    stage.mark("gone")


@story
def a_time_to_live_is_set_later(stage: Stage) -> None:
    stage.make()
    stage.until(active=1, pods=1)
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("stays")
    stage.change(ttlSecondsAfterFinished=1)
    stage.gone()
    stage.mark("gone")


@story
def managed_by_another(stage: Stage) -> None:
    stage.make(managedBy="example.test/other")
    stage.quiet()
    stage.mark("left alone")


@story
def managed_by_the_usual_one(stage: Stage) -> None:
    stage.make(managedBy="kubernetes.io/job-controller")
    stage.until(active=1, pods=1)
    stage.mark("as ever")


def _bare_pod(stage: Stage, name: str, **labels: str) -> Obj:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": pod_spec_of_one(),
    }
    return stage.create("pods", body)


def _make_selecting(stage: Stage, **spec: Any) -> None:
    """A job that selects pods by a label of its own choice."""
    template = {"metadata": {"labels": MINE}}
    selector = {"matchLabels": MINE}
    stage.make(template, manualSelector=True, selector=selector, **spec)


def _known(stage: Stage) -> None:
    """Wait until the controller has seen every pod so far: one that came later was met by it."""
    elsewhere = Stage(stage.backend)
    elsewhere.open()
    try:
        _bare_pod(elsewhere, "later", **MINE)
        _make_selecting(elsewhere, completions=1)

        def met() -> bool:
            pod = elsewhere.find("pods", "later")
            return pod is None or "ownerReferences" in pod["metadata"]

        elsewhere.wait(met, "a pod is met")
    finally:
        elsewhere.close()


@story
def an_orphan_is_adopted(stage: Stage) -> None:
    _bare_pod(stage, "found", **MINE)
    _bare_pod(stage, "stranger", story="other")
    _known(stage)
    _make_selecting(stage, completions=1)
    stage.until(active=1)
    stage.quiet()
    stage.mark("adopted")
    stage.succeed(*[pod for pod in stage.active() if pod["metadata"]["name"] == "found"])
    stage.until("Complete")
    stage.mark("done")


@story
def an_orphan_comes_later(stage: Stage) -> None:
    _make_selecting(stage, completions=2, parallelism=1)
    stage.until(active=1, pods=1)
    stage.run(stage.active()[0])
    stage.until(ready=1)
    _bare_pod(stage, "late", **MINE)
    stage.wait(lambda: stage.find("pods", "late") is None)
    stage.until(active=1, ready=1)
    stage.mark("adopted, and one too many")


@story
def too_many_successes(stage: Stage) -> None:
    for name in ("one", "two"):
        stage.succeed(_bare_pod(stage, name, **MINE))
    _known(stage)
    _make_selecting(stage, completions=1)
    stage.until("Complete")
    stage.mark("done")


@story
def a_pod_is_let_go(stage: Stage) -> None:
    _make_selecting(stage, completions=1)
    stage.until(active=1, pods=1)
    name = stage.pods()[0]["metadata"]["name"]
    stage.patch("pods", name, {"metadata": {"labels": {"story": "other"}}})
    stage.until(active=1, pods=2)
    stage.mark("let go, and replaced")


@story
def a_finalizer_taken_off_by_hand(stage: Stage) -> None:
    stage.make(completions=2, parallelism=1)
    stage.until(active=1, pods=1)
    name = stage.pods()[0]["metadata"]["name"]
    stage.patch("pods", name, {"metadata": {"finalizers": None}})
    stage.mark("untracked")
    stage.succeed(*stage.active())
    stage.until(active=1, pods=2)
    stage.mark("not counted, and replaced")


@story
def another_finalizer_holds_a_pod(stage: Stage) -> None:
    template = {"metadata": {"finalizers": ["example.test/hold"]}}
    stage.make(template)
    stage.until(active=1, pods=1)
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.mark("done")
    name = stage.all("pods")[0]["metadata"]["name"]
    stage.delete("jobs", stage.name, propagationPolicy="Background")
    stage.gone()
    stage.wait(
        lambda: "deletionTimestamp" in (stage.find("pods", name) or {"metadata": {}})["metadata"]
    )
    stage.mark("held")
    stage.patch("pods", name, {"metadata": {"finalizers": None}})


@story
def deleted_with_its_pods_later(stage: Stage) -> None:
    stage.make(completions=3, parallelism=3)
    stage.until(active=3, pods=3)
    stage.delete("jobs", stage.name, propagationPolicy="Background")
    stage.gone()
    stage.wait(lambda: not stage.all("pods"))
    stage.mark("gone")


@story
def deleted_with_its_pods_later_on_a_node(stage: Stage) -> None:
    stage.make(completions=2, parallelism=2, node=True)
    stage.until(active=2, pods=2)
    stage.delete("jobs", stage.name, propagationPolicy="Background")
    stage.gone()
    stage.wait(lambda: not stage.pods())
    stage.wait(lambda: not _tracked(stage))
    stage.mark("the pods are going")
    stage.stop()
    stage.wait(lambda: not stage.all("pods"))


@story
def deleted_after_its_pods(stage: Stage) -> None:
    stage.make(completions=2, parallelism=2)
    stage.until(active=2, pods=2)
    stage.delete("jobs", stage.name, propagationPolicy="Foreground")
    stage.gone()
    stage.mark("gone")


@story
def deleted_after_its_pods_on_a_node(stage: Stage) -> None:
    stage.make(completions=2, parallelism=2, node=True)
    stage.until(active=2, pods=2)
    stage.delete("jobs", stage.name, propagationPolicy="Foreground")
    stage.until(active=0, terminating=2)
    stage.mark("waiting for its pods")
    stage.stop()
    stage.gone()
    stage.mark("gone")


@story
def deleted_without_its_pods(stage: Stage) -> None:
    stage.make(completions=2, parallelism=2)
    stage.until(active=2, pods=2)
    stage.delete("jobs", stage.name, propagationPolicy="Orphan")
    stage.gone()
    stage.wait(lambda: not _tracked(stage))
    stage.mark("the pods stay")


@story
def a_finished_job_is_deleted(stage: Stage) -> None:
    stage.make()
    stage.until(active=1, pods=1)
    stage.succeed(*stage.active())
    stage.until("Complete")
    stage.delete("jobs", stage.name, propagationPolicy="Background")
    stage.gone()
    stage.wait(lambda: not stage.all("pods"))
    stage.mark("gone")


@story
def deleted_and_made_again(stage: Stage) -> None:
    stage.make(backoffLimit=1)
    stage.until(active=1, pods=1)
    stage.fail(*stage.active())
    stage.until(active=1, failed=1, pods=2)
    stage.delete("jobs", stage.name, propagationPolicy="Orphan")
    stage.gone()
    stage.make(backoffLimit=1)
    stage.until(active=1, pods=3)
    stage.mark("a new life")


def _tracked(stage: Stage) -> list[Obj]:
    return [p for p in stage.all("pods") if TRACKING in p["metadata"].get("finalizers", ())]


def _quota(stage: Stage, pods: int) -> None:
    spec = {"hard": {"pods": str(pods)}}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": spec}
    stage.create("resourcequotas", body)
    stage.wait(
        lambda: (stage.find("resourcequotas", "few") or {}).get("status", {}).get("hard"), "quota"
    )


@story
def a_quota_forbids_pods(stage: Stage) -> None:
    _quota(stage, 0)
    stage.make()
    stage.wait(lambda: any("FailedCreate" in line for line in stage.events()["Job"]))
    stage.mark("none")
    stage.patch("resourcequotas", "few", {"spec": {"hard": {"pods": "5"}}})
    stage.until(active=1, pods=1)
    stage.mark("allowed at last")


@story
def a_quota_allows_some_pods(stage: Stage) -> None:
    _quota(stage, 1)
    stage.make(completions=3, parallelism=3)
    stage.until(active=1, pods=1)
    stage.wait(lambda: any("FailedCreate" in line for line in stage.events()["Job"]))
    stage.mark("one")
