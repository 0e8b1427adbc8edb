"""Pools: the proplets of every group as the cluster has them now, and who has which tasks.

A task that was given to a proplet counts from that moment on, before any cache has heard of it: two
tasks that are looked at together never get the same last place.

Pods are proplets of their own namespace alone: nobody sees, or is kept waiting by, those of another
one that have the same labels. Nodes are everybody's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from pydantic import ValidationError

from corral.api.propeller.kinds import (
    PROPLET_LABEL,
    PROPLETGROUPS,
    WASMTASKS,
    PropletGroup,
)
from corral.api.propeller.tasks import Placement, PropletGroupSpec
from corral.families.federated.groups.choosing import Choice, Demand, choose
from corral.families.federated.groups.proplets import Proplet, discover, slim
from corral.families.federated.settings import FederatedSettings
from corral.kube.resources import NODES, PODS
from corral.kube.selectors import Selector
from corral.kube.types import Obj
from corral.runtime import Informer, Manager, key_of, uid_of
from corral.runtime.sightings import Sightings

__all__ = ["PROPLET_INDEX", "NotListed", "Pools"]

PROPLET_INDEX: Final = "proplet"
ACTIVE: Final = ("Scheduled", "Running")
_SPARE: Final = 64


class NotListed(Exception):
    """The pods of a group have not been listed yet: try again shortly."""


def _by_proplet(task: Obj) -> tuple[str, ...]:
    """The proplet that a task occupies."""
    status = task.get("status") or {}
    proplet = status.get("propletId")
    return (str(proplet),) if proplet and status.get("phase") in ACTIVE else ()


class Pools:
    """Of one operator."""

    def __init__(
        self,
        manager: Manager,
        settings: FederatedSettings,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._manager = manager
        self._settings = settings
        self._wall, self._clock = wall, clock
        self._sightings = Sightings()
        self._rng = Random(settings.seed)
        self.groups = manager.informer(PROPLETGROUPS)
        self.tasks = manager.informer(WASMTASKS)
        self.tasks.add_index(PROPLET_INDEX, _by_proplet)
        self.nodes = manager.informer(NODES)
        self.labelled = manager.informer(PODS, label_selector=PROPLET_LABEL, transform=slim)
        """Pods that say which proplet they are."""
        self._pods: Informer | None = None
        """All pods, from the first group with a selector on: however many there are, one watch."""
        self._reserved: dict[str, tuple[str, str]] = {}
        """By UID of a task: its key, and the proplet that it was given."""
        self._last: dict[str, str] = {}
        """By key of a group: the proplet that was chosen last."""
        self._selectors: dict[str, tuple[Obj, Selector | None]] = {}
        """By key of a group: the object that was read, and what it selects; each change of a pod
        asks all groups of its namespace, however many there are."""
        self._dead: dict[str, float] = {}
        """By namespace and id: since when a proplet has not been alive."""
        self.on_pods: Callable[[Informer], None] = lambda informer: None
        """Called with the informer of all pods when it is made."""

    # --- which there are -------------------------------------------------------------------------

    def selector_of(self, group: Obj) -> Selector | None:
        """None where it selects nothing, or is older than the schema, which refuses it."""
        key = key_of(group)
        known = self._selectors.get(key)
        if known is None or known[0] is not group:
            if len(self._selectors) > 2 * len(self.groups.store) + _SPARE:
                self._selectors.clear()
            known = self._selectors[key] = (group, _read_selector(group))
        return known[1]

    def of_group(self, spec: PropletGroupSpec, namespace: str) -> list[Proplet]:
        """The proplets of a group in a namespace.

        Raises:
            NotListed: its pods are not known yet.
        """
        wanted = _selector(spec)
        if wanted is None:
            return []
        informer = self._all_pods()
        if not informer.synced:
            raise NotListed(str(wanted))
        nodes = self.nodes.store.objects(selector=wanted)
        pods = informer.store.objects(namespace, selector=wanted)
        return self._found(pods, nodes, timeout=self.timeout_of(spec))

    def of_nobody(self, namespace: str) -> list[Proplet]:
        """Whoever is called a proplet, else every node: for tasks that say nothing."""
        nodes = list(self.nodes.store)
        called = [n for n in nodes if PROPLET_LABEL in (n["metadata"].get("labels") or {})]
        pods = [pod for pod in self.labelled.store if _is_in(pod, namespace)]
        return self._found(pods, called or nodes)

    def find(self, id: str, namespace: str) -> Proplet | None:
        """The proplet with this id: a pod or node that says so, a pod of a group, or a node."""
        labelled = [
            pod for pod in self.labelled.store if _label(pod) == id and _is_in(pod, namespace)
        ]
        pod = self._pods.store.get(f"{namespace}/{id}") if self._pods is not None else None
        named = [pod] if pod is not None and not _label(pod) and self.groups_with(pod) else []
        nodes = [node for node in self.nodes.store if _label(node) == id]
        own = self.nodes.store.get(id)
        for pods, among in ((labelled, []), ([], nodes), (named, [own] if own else [])):
            found = self._found(pods, among)
            if found:
                return found[0]
        return None

    def _found(
        self, pods: list[Obj], nodes: list[Obj], *, timeout: float | None = None
    ) -> list[Proplet]:
        return discover(
            pods,
            nodes,
            node_of=self.nodes.store.get,
            now=self._wall(),
            timeout=timeout or self._settings.heartbeat_timeout,
            sightings=self._sightings,
        )

    def _all_pods(self) -> Informer:
        if self._pods is None:
            self._pods = self._manager.informer(PODS, transform=slim)
            self.on_pods(self._pods)
        return self._pods

    def groups_with(self, pod: Obj) -> list[str]:
        """The keys of the groups of its namespace that select a pod."""
        labels = pod["metadata"].get("labels") or {}
        groups = self.groups.store.objects(pod["metadata"]["namespace"])
        found = ((key_of(group), self.selector_of(group)) for group in groups)
        return [key for key, selector in found if selector is not None and selector.matches(labels)]

    def timeout_of(self, spec: PropletGroupSpec) -> float:
        return float(spec.heartbeat_timeout_seconds or self._settings.heartbeat_timeout)

    # --- who has what ----------------------------------------------------------------------------

    def loads(self, namespace: str = "") -> Mapping[str, int]:
        """The tasks of every proplet that has any, by id; those of one namespace, or all."""
        store, before = self.tasks.store, f"{namespace}/" if namespace else ""
        found = Counter(
            id
            for id in store.index_values(PROPLET_INDEX)
            for key in store.keys_by_index(PROPLET_INDEX, id)
            if key.startswith(before)
        )
        for uid, (key, id) in list(self._reserved.items()):
            task = store.get(key)
            if task is None or uid_of(task) != uid or (task.get("status") or {}).get("propletId"):
                del self._reserved[uid]
            elif key.startswith(before):
                found[id] += 1
        return found

    def choose(self, task: Obj, group: Obj | None, placement: Placement | None) -> Choice:
        """A proplet for a task, reserved for it; by the group where there is one.

        Raises:
            NotListed: the pods of the group are not known yet.
        """
        namespace = task["metadata"]["namespace"]
        if group is None:
            demand = Demand(placement=placement or Placement())
            found = self.of_nobody(namespace)
        else:
            spec = PropletGroup.read(group).spec
            demand = Demand.of(spec.scheduling, placement, last=self.last_of(group))
            found = self.of_group(spec, namespace)
        # Pods have the tasks of their namespace; a node has everybody's.
        shared = any(proplet.kind == "Node" for proplet in found)
        choice = choose(found, self._others(task, "" if shared else namespace), demand, self._rng)
        if choice.proplet is not None:
            self.reserve(task, choice.proplet.id)
            if group is not None:
                self._last[key_of(group)] = choice.proplet.id
        return choice

    def _others(self, task: Obj, namespace: str) -> Mapping[str, int]:
        """The loads without the task itself."""
        self._reserved.pop(uid_of(task), None)
        return self.loads(namespace)

    def reserve(self, task: Obj, id: str) -> None:
        self._reserved[uid_of(task)] = (key_of(task), id)

    def release(self, task: Obj) -> None:
        self._reserved.pop(uid_of(task), None)

    def last_of(self, group: Obj) -> str:
        """The proplet of the group that was chosen last; also by an operator before this one."""
        known = self._last.get(key_of(group))
        return known or str((group.get("status") or {}).get("lastSelected") or "")

    # --- who is lost -----------------------------------------------------------------------------

    def lost(
        self, id: str, namespace: str, proplet: Proplet | None, *, timeout: float
    ) -> tuple[str, float]:
        """Why a proplet counts as lost, and after how many seconds to ask again.

        The reason is empty, and the seconds are 0, while it is alive.
        """
        if proplet is not None and proplet.alive:
            self._dead.pop(f"{namespace}/{id}", None)
            return "", 0.0
        why = proplet.why if proplet is not None else "it is gone"
        since = self._dead.setdefault(f"{namespace}/{id}", self._clock())
        left = since + timeout - self._clock()
        return (why, 0.0) if left <= 0 else ("", left)


def _selector(spec: PropletGroupSpec) -> Selector | None:
    labels = spec.selector.match_labels
    return Selector.from_object({"matchLabels": labels}) if labels else None


def _read_selector(group: Obj) -> Selector | None:
    try:
        return _selector(PropletGroup.read(PROPLETGROUPS.stamp(group)).spec)
    except ValidationError:
        return None


def _is_in(pod: Obj, namespace: str) -> bool:
    return bool(pod["metadata"]["namespace"] == namespace)


def _label(obj: Obj) -> str:
    return str((obj["metadata"].get("labels") or {}).get(PROPLET_LABEL) or "")
