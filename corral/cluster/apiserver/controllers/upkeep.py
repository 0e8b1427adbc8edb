"""Small duties: events end after an hour, aggregated cluster roles follow their parts."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from corral.cluster.apiserver.auth.rbac import aggregate
from corral.cluster.apiserver.controllers.access import Access
from corral.cluster.apiserver.controllers.queue import KeyedQueue
from corral.cluster.apiserver.store import Event, StoreError
from corral.kube import errors
from corral.kube.types import Obj

log = logging.getLogger(__name__)

EVENTS = "/events"
EVENT_LIFE = timedelta(hours=1)
SWEEP_EVERY = 60.0
CLUSTER_ROLES = "rbac.authorization.k8s.io/clusterroles"


class EventSweeper:
    """Deletes events that nobody touched for an hour."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="event-sweeper")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self.sweep(datetime.now(UTC))
            await asyncio.sleep(SWEEP_EVERY)

    async def sweep(self, now: datetime) -> None:
        for entry in list(self._access.store.scan(EVENTS)):
            if last_touched(entry.decode()) + EVENT_LIFE < now:
                try:
                    await self._access.delete(EVENTS, entry.namespace, entry.name, {})
                except (errors.ApiError, StoreError) as err:
                    log.debug("event %s stays for now: %s", entry.key, err)


def last_touched(event: Obj) -> datetime:
    """The newest of an event's times."""
    series = event.get("series") or {}
    times = [
        event["metadata"]["creationTimestamp"],
        event.get("lastTimestamp"),
        event.get("eventTime"),
        series.get("lastObservedTime"),
    ]
    return max(datetime.fromisoformat(t) for t in times if t)


class RoleAggregator:
    """Keeps the rules of cluster roles that are made of others."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._store = access.store
        self._queue: KeyedQueue[str] = KeyedQueue("role-aggregation", self._sync)

    def start(self) -> None:
        self._add_all()
        self._store.listen(self._on_event)
        self._queue.start()

    async def stop(self) -> None:
        await self._queue.stop()

    def _on_event(self, event: Event) -> None:
        if event.entry.resource == CLUSTER_ROLES:
            self._add_all()

    def _add_all(self) -> None:
        for entry in self._store.scan(CLUSTER_ROLES):
            if b'"aggregationRule"' in entry.value:
                self._queue.add(entry.name)

    async def _sync(self, name: str) -> None:
        entry = self._store.get(CLUSTER_ROLES, name)
        if entry is None:
            return
        role = entry.decode()
        if not role.get("aggregationRule"):
            return
        roles = [e.decode() for e in self._store.scan(CLUSTER_ROLES)]
        rules = aggregate(role, roles)
        if rules == (role.get("rules") or []):
            return

        def change(live: Obj) -> Obj:
            live["rules"] = rules
            return live

        try:
            await self._access.update(CLUSTER_ROLES, "", name, change=change)
        except errors.NotFound:
            return
