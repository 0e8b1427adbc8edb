"""Removes, every few seconds, the pods that nobody else will remove.

A pod is marked as failed before it is removed by force, so that its owner counts it. A node counts
as gone when nobody has seen it for the quarantine and the server says that there is none. What
fails is tried again with the next round.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from corral.cluster.workloads.nodehealth.index import POD_NODE_INDEX, index_by_node
from corral.cluster.workloads.nodehealth.writes import Writes, at_most
from corral.cluster.workloads.podgc.plan import (
    ENDED,
    LEAVING,
    LEAVING_UNBOUND,
    Quarantine,
    classes,
    excess,
    failed_patch,
    is_out_of_service,
)
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.errors import ApiError, NotFound
from corral.kube.resources import NODES, PODS
from corral.kube.types import Obj
from corral.runtime import Informer, Manager, format_time

__all__ = ["Settings", "register"]

logger = logging.getLogger(__name__)

INDEX: Final = "podgc"
CONCURRENCY: Final = 16


@dataclass(frozen=True, slots=True)
class Settings:
    """Seconds, unless it says otherwise."""

    period: float = 20.0
    quarantine: float = 40.0
    """How long a node must be missing before its pods go."""
    threshold: int = 12500
    """Ended pods that are kept; 0 keeps all."""


class PodCollector:
    """The loop."""

    def __init__(
        self,
        client: KubeClient,
        *,
        pods: Informer,
        nodes: Informer,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._writes = Writes(client, field_manager="pod-garbage-collector")
        self._pods, self._nodes = pods, nodes
        self._settings = settings
        self._clock, self._wall = clock, wall
        self._quarantine = Quarantine(settings.quarantine)

    async def run(self) -> None:
        """Collect until cancelled."""
        while True:
            try:
                await self.collect()
            except (ApiError, KubeConnectionError) as error:
                logger.warning("pod collector: a round was not finished: %s", error)
            await asyncio.sleep(self._settings.period)

    async def collect(self) -> None:
        """One round. Raises ApiError or KubeConnectionError after everything was tried."""
        pods = self._pods.store
        ended = pods.by_index(INDEX, ENDED)
        leaving = [
            pod
            for pod in pods.by_index(INDEX, LEAVING)
            if is_out_of_service(self._nodes.store.get(pod["spec"]["nodeName"]))
        ]
        chosen = [
            *excess(ended, self._settings.threshold),
            *leaving,
            *pods.by_index(INDEX, LEAVING_UNBOUND),
        ]
        await self._remove({pod["metadata"]["uid"]: pod for pod in chosen}.values())
        for name in await self._gone():
            await self._remove(
                pods.by_index(POD_NODE_INDEX, name),
                reason="DeletionByPodGC",
                message="PodGC: node no longer exists",
            )

    async def _gone(self) -> list[str]:
        """The nodes that pods are bound to and that do not exist."""
        named = self._pods.store.index_values(POD_NODE_INDEX)
        missing = [name for name in named if name not in self._nodes.store]
        found = []
        for name in self._quarantine.missing(missing, self._clock()):
            try:
                await self._client.get(NODES, name)
            except NotFound:
                found.append(name)
        return found

    async def _remove(self, pods: Iterable[Obj], *, reason: str = "", message: str = "") -> None:
        works = [partial(self._remove_one, pod, reason, message=message) for pod in pods]
        await at_most(CONCURRENCY, works)

    async def _remove_one(self, pod: Obj, reason: str, *, message: str) -> None:
        now = format_time(self._wall())
        patch = failed_patch(pod, now, reason=reason, message=message)
        if patch is None or await self._writes.pod_status(pod, patch):
            await self._writes.delete_pod(pod, grace_seconds=0)


def register(
    manager: Manager,
    *,
    settings: Settings | None = None,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> None:
    """Add the pod collector to a manager."""
    pods, nodes = manager.informer(PODS), manager.informer(NODES)
    pods.add_index(POD_NODE_INDEX, index_by_node)
    pods.add_index(INDEX, classes)
    collector = PodCollector(
        manager.client,
        pods=pods,
        nodes=nodes,
        settings=settings or Settings(),
        clock=clock,
        wall=wall,
    )
    manager.add_task("pod-collector", collector.run)
