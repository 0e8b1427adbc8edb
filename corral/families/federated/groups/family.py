"""PropletGroups: which proplets there are, how they are, what they have to do.

A group is looked at when it changes, when one of its pods, a node or a task does, and every
``refresh`` seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corral.api.propeller.kinds import WASMTASKS, PropletGroup
from corral.api.propeller.status import PropletGroupStatus, PropletInfo
from corral.families.federated.groups.metrics import PropletMetrics
from corral.families.federated.groups.pools import NotListed, Pools
from corral.families.federated.groups.proplets import Proplet
from corral.families.federated.reconciles import counted
from corral.families.federated.settings import FederatedSettings
from corral.kube.resources import NODES
from corral.kube.types import Obj
from corral.runtime import Change, Informer, Manager, find_condition, key_of
from corral.runtime.family import wiring
from corral.runtime.family.caches import Caches
from corral.runtime.family.conditions import condition_of, with_condition
from corral.runtime.family.decision import Decision
from corral.runtime.family.declaration import Family, Watched
from corral.runtime.family.events import Event, normal, warning
from corral.runtime.informers.handlers import Mapper

__all__ = ["GroupObservation", "PropletGroups", "group_status", "node_matters", "register"]

_SOON: Final = 0.2
_TOGETHER: Final = 0.5
"""Seconds for which changes of tasks and nodes are waited for, to see them all at once."""


@dataclass(frozen=True, slots=True)
class GroupObservation:
    """A group, and its proplets as the cluster has them now."""

    group: PropletGroup
    proplets: Sequence[Proplet] | None
    """None: they have not been listed yet."""
    loads: Mapping[str, int]
    """By proplet: the tasks that it has to do."""
    last: str
    """The proplet that was chosen last; empty where none was."""
    due: bool
    """Whether heartbeats alone are worth a write."""
    now: float


def _every(caches: Caches) -> Mapper:
    return lambda change: caches.objects.store.keys()


def node_matters(change: Change) -> bool:
    """Not for mere heartbeats."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return _node_state(old) != _node_state(new)


def _load_changes(change: Change) -> bool:
    old, new = change.old or {}, change.new or {}
    return _place(old) != _place(new)


