"""Evicting the pods that others have to make room for.

A pod is told why (its DisruptionTarget condition) before it is deleted. Those for whom room is
made stay out of the queue until every victim is seen leaving: an attempt in between would not know
of the evictions yet, and choose more victims.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from corral.cluster.scheduler.placement import PodInfo
from corral.cluster.scheduler.statuses import condition_patch
from corral.cluster.scheduler.workers import Workers
from corral.kube.client import KubeClient
from corral.kube.errors import Conflict, NotFound
from corral.kube.resources import PODS
from corral.kube.types import Obj
from corral.runtime import EventRecorder, format_time, has_condition

__all__ = ["Evictions", "Preemptor"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Preemptor:
    """For whom room is made."""

    kind: str
    """``pod`` or ``podgroup``."""
    uid: str
    done: Callable[[bool], None]
    """Called once: with whether all victims are on their way out."""


class _Round:
    """The victims of one preemptor that have not been seen leaving."""

    def __init__(self, preemptor: Preemptor, waiting: set[str]) -> None:
        self.preemptor = preemptor
        self.waiting = waiting
        self.over = False

    def end(self, success: bool) -> None:
        if not self.over:
            self.over = True
            self.preemptor.done(success)


class Evictions:
    """Evicts victims and watches them go."""

    def __init__(
        self,
        client: KubeClient,
        recorder: EventRecorder,
        workers: Workers,
        *,
        scheduler_name: str,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._workers = workers
        self._name = scheduler_name
        self._wall = wall
        self._rounds: dict[str, list[_Round]] = {}
        """By the keys of the victims."""

    def evict(self, preemptor: Preemptor, victims: Sequence[tuple[PodInfo, str]]) -> None:
        """Evict pods, each from its node; the preemptor is told when they are leaving."""
        staying = [(pod, node) for pod, node in victims if not pod.deleting]
        current = _Round(preemptor, {pod.key for pod, _ in staying})
        if not staying:
            current.end(success=True)
            return
        for pod, _ in staying:
            self._rounds.setdefault(pod.key, []).append(current)
        self._workers.submit(lambda: self._evict_all(current, staying))

    def leaving(self, key: str) -> None:
        """A pod is being deleted, or is gone."""
        for current in self._rounds.pop(key, ()):
            current.waiting.discard(key)
            if not current.waiting:
                current.end(success=True)

    async def _evict_all(self, current: _Round, victims: Sequence[tuple[PodInfo, str]]) -> None:
        jobs = (self._evict(current.preemptor, pod, node) for pod, node in victims)
        results = await asyncio.gather(*jobs, return_exceptions=True)
        failed = [result for result in results if isinstance(result, BaseException)]
        if failed:
            logger.warning("a pod could not be evicted: %s", failed[0])
            for pod, _ in victims:
                self._rounds.pop(pod.key, None)
            current.end(success=False)

    async def _evict(self, preemptor: Preemptor, pod: PodInfo, node: str) -> None:
        try:
            await self._warn(preemptor, pod)
            await self._client.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.key)
        except (NotFound, Conflict):
            self.leaving(pod.key)  # gone before we came
            return
        message = f"Preempted by {preemptor.kind} {preemptor.uid} on node {node}"
        self._recorder.normal(pod.pod, "Preempted", message)

    async def _warn(self, preemptor: Preemptor, pod: PodInfo) -> None:
        """Say in the pod's status why it is about to go."""
        conditions = (pod.pod.get("status") or {}).get("conditions")
        if has_condition(conditions, "DisruptionTarget", status="True"):
            return
        what = f"preempting to accommodate a higher priority {preemptor.kind}"
        patch: Obj = condition_patch(
            pod.pod,
            type="DisruptionTarget",
            status="True",
            reason="PreemptionByScheduler",
            message=f"{self._name}: {what}",
            now=format_time(self._wall()),
        )
        await self._client.patch(
            PODS,
            pod.name,
            namespace=pod.namespace,
            patch=patch,
            kind="strategic",
            subresource="status",
        )
