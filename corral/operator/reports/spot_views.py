"""What the report endpoint knows of spot jobs, their copies and machines.

Answers come out of the informers that controllers use as well; what is not there yet is asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from corral.api.spot.kinds import JOB_LABEL, SPOTINSTANCEJOBS
from corral.kube.errors import NotFound
from corral.kube.resources import JOBS, NODES, PODS
from corral.kube.types import Obj
from corral.runtime.keys import join_key, uid_of
from corral.runtime.manager import Manager

__all__ = ["CachedSpotViews", "SpotViews"]


class SpotViews(Protocol):
    """Reading; the objects are shared, copy before a change."""

    async def job(self, namespace: str, name: str, *, fresh: bool = False) -> Obj | None: ...

    async def pod(self, namespace: str, name: str, uid: str) -> Obj | None: ...

    async def owner(self, namespace: str, name: str) -> Obj | None:
        """The batch/v1 Job of that name."""
        ...

    def node(self, name: str) -> Obj | None:
        """As far as it is known."""
        ...


class CachedSpotViews:
    """Looks into a manager's informers first; what is not there yet is asked for."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._jobs = manager.informer(SPOTINSTANCEJOBS)
        self._pods = manager.informer(PODS, label_selector=JOB_LABEL)
        self._nodes = manager.informer(NODES)

    async def job(self, namespace: str, name: str, *, fresh: bool = False) -> Obj | None:
        found = None if fresh else self._jobs.store.get(join_key(namespace, name))
        return found or await _got(self._client.get(SPOTINSTANCEJOBS, name, namespace=namespace))

    async def pod(self, namespace: str, name: str, uid: str) -> Obj | None:
        found = self._pods.store.get(join_key(namespace, name))
        if found is None or uid_of(found) != uid:
            found = await _got(self._client.get(PODS, name, namespace=namespace))
        return found if found is not None and uid_of(found) == uid else None

    async def owner(self, namespace: str, name: str) -> Obj | None:
        return await _got(self._client.get(JOBS, name, namespace=namespace))

    def node(self, name: str) -> Obj | None:
        return self._nodes.store.get(name)


async def _got(question: Awaitable[Obj]) -> Obj | None:
    try:
        return await question
    except NotFound:
        return None
