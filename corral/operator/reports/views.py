"""What the report endpoint knows of jobs, pods and Checkpoints.

Answers come out of the informers that controllers use as well; what is not there yet is asked for,
because a pod may speak before the watch has told of it. Decisions that must not rest on an old
copy (fencing) read the job afresh.
"""

from __future__ import annotations

from typing import Protocol

from corral.api.training.kinds import CHECKPOINTS, JOB_LABEL, TRAININGJOBS
from corral.families.trainingjob.checkpoints.summaries import JOB_INDEX, index_by_job
from corral.families.trainingjob.names import selector_of
from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import PODS, Resource
from corral.kube.types import Obj
from corral.runtime.informers.informer import Informer
from corral.runtime.keys import join_key
from corral.runtime.manager import Manager

__all__ = ["CachedViews", "LiveViews", "Views"]


class Views(Protocol):
    """Reading; the objects are shared, copy before a change."""

    async def job(self, namespace: str, name: str, *, fresh: bool = False) -> Obj | None: ...

    async def pod(self, namespace: str, name: str, uid: str) -> Obj | None:
        """The pod with this UID."""
        ...

    async def checkpoints(self, namespace: str, job: str) -> list[Obj]:
        """All of a job of that name."""
        ...

    async def checkpoint(self, namespace: str, name: str) -> Obj | None: ...


class LiveViews:
    """Asks the API server every time."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def job(self, namespace: str, name: str, *, fresh: bool = False) -> Obj | None:
        return await self._get(TRAININGJOBS, namespace, name)

    async def pod(self, namespace: str, name: str, uid: str) -> Obj | None:
        found = await self._get(PODS, namespace, name)
        return found if found is not None and found["metadata"]["uid"] == uid else None

    async def checkpoints(self, namespace: str, job: str) -> list[Obj]:
        found = await self._client.list_all(CHECKPOINTS, namespace, label_selector=selector_of(job))
        return list(found["items"])

    async def checkpoint(self, namespace: str, name: str) -> Obj | None:
        return await self._get(CHECKPOINTS, namespace, name)

    async def _get(self, resource: Resource, namespace: str, name: str) -> Obj | None:
        try:
            return await self._client.get(resource, name, namespace=namespace)
        except NotFound:
            return None


class CachedViews:
    """Looks into a manager's informers first."""

    def __init__(self, manager: Manager) -> None:
        self._live = LiveViews(manager.client)
        self._jobs = manager.informer(TRAININGJOBS)
        self._pods = manager.informer(PODS, label_selector=JOB_LABEL)
        self._checkpoints = manager.informer(CHECKPOINTS)
        self._checkpoints.add_index(JOB_INDEX, index_by_job)

    async def job(self, namespace: str, name: str, *, fresh: bool = False) -> Obj | None:
        found = None if fresh else _cached(self._jobs, namespace, name)
        return found or await self._live.job(namespace, name)

    async def pod(self, namespace: str, name: str, uid: str) -> Obj | None:
        found = _cached(self._pods, namespace, name)
        if found is not None and found["metadata"]["uid"] == uid:
            return found
        return await self._live.pod(namespace, name, uid)

    async def checkpoints(self, namespace: str, job: str) -> list[Obj]:
        if not self._checkpoints.synced:
            return await self._live.checkpoints(namespace, job)
        return self._checkpoints.store.by_index(JOB_INDEX, join_key(namespace, job))

    async def checkpoint(self, namespace: str, name: str) -> Obj | None:
        found = _cached(self._checkpoints, namespace, name)
        return found or await self._live.checkpoint(namespace, name)


def _cached(informer: Informer, namespace: str, name: str) -> Obj | None:
    return informer.store.get(join_key(namespace, name))
