"""The Nodes that machines become: what is marked on them, and their end."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from corral.api.spot.kinds import CLOUD_LABEL, INSTANCE_LABEL, PREEMPTION_TAINT
from corral.kube.client import KubeClient
from corral.kube.errors import Conflict, NotFound
from corral.kube.resources import NODES
from corral.kube.types import Obj
from corral.runtime.informers.informer import Informer
from corral.runtime.keys import uid_of, version_of
from corral.runtime.pods.states import moment
from corral.runtime.sightings import SKEW_S

__all__ = ["MachineNodes", "is_its_node", "marked", "marks_of"]


def marks_of(instance: str, cloud: str) -> dict[str, Any]:
    """What tells a machine's node from others, and keeps pods off that do not ask for it."""
    taint = {"key": INSTANCE_LABEL, "value": instance, "effect": "NoSchedule"}
    return {"labels": {INSTANCE_LABEL: instance, CLOUD_LABEL: cloud}, "taints": [taint]}


def is_its_node(node: Obj, entry: Obj, *, now: float) -> bool:
    """Whether a node is the machine, and not one of the same name that was there before.

    An entry that was begun by a clock that has been set back since cannot tell: names are given
    once, so it is believed.
    """
    metadata = node["metadata"]
    if (metadata.get("labels") or {}).get(INSTANCE_LABEL) == entry["name"]:
        return True
    begun = moment(entry.get("creationTime")) or 0.0
    if begun - now > SKEW_S:
        return True
    return (moment(metadata.get("creationTimestamp")) or 0.0) > begun - SKEW_S


def marked(node: Obj, entry: Obj) -> Obj | None:
    """What a machine's node lacks, as a patch; None: nothing.

    Nodes may not write taints themselves: they could draw pods to them.
    """
    metadata, spec = node["metadata"], node.get("spec") or {}
    ours = marks_of(entry["name"], entry.get("cloud") or "")
    taints = list(spec.get("taints") or ())
    wanted = list(ours["taints"])
    deadline = moment(entry.get("preemptionDeadline"))
    if deadline is not None:
        wanted.append({"key": PREEMPTION_TAINT, "value": f"{deadline:.0f}", "effect": "NoSchedule"})
    have = {taint.get("key"): taint.get("value") for taint in taints}
    missing = [taint for taint in wanted if have.get(taint["key"]) != taint["value"]]
    patch: Obj = {}
    if missing:
        keys = {taint["key"] for taint in missing}
        left = [taint for taint in taints if taint.get("key") not in keys]
        patch["spec"] = {"taints": [*left, *missing]}
    labels = metadata.get("labels") or {}
    if any(labels.get(key) != value for key, value in ours["labels"].items()):
        patch["metadata"] = {"labels": ours["labels"]}
    return patch or None


class MachineNodes:
    """Nodes of our machines."""

    def __init__(
        self,
        client: KubeClient,
        nodes: Informer,
        *,
        field_manager: str,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._wall = wall
        self._nodes = nodes
        self._field_manager = field_manager

    def of(self, entry: Obj) -> Obj | None:
        """The node that a machine is, if it is one."""
        node = self._nodes.store.get(entry["name"])
        return node if node is not None and is_its_node(node, entry, now=self._wall()) else None

    async def mark(self, entry: Obj) -> None:
        """Write what the machine's node lacks; a node that has changed meanwhile comes again."""
        node = self.of(entry)
        patch = marked(node, entry) if node is not None else None
        if node is None or patch is None:
            return
        metadata = {**patch.get("metadata", {}), "resourceVersion": version_of(node)}
        with suppress(Conflict, NotFound):
            await self._client.patch(
                NODES,
                entry["name"],
                patch={**patch, "metadata": metadata},
                field_manager=self._field_manager,
            )

    async def remove(self, name: str) -> None:
        """The machine is gone: its node, and with it what ran there. Raises ApiError."""
        with suppress(NotFound, Conflict):
            # not from the cache: it may be behind a node that has just come
            node = await self._client.get(NODES, name)
            if (node["metadata"].get("labels") or {}).get(INSTANCE_LABEL) == name:
                await self._client.delete(NODES, name, uid=uid_of(node))
