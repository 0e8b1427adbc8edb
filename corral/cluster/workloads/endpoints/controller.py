"""Keeps EndpointSlices and Endpoints of services with a selector in line with their pods.

Guarantees:
- A pod's change reaches only the services that select it, found by index.
- Changes of one service are batched: the first is written at once; the more pods the service has,
  the longer the next ones are collected (half a millisecond a pod, at most a second).
- Nothing is written when nothing changed, and no plan is made from a cache without our own writes.
- Endpoints of a service that is gone are deleted, also when nobody was there to see it go; slices
  go with their owner.

Services without a selector are left to people, and to ``mirroring``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from corral.cluster.workloads.endpoints import mirror_controller
from corral.cluster.workloads.endpoints.addresses import ZONE_LABEL, selected_pods
from corral.cluster.workloads.endpoints.legacy import endpoints_object
from corral.cluster.workloads.endpoints.selection import Selection
from corral.cluster.workloads.endpoints.slices import CONTROLLER, plan_slices
from corral.cluster.workloads.endpoints.triggers import TriggerTimes
from corral.cluster.workloads.endpoints.writing import SliceWriter, namespace_terminating
from corral.kube import errors
from corral.kube.resources import ENDPOINTS, ENDPOINTSLICES, NODES, PODS, SERVICES
from corral.kube.types import Obj
from corral.runtime import (
    Change,
    ConsistencyStore,
    Manager,
    Result,
    key_of,
    split_key,
    uid_of,
    version_of,
)

__all__ = ["EndpointsController", "register"]

FIELD_MANAGER: Final = "endpoint-controller"
LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
"""Endpoints with this annotation are a lock of old, and belong to no service."""
_WORKERS: Final = 5
_BATCH_PER_POD: Final = 0.0005
_LONGEST_BATCH: Final = 1.0
_SLICE_DELAY: Final = 1.0
"""Seconds before somebody else's change of slices is undone; several are handled together."""
_NODE_RETRY: Final = 10.0
"""Seconds until pods of unknown nodes are looked at again; a new node brings them at once."""


def register(manager: Manager, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Add the controllers of endpoints, and of their mirrors, to a manager."""
    EndpointsController(manager, clock=clock)
    mirror_controller.register(manager)


class EndpointsController:
    """One reconcile writes the slices of a service, then its Endpoints."""

    def __init__(self, manager: Manager, *, clock: Callable[[], float] = time.monotonic) -> None:
        services, pods = manager.informer(SERVICES), manager.informer(PODS)
        nodes, slices = manager.informer(NODES), manager.informer(ENDPOINTSLICES)
        endpoints = manager.informer(ENDPOINTS)
        self._client = manager.client
        self._clock = clock
        self._services, self._pods = services.store, pods.store
        self._nodes, self._endpoints = nodes.store, endpoints.store
        self._selection = Selection(services, pods)
        self._triggers = TriggerTimes()
        self._batches: dict[str, float] = {}
        """Service → when changes of its pods may be looked at again."""
        self._consistency = ConsistencyStore({ENDPOINTSLICES: slices, ENDPOINTS: endpoints})
        self._recorder = manager.recorder("endpoint-slice-controller")
        controller = manager.controller("endpoints", self.reconcile, workers=_WORKERS)
        self._queue = controller.queue
        controller.watch(services)
        controller.watch(endpoints, when=lambda change: change.new is None or change.is_initial)
        controller.informers += [pods, nodes, slices]
        self._writer = SliceWriter(
            manager.client,
            slices,
            self._consistency,
            controller=CONTROLLER,
            field_manager=FIELD_MANAGER,
            on_foreign=lambda key: self._queue.add_after(key, _SLICE_DELAY),
        )
        pods.add_handler(self._on_pod)
        nodes.add_handler(self._on_node)

    # --- what changed ----------------------------------------------------------------------------

    def _on_pod(self, change: Change) -> None:
        if change.is_initial:
            return  # the services come anyway
        now = self._clock()
        for key in self._selection.affected_by(change):
            self._queue.add_after(key, self._batches.get(key, 0.0) - now)

    def _on_node(self, change: Change) -> None:
        """A node that appears, goes, or moves to another zone: rare enough to search."""
        if change.is_initial or _zone(change.old) == _zone(change.new):
            return
        name = change.object["metadata"]["name"]
        for pod in self._pods:
            if (pod.get("spec") or {}).get("nodeName") == name:
                for key in self._selection.services_of(pod):
                    self._queue.add(key)

    # --- reconciling -----------------------------------------------------------------------------

    async def reconcile(self, key: str) -> Result | None:
        service = self._services.get(key)
        if service is None:
            await self._gone(key)
            return None
        pods = selected_pods(service, self._selection.candidates(service))
        if pods is None:
            return None
        self._consistency.ensure_ready(key)
        batch = min(_LONGEST_BATCH, _BATCH_PER_POD * len(pods))
        self._batches[key] = self._clock() + batch
        trigger = self._triggers.compute(service, pods)
        retry = await self._write_slices(service, pods, trigger)
        await self._write_endpoints(service, pods, trigger)
        return Result(requeue_after=_NODE_RETRY) if retry else None

    async def _gone(self, key: str) -> None:
        self._triggers.forget(key)
        self._batches.pop(key, None)
        self._consistency.clear(key)
        left = self._endpoints.get(key)
        if left is None or LEADER in (left["metadata"].get("annotations") or ()):
            return
        namespace, name = split_key(key)
        try:
            await self._client.delete(ENDPOINTS, name, namespace=namespace, uid=uid_of(left))
        except (errors.NotFound, errors.Conflict):
            return  # somebody was first

    async def _write_slices(self, service: Obj, pods: list[Obj], trigger: str | None) -> bool:
        """Whether pods were left out whose node is not known."""
        names = {(pod.get("spec") or {}).get("nodeName", "") for pod in pods}
        nodes = {name: node for name in names if (node := self._nodes.get(name)) is not None}
        known = self._writer.slices_of(key_of(service))
        plan = plan_slices(service, pods, nodes, known, trigger_time=trigger)
        try:
            await self._writer.write(service, plan)
        except errors.Conflict:
            raise  # seen again with the newest slices
        except errors.ApiError as err:
            namespace, name = split_key(key_of(service))
            self._recorder.warning(
                service,
                "FailedToUpdateEndpointSlices",
                f"Error updating Endpoint Slices for Service {namespace}/{name}: {err.message}",
            )
            raise
        return plan.retry

    async def _write_endpoints(self, service: Obj, pods: list[Obj], trigger: str | None) -> None:
        current = self._endpoints.get(key_of(service))
        wanted = endpoints_object(service, pods, current, trigger_time=trigger)
        if wanted is None:
            return
        write = self._client.create if current is None else self._client.replace
        try:
            written = await write(ENDPOINTS, wanted, field_manager=FIELD_MANAGER)
        except errors.Forbidden as err:
            if current is None and namespace_terminating(err):
                return
            raise
        self._consistency.wrote_at(key_of(service), uid_of(service), ENDPOINTS, version_of(written))


def _zone(node: Obj | None) -> str | None:
    """None without a node, empty for a node in no zone."""
    if node is None:
        return None
    return str((node["metadata"].get("labels") or {}).get(ZONE_LABEL) or "")
