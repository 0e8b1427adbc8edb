"""The job controller against a server in memory: lagging caches, refusals, death at any write."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from corral.cluster.workloads.job import controller, ttl_controller
from corral.cluster.workloads.job.controller import JobSettings
from corral.kube import errors
from corral.kube.client import KubeConnectionError
from corral.kube.resources import JOBS, PODS
from corral.kube.types import Obj
from corral.runtime import Result
from tests.unit.cluster.workloads.batch_world import NOW, World, stamp

FINALIZER = "batch.kubernetes.io/job-tracking"
LABELS = {"job": "train"}


class Killed(BaseException):
    """The process dies here."""


class Jobs:
    """The controllers in a world, and a job in it."""

    def __init__(self, **spec: Any) -> None:
        self.world = World()
        self.now: datetime = NOW
        template = {"metadata": {"labels": LABELS}, "spec": {"restartPolicy": "Never"}}
        full = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "template": template}
        full |= {"selector": {"matchLabels": LABELS}, **spec}
        meta = {"name": "train", "generation": 1}
        self.world.put(JOBS, {"metadata": meta, "spec": full, "status": {}})
        self.start()

    def start(self) -> None:
        """A new process."""
        self.world.restart()
        manager = self.world.manager
        settings = JobSettings(workers=1)
        controller.register(manager, settings=settings, now=lambda: self.now, clock=lambda: 0.0)
        ttl_controller.register(manager, now=lambda: self.now)

    async def reconcile(self, name: str = "job", key: str = "ns/train") -> Result | None:
        return await self.world.manager.made[name]._reconciler(key)

    async def settle(self) -> None:
        """Deliver and pass until nothing is written any more."""
        for _ in range(50):
            before = len(self.world.writes)
            self.world.deliver()
            await self.reconcile()
            if len(self.world.writes) == before:
                return
        raise AssertionError("never at rest")

    @property
    def job(self) -> Obj:
        return self.world.find(JOBS, "train")

    @property
    def status(self) -> Obj:
        status: Obj = self.job["status"]
        return status

    @property
    def pods(self) -> list[Obj]:
        return self.world.stored(PODS)

    def end(self, phase: str = "Succeeded") -> None:
        for pod in self.pods:
            if pod["status"]["phase"] == "Pending":
                self.world.put(PODS, {**pod, "status": {"phase": phase}})

    def counts(self) -> tuple[int, int, int]:
        status = self.status
        return tuple(status.get(k, 0) for k in ("active", "succeeded", "failed"))  # type: ignore[return-value]

    def finished(self) -> bool:
        return any(c["type"] in ("Complete", "Failed") for c in self.status.get("conditions", ()))


async def test_a_whole_life() -> None:
    jobs = Jobs(completions=5, parallelism=2)
    await jobs.settle()
    assert jobs.counts() == (2, 0, 0)
    while not jobs.finished():
        jobs.end()
        await jobs.settle()
    assert jobs.counts() == (0, 5, 0) and len(jobs.pods) == 5
    assert not [pod for pod in jobs.pods if pod["metadata"]["finalizers"]]
    assert jobs.world.said[-1] == "Completed: Job completed"


async def test_nothing_is_decided_on_a_cache_without_our_writes() -> None:
    jobs = Jobs(completions=3, parallelism=3)
    jobs.world.deliver()
    await jobs.reconcile()
    assert len(jobs.pods) == 3
    for plural in ("jobs", "pods"):
        result = await jobs.reconcile()
        assert result is not None and result.requeue_after > 0
        jobs.world.deliver(plural)
    await jobs.reconcile()
    assert len(jobs.pods) == 3


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_at_every_write(indexed: bool, when: str) -> None:
    spec: Any = {"completions": 6, "parallelism": 3}
    spec |= {"completionMode": "Indexed"} if indexed else {}
    at = 0
    while await _life(spec, when, at):
        at += 1
    assert at > 15


async def _life(spec: Any, when: str, at: int) -> bool:
    """One life in which write number ``at`` is the last of a process; whether it came so far."""
    jobs = Jobs(**spec)
    countdown = at

    def die(what: str, obj: Obj) -> None:
        nonlocal countdown
        countdown -= 1
        if countdown == -1:
            raise Killed

    setattr(jobs.world, when, die)
    for _ in range(60):
        try:
            await jobs.settle()
        except BaseException as error:
            assert _is_killed(error), error
            jobs.start()
        jobs.end()
        if jobs.finished():
            break
    assert jobs.counts() == (0, 6, 0), at
    assert len(jobs.pods) == 6
    assert jobs.status.get("completedIndexes") == ("0-5" if "completionMode" in spec else None)
    return countdown < 0


def _is_killed(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_killed, error.exceptions))
    return isinstance(error, Killed)


async def test_refused_creations_stop_at_the_first() -> None:
    jobs = Jobs(completions=8, parallelism=8)
    tried = []

    def refuse(what: str, obj: Obj) -> None:
        if what == "create pods":
            tried.append(obj)
            if len(tried) > 3:
                raise errors.Forbidden("exceeded quota")

    jobs.world.before = refuse
    jobs.world.deliver()
    with pytest.raises(errors.Forbidden):
        await jobs.reconcile()
    assert len(tried) == 7 and jobs.counts() == (3, 0, 0)  # 1 + 2 made, 4 refused, 1 not tried
    assert jobs.world.said.count("FailedCreate: Error creating: exceeded quota") == 4


async def test_a_namespace_that_is_going_is_no_problem() -> None:
    jobs = Jobs()
    causes = [{"reason": "NamespaceTerminating"}]

    def refuse(what: str, obj: Obj) -> None:
        if what == "create pods":
            raise errors.Forbidden("terminating", details={"causes": causes})

    jobs.world.before = refuse
    jobs.world.deliver()
    assert await jobs.reconcile() is None
    assert jobs.world.said == []


async def test_a_pod_kept_for_its_replacement_does_not_keep_the_namespace() -> None:
    jobs = Jobs(completionMode="Indexed", backoffLimitPerIndex=1)
    await jobs.settle()
    (pod,) = jobs.pods
    going = {**pod["metadata"], "deletionTimestamp": stamp()}
    jobs.world.put(PODS, {**pod, "metadata": going, "status": {"phase": "Failed"}})
    await jobs.settle()
    assert jobs.pods  # its failure is to be carried on
    jobs.now += timedelta(seconds=60)
    causes = [{"reason": "NamespaceTerminating"}]

    def refuse(what: str, obj: Obj) -> None:
        if what == "create pods":
            raise errors.Forbidden("terminating", details={"causes": causes})

    jobs.world.before = refuse
    await jobs.reconcile()
    assert jobs.pods == []


async def test_a_creation_without_an_answer_is_looked_up() -> None:
    jobs = Jobs()

    def lose(what: str, obj: Obj) -> None:
        if what == "create pods":
            raise KubeConnectionError("no answer")

    jobs.world.after = lose
    jobs.world.deliver()
    with pytest.raises(KubeConnectionError):
        await jobs.reconcile()
    jobs.world.after = lambda what, obj: None
    jobs.world.deliver("jobs")
    waiting = await jobs.reconcile()
    assert waiting is not None and waiting.requeue_after > 0 and len(jobs.pods) == 1
    await jobs.settle()
    assert len(jobs.pods) == 1 and jobs.counts() == (1, 0, 0)


async def test_a_conflict_ends_the_pass() -> None:
    jobs = Jobs()
    jobs.world.deliver()
    changed = {**jobs.job, "spec": {**jobs.job["spec"], "parallelism": 1}}
    jobs.world.put(JOBS, changed)
    with pytest.raises(errors.Conflict):
        await jobs.reconcile()
    await jobs.settle()
    assert len(jobs.pods) == 1 and jobs.counts() == (1, 0, 0)


async def test_a_vanished_pod_is_not_counted_twice() -> None:
    """Somebody took the finalizer off and the pod is gone, but the cache does not know."""
    jobs = Jobs(completions=2)
    await jobs.settle()
    jobs.end()
    jobs.world.deliver()
    (pod,) = jobs.pods
    meta = {**pod["metadata"], "finalizers": [], "deletionTimestamp": stamp()}
    jobs.world.put(PODS, {**pod, "metadata": meta})
    await jobs.reconcile()
    jobs.world.deliver("jobs")
    await jobs.reconcile()
    assert jobs.counts()[1] == 1
    await jobs.settle()
    assert jobs.counts() == (1, 1, 0)


async def test_adoption_asks_the_server_first() -> None:
    jobs = Jobs()
    orphan = {"metadata": {"name": "found", "labels": LABELS}, "status": {"phase": "Pending"}}
    jobs.world.put(PODS, orphan)
    jobs.world.put(PODS, {**orphan, "metadata": {"name": "stranger", "labels": {"job": "other"}}})
    await jobs.settle()
    found = jobs.world.find(PODS, "found")["metadata"]
    assert found["finalizers"] == [FINALIZER] and found["ownerReferences"][0]["name"] == "train"
    assert len(jobs.pods) == 2 and jobs.counts() == (1, 0, 0)
    assert "jobs/train" in jobs.world.reads


async def test_a_job_that_is_going_adopts_nothing() -> None:
    jobs = Jobs()
    jobs.world.put(PODS, {"metadata": {"name": "found", "labels": LABELS}, "status": {}})
    jobs.world.deliver()
    going = {**jobs.job["metadata"], "deletionTimestamp": stamp(), "finalizers": ["foreground"]}
    jobs.world.put(JOBS, {**jobs.job, "metadata": going})
    with pytest.raises(errors.Conflict):
        await jobs.reconcile()
    assert "ownerReferences" not in jobs.world.find(PODS, "found")["metadata"]


async def test_pods_that_no_longer_match_are_let_go() -> None:
    jobs = Jobs()
    await jobs.settle()
    (pod,) = jobs.pods
    jobs.world.put(PODS, {**pod, "metadata": {**pod["metadata"], "labels": {"job": "other"}}})
    await jobs.settle()
    released = jobs.world.find(PODS, pod["metadata"]["name"])["metadata"]
    assert released["finalizers"] == [] and released["ownerReferences"] == []
    assert len(jobs.pods) == 2


async def test_changes_of_pods_are_gathered() -> None:
    jobs = Jobs(completions=3, parallelism=3)
    jobs.world.deliver()
    queue = jobs.world.manager.made["job"].queue
    while queue.pop() is not None:
        queue.done("ns/train")
    await jobs.reconcile()
    jobs.world.deliver()
    assert queue.next_delay() == pytest.approx(1.0, abs=0.1)
    assert len(queue) == 0
    jobs.world.put(JOBS, {**jobs.job, "metadata": {**jobs.job["metadata"], "generation": 2}})
    jobs.world.deliver()
    assert len(queue) == 1  # a change of the spec is not held back


async def test_what_does_not_matter_wakes_nobody() -> None:
    jobs = Jobs()
    await jobs.settle()
    jobs.start()
    queue = jobs.world.manager.made["job"].queue
    queue.pop()
    queue.done("ns/train")
    (pod,) = jobs.pods
    status = {"phase": "Pending", "podIP": "10.0.0.1"}
    jobs.world.put(PODS, {**pod, "status": status})
    jobs.world.deliver()
    assert queue.next_delay() is None
    jobs.world.put(PODS, {**pod, "status": {"phase": "Running"}})
    jobs.world.deliver()
    assert queue.next_delay() == pytest.approx(0.05, abs=0.05)


# --- pods that no job frees ----------------------------------------------------------------------


async def _free(jobs: Jobs) -> list[str]:
    """Let the orphan controller work off its queue; which pods it freed."""
    queue = jobs.world.manager.made["job-orphan-pods"].queue
    freed = []
    while (key := queue.pop()) is not None:
        await jobs.reconcile("job-orphan-pods", key)
        queue.done(key)
        freed.append(key)
    return freed


async def test_pods_of_a_job_that_is_gone_are_freed() -> None:
    jobs = Jobs(completions=2, parallelism=2)
    await jobs.settle()
    jobs.world.put(
        JOBS, {**jobs.job, "metadata": {**jobs.job["metadata"], "deletionTimestamp": stamp()}}
    )
    jobs.world.reads.clear()
    jobs.world.deliver()
    assert len(await _free(jobs)) == 2
    assert not [pod for pod in jobs.pods if pod["metadata"]["finalizers"]]
    assert jobs.world.reads == []  # the deletion was seen


async def test_pods_of_a_job_the_cache_does_not_know_yet_are_kept() -> None:
    jobs = Jobs()
    await jobs.settle()
    stored = jobs.world.objects.pop(("jobs", "ns/train"))
    jobs.start()
    jobs.world.objects["jobs", "ns/train"] = stored  # the list of jobs was older than that of pods
    await _free(jobs)
    assert jobs.pods[0]["metadata"]["finalizers"] == [FINALIZER]
    del jobs.world.objects["jobs", "ns/train"]
    jobs.start()
    await _free(jobs)
    assert jobs.pods[0]["metadata"]["finalizers"] == []


async def test_pods_of_a_finished_job_are_freed() -> None:
    jobs = Jobs()
    await jobs.settle()
    done = {"conditions": [{"type": "Failed", "status": "True"}]}
    jobs.world.put(JOBS, {**jobs.job, "status": done})
    jobs.world.deliver()
    assert len(await _free(jobs)) == 1


# --- time to live --------------------------------------------------------------------------------


async def test_time_to_live() -> None:
    jobs = Jobs(ttlSecondsAfterFinished=10)
    jobs.world.deliver()
    assert await jobs.reconcile("ttl-after-finished") is None
    done = {"type": "Complete", "status": "True", "lastTransitionTime": stamp()}
    jobs.world.put(JOBS, {**jobs.job, "status": {"conditions": [done]}})
    jobs.world.deliver()
    assert await jobs.reconcile("ttl-after-finished") == Result(requeue_after=10.0)
    jobs.now += timedelta(seconds=10)
    longer = {**jobs.job, "spec": {**jobs.job["spec"], "ttlSecondsAfterFinished": 30}}
    jobs.world.put(JOBS, longer)
    assert await jobs.reconcile("ttl-after-finished") == Result(requeue_after=20.0)
    jobs.now += timedelta(seconds=20)
    await jobs.reconcile("ttl-after-finished")
    assert jobs.world.writes == ["delete jobs Foreground"]
    assert await jobs.reconcile("ttl-after-finished") is None  # gone meanwhile
