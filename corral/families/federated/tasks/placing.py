"""Placing: which proplet a task goes to, and whether the one it has is lost."""

from __future__ import annotations

from dataclasses import dataclass

from corral.api.propeller.kinds import PROPLETGROUPS, PropletGroup, WasmTask
from corral.families.federated.groups.choosing import Choice
from corral.families.federated.groups.pools import Pools
from corral.families.federated.groups.proplets import Proplet
from corral.families.federated.settings import FederatedSettings
from corral.kube.types import Obj
from corral.runtime import join_key

__all__ = ["Placing", "Standing"]


@dataclass(frozen=True, slots=True)
class Standing:
    """How a task stands with the proplet that it has."""

    proplet: Proplet | None
    lost: str = ""
    """Why the task must begin anew elsewhere; empty where it need not."""
    trouble: str = ""
    """Why the proplet is not alive, though the task stays with it."""
    after: float = 0.0
    """Seconds until that may be different; 0: when something changes."""


class Placing:
    """Of one operator."""

    def __init__(self, pools: Pools, settings: FederatedSettings) -> None:
        self._pools = pools
        self._settings = settings

    def choose(self, task: Obj, model: WasmTask) -> Choice:
        """A proplet that is reserved for the task, or why there is none.

        Raises:
            NotListed: the pods of its group are not known yet.
        """
        spec = model.spec
        if spec.proplet_id:
            return self._named(task, spec.proplet_id)
        group = None
        name = spec.proplet_group_ref.name if spec.proplet_group_ref is not None else ""
        if name:
            group = self._group(task, name)
            if group is None:
                why = f"there is no PropletGroup {name} in namespace {_namespace(task)}"
                return Choice(reason="GroupNotFound", message=why)
        return self._pools.choose(task, group, spec.placement)

    def _named(self, task: Obj, id: str) -> Choice:
        found = self._pools.find(id, _namespace(task))
        if found is None:
            why = (
                f"there is no proplet {id}: no pod of this namespace and no node has the label "
                f"proplet-id={id}, and no node has this name"
            )
            return Choice(reason="PropletNotFound", message=why)
        if not found.alive:
            return Choice(reason="NoAliveProplet", message=f"proplet {id}: {found.why}")
        if found.cordoned:
            why = f"the node {found.node} of proplet {id} is cordoned"
            return Choice(reason="PropletsCordoned", message=why)
        self._pools.reserve(task, id)
        return Choice(found)

    def standing(self, task: Obj, model: WasmTask) -> Standing:
        """How it is with the proplet that the task has.

        Raises:
            NotListed: the pods of its group are not known yet.
        """
        status, spec = task.get("status") or {}, model.spec
        id, node = str(status["propletId"]), str(status.get("nodeName") or "")
        proplet, timeout = self._current(task, model, id)
        if proplet is not None and proplet.alive and node and proplet.node != node:
            return Standing(proplet, lost=f"it is on node {proplet.node} now")
        why, after = self._pools.lost(id, _namespace(task), proplet, timeout=timeout)
        if why and not spec.proplet_id:
            return Standing(proplet, lost=why)
        if proplet is None or not proplet.alive:
            trouble = proplet.why if proplet is not None else "it is gone"
            return Standing(proplet, trouble=trouble, after=after)
        return Standing(proplet)

    def _current(self, task: Obj, model: WasmTask, id: str) -> tuple[Proplet | None, float]:
        reference = model.spec.proplet_group_ref
        group = None
        if reference is not None and reference.name and not model.spec.proplet_id:
            group = self._group(task, reference.name)
        if group is None:
            return self._pools.find(id, _namespace(task)), self._settings.heartbeat_timeout
        spec = PropletGroup.read(group).spec
        proplets = self._pools.of_group(spec, _namespace(task))
        return next(
            (proplet for proplet in proplets if proplet.id == id), None
        ), self._pools.timeout_of(spec)

    def _group(self, task: Obj, name: str) -> Obj | None:
        found = self._pools.groups.store.get(join_key(_namespace(task), name))
        return PROPLETGROUPS.stamp(found) if found is not None else None


def _namespace(task: Obj) -> str:
    return str(task["metadata"]["namespace"])
