"""Pools: the proplets of every group as the cluster has them now, and who has which tasks.

A task that was given to a proplet counts from that moment on, before any cache has heard of it: two
tasks that are looked at together never get the same last place.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from corral.api.propeller import (
    PROPLET_LABEL,
    PROPLETGROUPS,
    WASMTASKS,
    PropletGroup,
)
from corral.api.propeller_tasks import Placement, PropletGroupSpec
from corral.controllers.federated.groups.choosing import Choice, Demand, choose
from corral.controllers.federated.groups.proplets import Proplet, discover, slim
from corral.controllers.federated.settings import FederatedSettings
from corral.kube.resources import NODES, PODS
from corral.kube.selectors import Selector
from corral.kube.types import Obj
from corral.runtime import Informer, Manager, key_of, uid_of

__all__ = ["PROPLET_INDEX", "NotListed", "Pools"]

PROPLET_INDEX: Final = "proplet"
ACTIVE: Final = ("Scheduled", "Running")


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
        self._rng = Random(settings.seed)
        self.groups = manager.informer(PROPLETGROUPS)
        self.tasks = manager.informer(WASMTASKS)
        self.tasks.add_index(PROPLET_INDEX, _by_proplet)
        self.nodes = manager.informer(NODES)
        self.labelled = manager.informer(PODS, label_selector=PROPLET_LABEL, transform=slim)
        """Pods that say which proplet they are."""
        self._pods: dict[str, Informer] = {}
        """By selector: the pods of groups."""
        self._reserved: dict[str, tuple[str, str]] = {}
        """By UID of a task: its key, and the proplet that it was given."""
        self._last: dict[str, str] = {}
        """By key of a group: the proplet that was chosen last."""
        self._dead: dict[str, float] = {}
        """By id: since when a proplet has not been alive."""
        self.on_informer: Callable[[str, Informer], None] = lambda selector, informer: None
        """Called with every new informer of pods."""

    # --- which there are -------------------------------------------------------------------------

    def selector_of(self, spec: PropletGroupSpec) -> str:
        """As a text; empty where it selects nothing."""
        return str(Selector.from_object({"matchLabels": spec.selector.match_labels or {}}))

    def of_group(self, spec: PropletGroupSpec) -> list[Proplet]:
        """The proplets of a group.

        Raises:
            NotListed: its pods are not known yet.
        """
        text = self.selector_of(spec)
        if not text:
            return []
        informer = self._informer(text)
        if not informer.synced:
            raise NotListed(text)
        wanted = Selector.from_object({"matchLabels": spec.selector.match_labels or {}})
        nodes = self.nodes.store.objects(selector=wanted)
        return self._found(list(informer.store), nodes, timeout=self.timeout_of(spec))

    def of_nobody(self) -> list[Proplet]:
        """Whoever is called a proplet, else every node: for tasks that say nothing."""
        nodes = list(self.nodes.store)
        called = [n for n in nodes if PROPLET_LABEL in (n["metadata"].get("labels") or {})]
        return self._found(list(self.labelled.store), called or nodes)

    def find(self, id: str) -> Proplet | None:
        """The proplet with this id: a pod or node that says so, a pod of a group, or a node."""
        labelled = [pod for pod in self.labelled.store if _label(pod) == id]
        named = [
            pod
            for informer in self._pods.values()
            for pod in informer.store
            if pod["metadata"]["name"] == id and not _label(pod)
        ]
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
        )

    def _informer(self, selector: str) -> Informer:
        known = self._pods.get(selector)
        if known is None:
            known = self._manager.informer(PODS, label_selector=selector, transform=slim)
            self._pods[selector] = known
            self.on_informer(selector, known)
        return known

    def timeout_of(self, spec: PropletGroupSpec) -> float:
        return float(spec.heartbeat_timeout_seconds or self._settings.heartbeat_timeout)

    # --- who has what ----------------------------------------------------------------------------

    def loads(self) -> Mapping[str, int]:
        """The tasks of every proplet that has any, by id."""
        store = self.tasks.store
        found = Counter(
            {
                id: len(store.keys_by_index(PROPLET_INDEX, id))
                for id in store.index_values(PROPLET_INDEX)
            }
        )
        for uid, (key, id) in list(self._reserved.items()):
            task = store.get(key)
            if task is None or uid_of(task) != uid or (task.get("status") or {}).get("propletId"):
                del self._reserved[uid]
            else:
                found[id] += 1
        return found

    def choose(self, task: Obj, group: Obj | None, placement: Placement | None) -> Choice:
        """A proplet for a task, reserved for it; by the group where there is one.

        Raises:
            NotListed: the pods of the group are not known yet.
        """
        if group is None:
            demand = Demand(placement=placement or Placement())
            choice = choose(self.of_nobody(), self._others(task), demand, self._rng)
        else:
            spec = PropletGroup.read(group).spec
            demand = Demand.of(spec.scheduling, placement, last=self.last_of(group))
            choice = choose(self.of_group(spec), self._others(task), demand, self._rng)
        if choice.proplet is not None:
            self.reserve(task, choice.proplet.id)
            if group is not None:
                self._last[key_of(group)] = choice.proplet.id
        return choice

    def _others(self, task: Obj) -> Mapping[str, int]:
        """The loads without the task itself."""
        self._reserved.pop(uid_of(task), None)
        return self.loads()

    def reserve(self, task: Obj, id: str) -> None:
        self._reserved[uid_of(task)] = (key_of(task), id)

    def release(self, task: Obj) -> None:
        self._reserved.pop(uid_of(task), None)

    def last_of(self, group: Obj) -> str:
        """The proplet of the group that was chosen last; also by an operator before this one."""
        known = self._last.get(key_of(group))
        return known or str((group.get("status") or {}).get("lastSelected") or "")

    # --- who is lost -----------------------------------------------------------------------------

    def lost(self, id: str, proplet: Proplet | None, *, timeout: float) -> tuple[str, float]:
        """Why a proplet counts as lost, and after how many seconds to ask again.

        The reason is empty, and the seconds are 0, while it is alive.
        """
        if proplet is not None and proplet.alive:
            self._dead.pop(id, None)
            return "", 0.0
        why = proplet.why if proplet is not None else "it is gone"
        left = self._dead.setdefault(id, self._clock()) + timeout - self._clock()
        return (why, 0.0) if left <= 0 else ("", left)


def _label(obj: Obj) -> str:
    return str((obj["metadata"].get("labels") or {}).get(PROPLET_LABEL) or "")
