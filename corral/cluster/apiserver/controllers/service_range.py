"""The default range of service addresses is reported as ready, once it is there."""

from __future__ import annotations

from corral.cluster.apiserver.controllers.access import Access
from corral.cluster.apiserver.controllers.queue import KeyedQueue
from corral.cluster.apiserver.store import DELETED, Event
from corral.kube import errors
from corral.kube.types import Obj

TABLE = "networking.k8s.io/servicecidrs"
DEFAULT = "kubernetes"
READY = "Ready"


class ServiceRange:
    """Sets the Ready condition of the default range; what others say of it is left alone."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._store = access.store
        self._queue: KeyedQueue[str] = KeyedQueue("service-range", self._sync, workers=1)

    def start(self) -> None:
        self._store.listen(self._on_event)
        self._queue.start()
        self._queue.add(DEFAULT)

    async def stop(self) -> None:
        await self._queue.stop()

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if entry.resource == TABLE and entry.name == DEFAULT and event.type != DELETED:
            self._queue.add(DEFAULT)

    async def _sync(self, name: str) -> None:
        entry = self._store.get(TABLE, name)
        if entry is None or entry.deleting or _is_reported(entry.decode()):
            return

        def change(live: Obj) -> Obj:
            if not _is_reported(live):
                condition = {
                    "type": READY,
                    "status": "True",
                    "lastTransitionTime": self._access.verbs.registry.timestamp(),
                    "reason": "",
                    "message": "Kubernetes default Service CIDR is ready",
                }
                live.setdefault("status", {}).setdefault("conditions", []).append(condition)
            return live

        try:
            await self._access.update(TABLE, "", name, change=change, subresource="status")
        except errors.NotFound:
            return


def _is_reported(found: Obj) -> bool:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == READY for condition in conditions)
