"""Reconciler: watches WasmTasks and what concerns them, and has each looked at when it should.

A task is looked at when it changes, when its Job or one of its pods does, when its proplet is lost,
when the proplet or group that it waits for changes, and when a place becomes free.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from corral.api.propeller.kinds import PROPLET_LABEL, WASMTASKS
from corral.families.federated.groups.family import node_matters
from corral.families.federated.groups.pools import PROPLET_INDEX, Pools
from corral.families.federated.reconciles import counted
from corral.families.federated.settings import FederatedSettings
from corral.families.federated.tasks.caches import Caches, index_by_task, waits_for
from corral.families.federated.tasks.controller import TaskController, Tools
from corral.families.federated.tasks.metrics import TaskMetrics
from corral.families.federated.tasks.status import is_over
from corral.kube.errors import NotFound
from corral.kube.types import Obj
from corral.runtime import (
    Change,
    ChildWriter,
    ConsistencyStore,
    Manager,
    Result,
    ignore_creates,
    is_being_deleted,
    mapped,
    spec_or_metadata_changed,
)
from corral.runtime.family.statuses import StatusController

__all__ = ["COMPONENT", "Reconciler", "register"]

COMPONENT: Final = "corral-wasmtask"
_AT_ONCE: Final = 32
"""Tasks that are woken for one place that became free; the others ask by themselves."""


class Reconciler:
    """Finds the task for a key, and lets the TaskController work on it."""

    def __init__(
        self,
        manager: Manager,
        settings: FederatedSettings,
        pools: Pools,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        client = manager.client
        self.caches = Caches(manager, pools)
        self._pools = pools
        self._written = ConsistencyStore({WASMTASKS: pools.tasks})
        tools = Tools(
            client,
            self.caches,
            pools,
            statuses=StatusController(
                client, WASMTASKS, self._written, field_manager=settings.field_manager
            ),
            writer=ChildWriter(
                client, field_manager=settings.field_manager, consistency=self.caches.consistency
            ),
            recorder=manager.recorder(COMPONENT),
            settings=settings,
            metrics=TaskMetrics(manager.metrics.registry, pools.tasks) if manager.metrics else None,
            wall=wall,
        )
        self._controller = TaskController(tools)

    async def reconcile(self, key: str) -> Result | None:
        """One look at one task."""
        self._written.ensure_ready(key)
        self.caches.consistency.ensure_ready(key)
        found = self._pools.tasks.store.get(key)
        if found is None or is_being_deleted(found):
            # Its objects go with it: they have owner references.
            self._written.clear(key)
            self.caches.consistency.clear(key)
            self._controller.forget(key)
            if found is not None:
                self._pools.release(found)
            return None
        if is_over(found):
            self._controller.forget(key)
            self._pools.release(found)
            return None
        try:
            return await self._controller.sync(WASMTASKS.stamp(found))
        except NotFound:
            # The task itself is gone, and everything with it.
            return None


def register(
    manager: Manager,
    settings: FederatedSettings,
    pools: Pools,
    *,
    wall: Callable[[], float] = time.time,
) -> None:
    """Add the controller of WasmTasks to a manager."""
    reconciler = Reconciler(manager, settings, pools, wall=wall)
    caches = reconciler.caches
    controller = manager.controller(
        "wasmtask",
        counted(manager, "wasmtask", reconciler.reconcile),
        workers=settings.workers,
        timeout=settings.timeout,
    )
    controller.watch(caches.tasks, when=spec_or_metadata_changed)
    controller.watch(caches.tasks, lambda change: _freed(change, caches), when=_gives_way)
    controller.watch(caches.pods, mapped(index_by_task))
    for informer in caches.workloads.values():
        controller.watch(informer, mapped(index_by_task), when=ignore_creates)
    controller.watch(pools.groups, lambda change: list(_of_group(change, caches)))
    controller.watch(
        pools.nodes, lambda change: list(_of_node(change, caches, pools)), when=node_matters
    )
    controller.watch(pools.labelled, mapped(lambda pod: _of_proplet(_id(pod), caches)))


def _gives_way(change: Change) -> bool:
    """Whether a task has given its place away."""
    had = (change.old or {}).get("status") or {}
    has = (change.new or {}).get("status") or {}
    return bool(had.get("propletId")) and (
        change.new is None or is_over(change.new) or not has.get("propletId")
    )


def _freed(change: Change, caches: Caches) -> list[str]:
    task = change.old or {}
    status = {"phase": "", "propletId": ""}
    return caches.waiting(*waits_for({**task, "status": status}), "any")[:_AT_ONCE]


def _of_proplet(id: str, caches: Caches) -> list[str]:
    """Tasks that have a proplet, and those that wait for it."""
    had = caches.tasks.store.keys_by_index(PROPLET_INDEX, id)
    return [*had, *caches.waiting(f"proplet/{id}", "any")]


def _of_group(change: Change, caches: Caches) -> Iterator[str]:
    """Tasks that wait for a group, and those of its proplets that are not alive."""
    yield from caches.waiting(f"group/{change.key}")
    for found in ((change.new or {}).get("status") or {}).get("proplets") or ():
        if not found.get("alive"):
            yield from caches.tasks.store.keys_by_index(PROPLET_INDEX, found["id"])


def _of_node(change: Change, caches: Caches, pools: Pools) -> Iterator[str]:
    name = change.key
    ids = {name}
    for node in (change.old, change.new):
        if node is not None:
            ids.add(_id(node))
    for pod in pools.labelled.store:
        if (pod.get("spec") or {}).get("nodeName") == name:
            ids.add(_id(pod))
    for id in sorted(ids):
        yield from _of_proplet(id, caches)


def _id(obj: Obj) -> str:
    metadata = obj["metadata"]
    return str((metadata.get("labels") or {}).get(PROPLET_LABEL) or metadata["name"])