class PropletGroups(Family[GroupObservation, PropletGroupStatus]):
    """The family of PropletGroups."""

    kind = PropletGroup
    component = "corral-propletgroup"
    watches = (
        Watched(NODES, wakes=_every, when=node_matters, after=lambda change: _TOGETHER),
        Watched(WASMTASKS, wakes=_every, when=_load_changes, after=lambda change: _TOGETHER),
    )

    def __init__(
        self,
        settings: FederatedSettings,
        pools: Pools,
        *,
        metrics: PropletMetrics | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.settings: FederatedSettings = settings
        self._pools = pools
        self._metrics = metrics
        self._wall = wall
        self._beats: dict[str, float] = {}
        """By key: when heartbeats were last written."""

    async def observe(self, obj: Obj, caches: Caches) -> GroupObservation:
        group, key, now = PropletGroup.read(obj), key_of(obj), self._wall()
        namespace = obj["metadata"]["namespace"]
        loads = dict(self._pools.loads(namespace))
        proplets: Sequence[Proplet] | None = None
        try:
            proplets = self._pools.of_group(group.spec, namespace)
        except NotListed:
            return GroupObservation(group, None, loads, "", due=False, now=now)
        if self._metrics is not None:
            self._metrics.seen(key, proplets, loads)
        due = abs(now - self._beats.get(key, 0.0)) >= self.settings.refresh - 1.0
        return GroupObservation(group, proplets, loads, self._pools.last_of(obj), due=due, now=now)

    def decide(self, observed: GroupObservation) -> Decision[PropletGroupStatus]:
        if observed.proplets is None:
            return Decision(requeue_after=_SOON)
        old = observed.group.status or PropletGroupStatus()
        status = group_status(
            observed.group, observed.proplets, observed.loads, last=observed.last, now=observed.now
        )
        if not observed.due and _without_heartbeats(old) == _without_heartbeats(status):
            return Decision(requeue_after=self.settings.refresh)
        events = tuple(_news(old, status))
        return Decision(status, events=events, requeue_after=self.settings.refresh)

    def written(self, obj: Obj, status: Obj) -> None:
        self._beats[key_of(obj)] = self._wall()

    def forget(self, key: str) -> None:
        self._beats.pop(key, None)
        if self._metrics is not None:
            self._metrics.gone(key)


def group_status(
    group: PropletGroup,
    proplets: Sequence[Proplet],
    loads: Mapping[str, int],
    *,
    last: str,
    now: float,
) -> PropletGroupStatus:
    """What is known about a group."""
    shown = [_shown(proplet, loads.get(proplet.id, 0)) for proplet in proplets]
    alive = sum(1 for proplet in shown if proplet.alive)
    reason, message = "Available", f"{alive} of {len(shown)} proplets are alive"
    if not shown:
        reason, message = "NoProplets", "no pod and no node has the labels of the selector"
        if not group.spec.selector.match_labels:
            message = "spec.selector.matchLabels is empty: say which labels proplets have"
    elif not alive:
        reason = "NoAliveProplet"
        message = f"none of {len(shown)} proplets is alive: {shown[0].id}: {shown[0].message}"
    return PropletGroupStatus(
        proplets=shown,
        total_proplets=len(shown),
        available_proplets=alive,
        last_selected=last or None,
        observed_generation=group.metadata.get("generation", 0),
        conditions=with_condition(
            group.status.conditions if group.status else None,
            "Ready",
            status="True" if alive else "False",
            reason=reason,
            message=message,
            now=now,
        ),
    )


def _shown(proplet: Proplet, tasks: int) -> PropletInfo:
    """What is empty is left out."""
    return PropletInfo(
        id=proplet.id,
        alive=proplet.alive,
        task_count=tasks,
        kind=proplet.kind,
        namespace=proplet.namespace or None,
        node_name=proplet.node or None,
        last_heartbeat=proplet.heartbeat or None,
        message=proplet.why or None,
    )


def _without_heartbeats(status: PropletGroupStatus) -> PropletGroupStatus:
    silent = {"last_heartbeat": None}
    proplets = [found.model_copy(update=silent) for found in status.proplets or ()]
    return status.model_copy(update={"proplets": proplets})


def _news(old: PropletGroupStatus, new: PropletGroupStatus) -> list[Event]:
    """Which proplets were lost or came back, and whether the group can be used."""
    out = []
    was = {found.id: found.alive for found in old.proplets or ()}
    for found in new.proplets or ():
        if was.get(found.id) and not found.alive:
            why = f"proplet {found.id} is not alive: {found.message}"
            out.append(warning("PropletLost", why))
        elif was.get(found.id) is False and found.alive:
            out.append(normal("PropletAlive", f"proplet {found.id} is alive"))
    before, after = condition_of(old.conditions, "Ready"), condition_of(new.conditions, "Ready")
    if after is not None and (before is None or before.status != after.status):
        make = normal if after.status == "True" else warning
        out.append(make(after.reason, after.message))
    return out


def register(manager: Manager, settings: FederatedSettings, pools: Pools) -> None:
    """Add the controller of PropletGroups to a manager."""
    metrics = PropletMetrics(manager.metrics.registry) if manager.metrics else None
    family = PropletGroups(settings, pools, metrics=metrics)
    controller = wiring.register(manager, family, counted=counted)

    def selecting(change: Change) -> set[str]:
        return {key for pod in (change.old, change.new) if pod for key in pools.groups_with(pod)}

    def watch(informer: Informer) -> None:
        controller.watch(informer, selecting)

    # all pods are watched from the first group with a selector on
    pools.on_pods = watch


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


def _place(task: Obj) -> tuple[object, ...]:
    status = task.get("status") or {}
    return status.get("propletId"), status.get("phase")
