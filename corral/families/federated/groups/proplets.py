"""Proplets: which pods and nodes are, and whether they are well. No I/O.

A proplet is a pod with the labels of a group, or where there are no such pods, a node with them. It
is alive while it runs, is ready, is heard of, and its node is ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from corral.api.propeller.kinds import GROUP, PROPLET_LABEL
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition
from corral.runtime.pods.states import conditions_of, is_deleting, is_terminal, moment
from corral.runtime.sightings import Sightings

__all__ = [
    "DATASETS_ANNOTATION",
    "DATASET_LABEL",
    "HEARTBEAT_ANNOTATION",
    "Proplet",
    "discover",
    "from_node",
    "from_pod",
    "slim",
]

DATASETS_ANNOTATION: Final = f"{GROUP}/datasets"
"""On pods and nodes: the data that is there, names with commas between them."""
DATASET_LABEL: Final = f"dataset.{GROUP}/"
"""Begins labels that say the same, one for each."""
HEARTBEAT_ANNOTATION: Final = f"{GROUP}/last-heartbeat"
"""On pods: when the proplet was last well, by its own word."""


@dataclass(frozen=True, slots=True)
class Proplet:
    """Where tasks can run."""

    id: str
    node: str
    """The node that its tasks are bound to."""
    kind: Literal["Pod", "Node"]
    namespace: str = ""
    why: str = ""
    """Why it is not alive; empty while it is."""
    heartbeat: str = ""
    """When it was last heard of, as a time of the API."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Its own and those of its node."""
    datasets: frozenset[str] = frozenset()
    cordoned: bool = False
    """Whether its node takes no new pods; tasks that it has go on."""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    """What it bears of its node, and its tasks must bear too."""

    @property
    def alive(self) -> bool:
        return not self.why


def slim(pod: Obj) -> Obj:
    """For informers: what is read of a pod here, and no more."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "labels", "annotations")
    more = ("creationTimestamp", "deletionTimestamp", "ownerReferences")
    status = pod.get("status") or {}
    return {
        "metadata": {key: metadata[key] for key in (*kept, *more) if key in metadata},
        "spec": {key: spec[key] for key in ("nodeName", "tolerations") if key in spec},
        "status": {
            key: status[key]
            for key in ("phase", "conditions", "containerStatuses")
            if key in status
        },
    }


def discover(
    pods: Iterable[Obj],
    nodes: Iterable[Obj],
    *,
    node_of: Callable[[str], Obj | None],
    now: float,
    timeout: float,
    sightings: Sightings | None = None,
) -> list[Proplet]:
    """The proplets of a group, by id: its pods, or without any its nodes.

    Of several with one id the one that is alive counts. ``timeout``: seconds without a heartbeat
    after which a proplet that sends them is not alive; ``sightings``: since when heartbeats are
    known that lie ahead.
    """
    sightings = sightings or Sightings()
    found = [
        from_pod(pod, node_of, now=now, timeout=timeout, sightings=sightings)
        for pod in pods
        if not is_terminal(pod)
    ] or [from_node(node) for node in nodes]
    by_id: dict[str, Proplet] = {}
    for proplet in sorted(found, key=lambda p: (p.id, not p.alive, p.namespace, p.node)):
        by_id.setdefault(proplet.id, proplet)
    return list(by_id.values())


def from_pod(
    pod: Obj,
    node_of: Callable[[str], Obj | None],
    *,
    now: float,
    timeout: float,
    sightings: Sightings,
) -> Proplet:
    metadata = pod["metadata"]
    name = str((pod.get("spec") or {}).get("nodeName") or "")
    node = node_of(name) if name else None
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    beat = str(annotations.get(HEARTBEAT_ANNOTATION) or "")
    return Proplet(
        id=str(labels.get(PROPLET_LABEL) or metadata["name"]),
        node=name,
        kind="Pod",
        namespace=str(metadata.get("namespace") or ""),
        why=_pod_trouble(pod, node)
        or _silence(beat, now=now, timeout=timeout, sightings=sightings),
        heartbeat=beat or (_node_heartbeat(node) if node is not None else ""),
        labels={**_labels(node), **labels},
        datasets=_datasets(pod) | _datasets(node),
        cordoned=node is not None and _cordoned(node),
        tolerations=tuple((pod.get("spec") or {}).get("tolerations") or ()),
    )


def from_node(node: Obj) -> Proplet:
    metadata = node["metadata"]
    labels = metadata.get("labels") or {}
    return Proplet(
        id=str(labels.get(PROPLET_LABEL) or metadata["name"]),
        node=str(metadata["name"]),
        kind="Node",
        why=_node_trouble(node),
        cordoned=_cordoned(node),
        heartbeat=_node_heartbeat(node),
        labels=labels,
        datasets=_datasets(node),
    )


# --- health --------------------------------------------------------------------------------------


def _pod_trouble(pod: Obj, node: Obj | None) -> str:
    status = pod.get("status") or {}
    if is_deleting(pod):
        return "its pod is being deleted"
    if status.get("phase") != "Running":
        return f"its pod is {str(status.get('phase') or 'Pending').lower()}"
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return f"its container {container.get('name')} waits: {waiting['reason']}"
    ready = find_condition(conditions_of(pod), "Ready")
    if ready is not None and ready.get("status") != "True":
        message = ready.get("message") or ready.get("reason")
        return f"its pod is not ready{f': {message}' if message else ''}"
    if node is None:
        return f"its node {(pod.get('spec') or {}).get('nodeName')} is gone"
    trouble = _node_trouble(node)
    return f"its node {node['metadata']['name']}: {trouble}" if trouble else ""


def _node_trouble(node: Obj) -> str:
    if is_deleting(node):
        return "it is being deleted"
    ready = find_condition((node.get("status") or {}).get("conditions"), "Ready")
    if ready is None or ready.get("status") == "True":
        return ""
    message = ready.get("message") or ready.get("reason") or "it does not say why"
    return f"it is not ready: {message}"


def _cordoned(node: Obj) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _silence(beat: str, *, now: float, timeout: float, sightings: Sightings) -> str:
    """Only a proplet that has ever sent heartbeats is judged by them."""
    if not beat:
        return ""
    try:
        last = moment(beat)
    except ValueError:
        return f"its last heartbeat {beat!r} is no time"
    silent = now - sightings.since(last or 0.0, now=now)
    return f"nothing was heard of it for {silent:.0f} s" if silent > timeout else ""


def _node_heartbeat(node: Obj) -> str:
    ready = find_condition((node.get("status") or {}).get("conditions"), "Ready") or {}
    return str(ready.get("lastHeartbeatTime") or "")


# --- what it has ---------------------------------------------------------------------------------


def _labels(obj: Obj | None) -> Mapping[str, str]:
    return (obj["metadata"].get("labels") or {}) if obj is not None else {}


def _datasets(obj: Obj | None) -> frozenset[str]:
    if obj is None:
        return frozenset()
    listed = str((obj["metadata"].get("annotations") or {}).get(DATASETS_ANNOTATION) or "")
    named = (
        key.removeprefix(DATASET_LABEL) for key in _labels(obj) if key.startswith(DATASET_LABEL)
    )
    return frozenset([*filter(None, (word.strip() for word in listed.split(","))), *named])
