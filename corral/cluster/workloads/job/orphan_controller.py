"""Frees pods that no pass over a job will free: the job is gone, finished or no longer theirs.

A job that is not in the cache is looked up before its pods are freed, for the cache may be older
than the pods: a pod that lost its finalizer too early would never be counted.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from corral.cluster.workloads.job.driver import FIELD_MANAGER
from corral.cluster.workloads.job.orphans import FREE_POD, is_abandoned
from corral.cluster.workloads.job.selection import JobPods
from corral.cluster.workloads.job.state import finished_condition, has_finalizer
from corral.cluster.workloads.pods import controller_of, uid
from corral.kube.errors import NotFound
from corral.kube.resources import JOBS, PODS
from corral.kube.types import Obj
from corral.runtime import (
    LOW_PRIORITY,
    Change,
    ExponentialLimiter,
    Manager,
    Result,
    join_key,
    key_of,
    uid_of,
)

__all__ = ["OrphanController"]

_WORKERS: Final = 10
_REMEMBERED: Final = 4096


class OrphanController:
    """Takes the tracking finalizer off abandoned pods."""

    def __init__(self, manager: Manager, pods: JobPods) -> None:
        self._client = manager.client
        self._index = pods
        jobs, pod_informer = manager.informer(JOBS), manager.informer(PODS)
        self._jobs, self._pods = jobs.store, pod_informer.store
        # Uids of jobs that are known to be gone; the oldest are forgotten first.
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._controller = manager.controller(
            "job-orphan-pods",
            self.reconcile,
            workers=_WORKERS,
            timeout=60,
            limiter=ExponentialLimiter(1.0, 60.0),
        )
        self._controller.informers += [jobs, pod_informer]
        pod_informer.add_handler(self._pod_changed)
        jobs.add_handler(self._job_changed)

    def _pod_changed(self, change: Change) -> None:
        pod = change.new
        if pod is not None and is_abandoned(pod, self._find):
            priority = LOW_PRIORITY if change.is_initial else 0
            self._controller.queue.add(key_of(pod), priority)

    def _job_changed(self, change: Change) -> None:
        if change.type == "deleted":
            self._remember_gone(uid_of(change.object))
        elif finished_condition(change.object) is None:
            return
        for pod in self._index.controlled(change.object):
            if has_finalizer(pod):
                self._controller.queue.add(key_of(pod))

    async def reconcile(self, key: str) -> Result | None:
        """Free one pod, if that is still due."""
        pod = self._pods.get(key)
        if pod is None or not is_abandoned(pod, self._find) or await self._has_job(pod):
            return None
        meta = pod["metadata"]
        try:
            await self._client.patch(
                PODS,
                meta["name"],
                namespace=meta["namespace"],
                patch=FREE_POD,
                kind="strategic",
                field_manager=FIELD_MANAGER,
            )
        except NotFound:
            return None
        return None

    async def _has_job(self, pod: Obj) -> bool:
        """The server has the job that controls the pod although the cache does not."""
        reference = controller_of(pod)
        if reference is None:
            return False
        owner = str(reference.get("uid", ""))
        if owner in self._gone or self._index.owner(pod) is not None:
            return False
        try:
            job = await self._client.get(
                JOBS, reference["name"], namespace=pod["metadata"]["namespace"]
            )
        except NotFound:
            job = None
        if job is not None and uid(job) == owner:
            return True
        self._remember_gone(owner)
        return False

    def _find(self, namespace: str, name: str) -> Obj | None:
        return self._jobs.get(join_key(namespace, name))

    def _remember_gone(self, job_uid: str) -> None:
        self._gone[job_uid] = None
        if len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)
