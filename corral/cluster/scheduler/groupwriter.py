"""Keeps the status of PodGroups true, and says in events what keeps a group waiting.

Written once per change, and only where the API server's version differs. A group that waits for
longer than its ``scheduleTimeoutSeconds`` is reported; its pods hold nothing while they wait, so
there is nothing to give back.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import datetime

from corral.cluster.scheduler.gangs import Gang, Gangs
from corral.cluster.scheduler.groupstatus import group_status, tally
from corral.cluster.scheduler.groupwatch import resource_of
from corral.cluster.scheduler.placement import GroupKey
from corral.cluster.scheduler.statuses import shortened
from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.types import Obj
from corral.runtime import EventRecorder, Result, format_time

__all__ = ["GroupWriter", "joined", "parted"]


def joined(key: GroupKey) -> str:
    """A group's key for a work queue."""
    return "/".join(key)


def parted(key: str) -> GroupKey:
    """The opposite of ``joined``."""
    family, namespace, name = key.split("/")
    return (family, namespace, name)


class GroupWriter:
    """The reconciler of PodGroups' status."""

    def __init__(
        self,
        client: KubeClient,
        recorder: EventRecorder,
        gangs: Gangs,
        *,
        wall: Callable[[], float] = time.time,
        identity: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._gangs = gangs
        self._wall = wall
        self._identity = identity
        self._reported: dict[GroupKey, str] = {}
        """The last problem that an event told of."""
        self._overdue: set[str] = set()
        """Groups by uid whose time-out was reported."""

    async def reconcile(self, text: str) -> Result | None:
        """Write the status of one group."""
        key = parted(text)
        gang = self._gangs.get(key)
        if gang.obj is None or gang.spec is None:
            self._reported.pop(key, None)
            return None
        if not gang.ours:
            return None
        status = group_status(gang, now=format_time(self._wall()), transition=self._identity())
        if status != (gang.obj.get("status") or {}):
            await self._write(gang.obj, status)
            if gang.obj is None or gang.spec is None:
                return None  # it went meanwhile, and that is told on its own
        self._report(gang)
        return self._timeout(gang, status)

    async def _write(self, group: Obj, status: Obj) -> None:
        meta, resource = group["metadata"], resource_of(group)
        # Lists are replaced whole and keys that went are named: a merge patch needs both.
        old = group.get("status") or {}
        patch: Obj = {
            "metadata": {"uid": meta["uid"]},
            "status": {**dict.fromkeys(old.keys() - status.keys()), **status},
        }
        try:
            await self._client.patch(
                resource,
                meta["name"],
                namespace=meta["namespace"],
                patch=patch,
                subresource="status",
            )
        except NotFound:
            # Gone, or a definition without the subresource.
            if await self._exists(group):
                await self._client.patch(
                    resource, meta["name"], namespace=meta["namespace"], patch=patch
                )

    async def _exists(self, group: Obj) -> bool:
        meta = group["metadata"]
        try:
            await self._client.get(resource_of(group), meta["name"], namespace=meta["namespace"])
        except NotFound:
            return False
        return True

    def _report(self, gang: Gang) -> None:
        assert gang.obj is not None
        before = self._reported.get(gang.key, "")
        if gang.problem == before:
            return
        self._reported[gang.key] = gang.problem
        if gang.problem:
            self._recorder.warning(gang.obj, "Unschedulable", shortened(gang.problem))
        elif before:
            self._recorder.normal(gang.obj, "Scheduled", "pod group is ready")

    def _timeout(self, gang: Gang, status: Obj) -> Result | None:
        """Report a group that waits for too long; else come back when it would."""
        assert gang.obj is not None and gang.spec is not None
        uid, limit = gang.obj["metadata"]["uid"], gang.spec.timeout
        count = tally(gang.pods.values())
        began = status.get("scheduleStartTime")
        placed = count.placed + count.succeeded >= gang.spec.minimum
        if limit is None or began is None or placed:
            self._overdue.discard(uid)
            return None
        # Its second has begun, not ended: one more, so that nobody is reported too early.
        left = limit + 1 - (self._wall() - datetime.fromisoformat(began).timestamp())
        if left > 0:
            return Result(requeue_after=left)
        if uid not in self._overdue:
            self._overdue.add(uid)
            why = f": {gang.problem}" if gang.problem else ""
            message = f"pod group was not scheduled within {limit:g} seconds{why}"
            self._recorder.warning(gang.obj, "ScheduleTimeout", shortened(message))
        return None
