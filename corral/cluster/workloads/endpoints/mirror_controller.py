"""Mirrors hand-written Endpoints of services without a selector into EndpointSlices."""

from __future__ import annotations

from typing import Final

from corral.cluster.workloads.endpoints.mirroring import MIRROR, plan_mirror
from corral.cluster.workloads.endpoints.writing import SliceWriter
from corral.kube.resources import ENDPOINTS, ENDPOINTSLICES, SERVICES
from corral.kube.types import Obj
from corral.runtime import Change, ConsistencyStore, Manager

__all__ = ["MirrorController", "register"]

LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
_SLICE_DELAY: Final = 1.0
_WORKERS: Final = 2


def register(manager: Manager) -> None:
    """Add the controller to a manager."""
    MirrorController(manager)


class MirrorController:
    """Reconciles Endpoints by their key, which is also that of their service."""

    def __init__(self, manager: Manager) -> None:
        services, endpoints = manager.informer(SERVICES), manager.informer(ENDPOINTS)
        slices = manager.informer(ENDPOINTSLICES)
        self._services, self._endpoints = services.store, endpoints.store
        self._consistency = ConsistencyStore({ENDPOINTSLICES: slices})
        self._recorder = manager.recorder("endpoint-slice-mirroring-controller")
        controller = manager.controller("endpointslicemirroring", self.reconcile, workers=_WORKERS)
        controller.watch(endpoints, when=self._by_hand)
        controller.watch(services, when=_selector_matters)
        controller.informers.append(slices)
        self._writer = SliceWriter(
            manager.client,
            slices,
            self._consistency,
            controller=MIRROR,
            field_manager="endpointslicemirroring-controller",
            on_foreign=lambda key: controller.queue.add_after(key, _SLICE_DELAY),
        )

    def _by_hand(self, change: Change) -> bool:
        """Endpoints of services with a selector are many, change often, and are not mirrored."""
        service = self._services.get(change.key)
        return service is None or not service["spec"].get("selector")

    async def reconcile(self, key: str) -> None:
        self._consistency.ensure_ready(key)
        known = self._writer.slices_of(key)
        endpoints, service = self._endpoints.get(key), self._services.get(key)
        if endpoints is None or service is None or not _mirrored(endpoints, service):
            for one in known:
                await self._writer.delete(one)
            return
        plan = plan_mirror(endpoints, known)
        if plan.invalid:
            self._recorder.warning(
                endpoints,
                "InvalidIPAddress",
                f"Skipped {plan.invalid} invalid IP addresses when mirroring to EndpointSlices",
            )
        if plan.skipped:
            self._recorder.warning(
                endpoints,
                "TooManyAddressesToMirror",
                "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. "
                f"{plan.skipped} addresses were skipped",
            )
        await self._writer.write(endpoints, plan.slices)


def _mirrored(endpoints: Obj, service: Obj) -> bool:
    meta = endpoints["metadata"]
    if (meta.get("labels") or {}).get(SKIP) == "true" or service["spec"].get("selector"):
        return False
    return LEADER not in (meta.get("annotations") or ())


def _selector_matters(change: Change) -> bool:
    had = [bool(one["spec"].get("selector")) for one in (change.old, change.new) if one is not None]
    return had == [False] or len(set(had)) == 2
