"""The controller of PropletGroups: which proplets there are, how they are, what they have to do.

A group is looked at when it changes, when one of its pods, a node or a task does, and every
``refresh`` seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Final

from pydantic import ValidationError

from corral.api.propeller.kinds import PROPLETGROUPS, PropletGroup
from corral.families.federated.groups.metrics import PropletMetrics
from corral.families.federated.groups.pools import NotListed, Pools
from corral.families.federated.groups.proplets import Proplet
from corral.families.federated.reconciles import counted
from corral.families.federated.settings import FederatedSettings
from corral.kube.errors import NotFound
from corral.kube.types import Obj
from corral.runtime import (
    Change,
    ConsistencyStore,
    Informer,
    Manager,
    Result,
    find_condition,
    format_time,
    is_being_deleted,
    set_condition,
    spec_changed,
)
from corral.runtime.family.statuses import StatusController

__all__ = ["COMPONENT", "GroupReconciler", "group_status", "node_matters", "register"]

COMPONENT: Final = "corral-propletgroup"
_SOON: Final = 0.2
_TOGETHER: Final = 0.5
"""Seconds for which changes of tasks and nodes are waited for, to see them all at once."""


def group_status(
    group: Obj, proplets: Iterable[Proplet], loads: dict[str, int], *, last: str, now: str
) -> Obj:
    """What is known about a group."""
    shown = [_shown(proplet, loads.get(proplet.id, 0)) for proplet in proplets]
    alive = sum(1 for proplet in shown if proplet["alive"])
    old = group.get("status") or {}
    status: Obj = {
        "proplets": shown,
        "totalProplets": len(shown),
        "availableProplets": alive,
        "conditions": deepcopy(old.get("conditions") or []),
        "observedGeneration": group["metadata"].get("generation", 0),
    }
    if last:
        status["lastSelected"] = last
    reason, message = "Available", f"{alive} of {len(shown)} proplets are alive"
    if not shown:
        reason, message = "NoProplets", "no pod and no node has the labels of the selector"
        if not (group["spec"].get("selector") or {}).get("matchLabels"):
            message = "spec.selector.matchLabels is empty: say which labels proplets have"
    elif not alive:
        reason = "NoAliveProplet"
        message = f"none of {len(shown)} proplets is alive: {shown[0]['id']}: {shown[0]['message']}"
    set_condition(
        status["conditions"],
        "Ready",
        status="True" if alive else "False",
        reason=reason,
        message=message,
        now=now,
    )
    return status


def _shown(proplet: Proplet, tasks: int) -> Obj:
    out: Obj = {
        "id": proplet.id,
        "alive": proplet.alive,
        "taskCount": tasks,
        "kind": proplet.kind,
    }
    more = {
        "namespace": proplet.namespace,
        "nodeName": proplet.node,
        "lastHeartbeat": proplet.heartbeat,
        "message": proplet.why,
    }
    return out | {key: value for key, value in more.items() if value}


def _without_heartbeats(status: Obj) -> Obj:
    proplets = [
        {key: value for key, value in found.items() if key != "lastHeartbeat"}
        for found in status.get("proplets") or ()
    ]
    return {**status, "proplets": proplets}


class GroupReconciler:
    """Looks at one group after another."""

    def __init__(
        self,
        manager: Manager,
        settings: FederatedSettings,
        pools: Pools,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._pools = pools
        self._settings = settings
        self._wall = wall
        self._written = ConsistencyStore({PROPLETGROUPS: pools.groups})
        self._recorder = manager.recorder(COMPONENT)
        self._statuses = StatusController(
            manager.client, PROPLETGROUPS, self._written, field_manager=settings.field_manager
        )
        self._beats: dict[str, float] = {}
        """By key: when heartbeats were last written."""
        self.metrics = PropletMetrics(manager.metrics.registry) if manager.metrics else None

    async def reconcile(self, key: str) -> Result | None:
        """One look at one group."""
        self._written.ensure_ready(key)
        group = self._pools.groups.store.get(key)
        if group is None or is_being_deleted(group):
            self._written.clear(key)
            self._beats.pop(key, None)
            if self.metrics is not None:
                self.metrics.gone(key)
            return None
        group = PROPLETGROUPS.stamp(group)
        try:
            spec = PropletGroup.read(group).spec
            proplets = self._pools.of_group(spec, group["metadata"]["namespace"])
        except NotListed:
            return Result(_SOON)
        except ValidationError:
            # The schema refuses such a group; this one is older than the schema.
            return None
        loads = dict(self._pools.loads(group["metadata"]["namespace"]))
        now = self._wall()
        status = group_status(
            group, proplets, loads, last=self._pools.last_of(group), now=format_time(now)
        )
        if self.metrics is not None:
            self.metrics.seen(key, proplets, loads)
        await self._write(key, group, status, now)
        return Result(self._settings.refresh)

    async def _write(self, key: str, group: Obj, status: Obj, now: float) -> None:
        old = group.get("status") or {}
        due = abs(now - self._beats.get(key, 0.0)) >= self._settings.refresh - 1.0
        if not due and _without_heartbeats(old) == _without_heartbeats(status):
            return
        try:
            written = await self._statuses.write(group, status)
        except NotFound:
            return
        self._beats[key] = now
        if written is not group:
            self._tell(group, old, status)

    def _tell(self, group: Obj, old: Obj, new: Obj) -> None:
        before = find_condition(old.get("conditions"), "Ready") or {}
        after = find_condition(new.get("conditions"), "Ready") or {}
        was = {found["id"]: found["alive"] for found in old.get("proplets") or ()}
        for found in new["proplets"]:
            if was.get(found["id"]) and not found["alive"]:
                why = f"proplet {found['id']} is not alive: {found.get('message')}"
                self._recorder.warning(group, "PropletLost", why)
            elif was.get(found["id"]) is False and found["alive"]:
                self._recorder.normal(group, "PropletAlive", f"proplet {found['id']} is alive")
        if before.get("status") != after.get("status"):
            kind = self._recorder.normal if after["status"] == "True" else self._recorder.warning
            kind(group, after["reason"], after["message"])


def register(
    manager: Manager,
    settings: FederatedSettings,
    pools: Pools,
    *,
    wall: Callable[[], float] = time.time,
) -> None:
    """Add the controller of PropletGroups to a manager."""
    reconciler = GroupReconciler(manager, settings, pools, wall=wall)
    controller = manager.controller(
        "propletgroup",
        counted(manager, "propletgroup", reconciler.reconcile),
        workers=min(settings.workers, 4),
        timeout=settings.timeout,
    )

    def every(change: Change) -> list[str]:
        return pools.groups.store.keys()

    def selecting(change: Change) -> set[str]:
        return {key for pod in (change.old, change.new) if pod for key in pools.groups_with(pod)}

    def watch(informer: Informer) -> None:
        controller.watch(informer, selecting)

    pools.on_pods = watch
    controller.watch(pools.groups, when=spec_changed)
    controller.watch(pools.nodes, every, when=node_matters, after=lambda change: _TOGETHER)
    controller.watch(pools.tasks, every, when=_load_changes, after=lambda change: _TOGETHER)


def node_matters(change: Change) -> bool:
    """Not for mere heartbeats."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return _node_state(old) != _node_state(new)


def _node_state(node: Obj) -> tuple[object, ...]:
    ready = find_condition((node.get("status") or {}).get("conditions"), "Ready") or {}
    metadata = node["metadata"]
    return (
        ready.get("status"),
        metadata.get("labels"),
        metadata.get("annotations"),
        metadata.get("deletionTimestamp"),
        (node.get("spec") or {}).get("unschedulable"),
    )


def _load_changes(change: Change) -> bool:
    old, new = change.old or {}, change.new or {}
    return _place(old) != _place(new)


def _place(task: Obj) -> tuple[object, ...]:
    status = task.get("status") or {}
    return status.get("propletId"), status.get("phase")
