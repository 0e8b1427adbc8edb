"""Binding pods to the nodes that were chosen for them.

Many bindings are under way at the same time. A pod whose claims wait for a node is bound when they
have their volumes; that may take minutes, and holds nobody else up. The API server binds a pod
only once, so an answer that was lost does no harm: the next attempt is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from corral.cluster.scheduler.claims import ClaimBinder, ClaimError
from corral.cluster.scheduler.placement import PodInfo, VolumePlan
from corral.cluster.scheduler.statuses import PodStatuses
from corral.cluster.scheduler.workers import Workers
from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError, NotFound
from corral.kube.resources import PODS
from corral.runtime import EventRecorder

__all__ = ["Binder"]

logger = logging.getLogger(__name__)


class Binder:
    """Writes bindings; ``finished`` hears of every one: the pod, its node, and what went wrong."""

    def __init__(
        self,
        client: KubeClient,
        recorder: EventRecorder,
        workers: Workers,
        *,
        statuses: PodStatuses,
        claims: ClaimBinder,
        finished: Callable[[PodInfo, str, Exception | None], None],
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._workers = workers
        self._statuses = statuses
        self._claims = claims
        self._finished = finished
        self._waiting: set[asyncio.Task[None]] = set()
        """Pods whose claims have no volumes yet."""

    def bind(self, pod: PodInfo, node: str, plan: VolumePlan) -> None:
        """Begin to bind a pod; returns at once."""
        if not plan:
            self._workers.submit(lambda: self._bind(pod, node))
            return
        task = asyncio.create_task(self._bind_claims(pod, node, plan), name=f"claims {pod.key}")
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def close(self) -> None:
        """Give up on what is waiting for claims."""
        tasks = list(self._waiting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _bind_claims(self, pod: PodInfo, node: str, plan: VolumePlan) -> None:
        try:
            await self._claims.bind(pod, node, plan)
        except (ApiError, KubeConnectionError, ClaimError) as error:
            self._finished(pod, node, error)
            return
        self._workers.submit(lambda: self._bind(pod, node))

    async def _bind(self, pod: PodInfo, node: str) -> None:
        await self._statuses.settle(pod.key)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.key},
            "target": {"kind": "Node", "name": node},
        }
        try:
            await self._client.create_subresource(
                PODS, pod.name, namespace=pod.namespace, subresource="binding", body=body
            )
        except (ApiError, KubeConnectionError) as error:
            level = logging.DEBUG if isinstance(error, NotFound) else logging.WARNING
            logger.log(level, "pod %s was not bound to %s: %s", pod.full_name, node, error)
            self._finished(pod, node, error)
            return
        self._finished(pod, node, None)
        message = f"Successfully assigned {pod.full_name} to {node}"
        self._recorder.normal(pod.pod, "Scheduled", message)
