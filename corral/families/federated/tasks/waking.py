"""Which tasks are looked at when something else changes. No I/O.

A task waits for its proplet, for its group, or for any place; one that has a proplet is concerned
by everything that happens to that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.api.propeller.kinds import PROPLET_LABEL
from corral.families.federated.groups.pools import PROPLET_INDEX, Pools
from corral.families.federated.tasks import names
from corral.families.federated.tasks.status import is_over
from corral.kube.types import Obj
from corral.runtime import Change, Informer, join_key

__all__ = [
    "WAITING_INDEX",
    "freed",
    "gives_way",
    "index_by_task",
    "of_group",
    "of_node",
    "of_pod",
    "waits_for",
]

WAITING_INDEX: Final = "waiting"
_AT_ONCE: Final = 32
"""Tasks that are woken for one place that became free; the others ask by themselves."""


def index_by_task(obj: Obj) -> tuple[str, ...]:
    """The key of the task that an object is of, by its label."""
    metadata = obj["metadata"]
    name = (metadata.get("labels") or {}).get(names.TASK_LABEL)
    return (join_key(metadata["namespace"], name),) if name else ()


def waits_for(task: Obj) -> tuple[str, ...]:
    """For stores: what a task without a proplet waits for."""
    if is_over(task) or (task.get("status") or {}).get("propletId"):
        return ()
    spec = task.get("spec") or {}
    if spec.get("propletId"):
        return (f"proplet/{spec['propletId']}",)
    group = (spec.get("propletGroupRef") or {}).get("name")
    return (f"group/{task['metadata']['namespace']}/{group}",) if group else ("any",)


def gives_way(change: Change) -> bool:
    """Whether a task has given its place away."""
    had = (change.old or {}).get("status") or {}
    has = (change.new or {}).get("status") or {}
    return bool(had.get("propletId")) and (
        change.new is None or is_over(change.new) or not has.get("propletId")
    )


def freed(change: Change, tasks: Informer) -> list[str]:
    """Tasks that wait for the place that a task has given away."""
    task = change.old or {}
    status = {"phase": "", "propletId": ""}
    return _waiting(tasks, *waits_for({**task, "status": status}), "any")[:_AT_ONCE]


def of_group(change: Change, tasks: Informer) -> Iterator[str]:
    """Tasks that wait for a group, and those of its proplets that are not alive."""
    yield from _waiting(tasks, f"group/{change.key}")
    for found in ((change.new or {}).get("status") or {}).get("proplets") or ():
        if not found.get("alive"):
            yield from tasks.store.keys_by_index(PROPLET_INDEX, found["id"])


def of_node(change: Change, tasks: Informer, pools: Pools) -> Iterator[str]:
    """Tasks of a node and of the pods on it that are proplets."""
    name = change.key
    ids = {name}
    for node in (change.old, change.new):
        if node is not None:
            ids.add(_id(node))
    for pod in pools.labelled.store:
        if (pod.get("spec") or {}).get("nodeName") == name:
            ids.add(_id(pod))
    for id in sorted(ids):
        yield from _of_proplet(id, tasks)


def of_pod(pod: Obj, tasks: Informer) -> list[str]:
    """Tasks of a pod that is a proplet."""
    return _of_proplet(_id(pod), tasks)


def _of_proplet(id: str, tasks: Informer) -> list[str]:
    """Tasks that have a proplet, and those that wait for it."""
    had = tasks.store.keys_by_index(PROPLET_INDEX, id)
    return [*had, *_waiting(tasks, f"proplet/{id}", "any")]


def _waiting(tasks: Informer, *values: str) -> list[str]:
    """The keys of tasks that wait for one of these."""
    return [key for value in values for key in tasks.store.keys_by_index(WAITING_INDEX, value)]


def _id(obj: Obj) -> str:
    metadata = obj["metadata"]
    return str((metadata.get("labels") or {}).get(PROPLET_LABEL) or metadata["name"])
