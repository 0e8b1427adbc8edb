"""Node health for a manager: taints and labels as nodes change, the monitor, and taint eviction."""

from __future__ import annotations

import time
from collections.abc import Callable

from corral.cluster.workloads.nodehealth.eviction import TaintEviction
from corral.cluster.workloads.nodehealth.index import POD_NODE_INDEX, index_by_node
from corral.cluster.workloads.nodehealth.monitor import LEASE_NAMESPACE, Monitor
from corral.cluster.workloads.nodehealth.settings import Settings
from corral.cluster.workloads.nodehealth.taints import labels_patch, settled_taints
from corral.cluster.workloads.nodehealth.writes import Writes
from corral.kube.errors import NotFound
from corral.kube.resources import LEASES, NODES, PODS
from corral.runtime import Informer, Manager, Result, format_time

__all__ = ["Settings", "register"]


class NodeUpkeep:
    """Brings taints and labels of a node up to date; the reconciler, by name of the node."""

    def __init__(self, nodes: Informer, writes: Writes, wall: Callable[[], float]) -> None:
        self._nodes, self._writes, self._wall = nodes, writes, wall

    async def reconcile(self, key: str) -> Result | None:
        node = self._nodes.store.get(key)
        if node is None:
            return None
        taints = settled_taints(node, format_time(self._wall()))
        labels = labels_patch(node)
        if taints is None and not labels:
            return None
        try:
            await self._writes.node(node, taints=taints, labels=labels)
        except NotFound:
            return None
        return None


def register(
    manager: Manager,
    *,
    settings: Settings | None = None,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> None:
    """Add node health to a manager."""
    settings = settings or Settings()
    nodes, pods = manager.informer(NODES), manager.informer(PODS)
    leases = manager.informer(LEASES, LEASE_NAMESPACE)
    pods.add_index(POD_NODE_INDEX, index_by_node)

    writes = Writes(manager.client, field_manager="node-controller")
    upkeep = NodeUpkeep(nodes, writes, wall)
    manager.controller("nodes", upkeep.reconcile, workers=settings.concurrency).watch(nodes)

    evicting = Writes(manager.client, field_manager="taint-eviction-controller")
    eviction = TaintEviction(
        evicting,
        manager.recorder("taint-eviction-controller"),
        nodes=nodes,
        pods=pods,
        clock=clock,
        wall=wall,
    )
    controller = manager.controller(
        "taint-eviction", eviction.reconcile, workers=settings.concurrency
    )
    controller.watch(nodes, eviction.pods_of, when=eviction.concerns_node)
    controller.watch(pods, when=eviction.concerns_pod)

    monitor = Monitor(
        manager.client,
        writes,
        manager.recorder("node-controller"),
        nodes=nodes,
        pods=pods,
        leases=leases,
        settings=settings,
        clock=clock,
        wall=wall,
    )
    manager.add_task("node-health", monitor.run)
