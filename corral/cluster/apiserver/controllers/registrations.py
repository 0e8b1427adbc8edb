"""API services: every group and version the server has is registered, custom ones as they come.

Those of other servers are kept as they are and reported as not available: requests are not
forwarded.
"""

from __future__ import annotations

from corral.cluster.apiserver.controllers.access import Access
from corral.cluster.apiserver.controllers.queue import KeyedQueue
from corral.cluster.apiserver.resources import Catalog
from corral.cluster.apiserver.store import Event
from corral.kube import errors
from corral.kube.types import Obj

TABLE = "apiregistration.k8s.io/apiservices"
DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
MANAGED = "kube-aggregator.kubernetes.io/automanaged"
AT_START, ALWAYS = "onstart", "true"
CUSTOM_PRIORITY = (1000, 100)
PRIORITIES = {
    "": (18000, 1),
    "apps": (17800, 15),
    "events.k8s.io": (17750, 15),
    "authentication.k8s.io": (17700, 15),
    "authorization.k8s.io": (17600, 15),
    "autoscaling": (17500, 15),
    "batch": (17400, 15),
    "certificates.k8s.io": (17300, 15),
    "networking.k8s.io": (17200, 15),
    "policy": (17100, 15),
    "rbac.authorization.k8s.io": (17000, 15),
    "storage.k8s.io": (16800, 15),
    "apiextensions.k8s.io": (16700, 15),
    "admissionregistration.k8s.io": (16700, 15),
    "scheduling.k8s.io": (16600, 15),
    "coordination.k8s.io": (16500, 15),
    "node.k8s.io": (16300, 15),
    "discovery.k8s.io": (16200, 15),
    "resource.k8s.io": (16200, 21),
    "flowcontrol.apiserver.k8s.io": (16100, 21),
    "storagemigration.k8s.io": (15800, 15),
    "metrics.k8s.io": (100, 100),
}
"""Group and version priority of the built-in groups."""
VERSION_PRIORITIES = {("autoscaling", "v2"): 30}


class Registrations:
    """Keeps the API services in step with what is served."""

    def __init__(self, access: Access, catalog: Catalog) -> None:
        self._access = access
        self._store = access.store
        self._catalog = catalog
        self._started = False
        self._queue: KeyedQueue[str] = KeyedQueue("registrations", self._sync, workers=1)

    def start(self) -> None:
        self._store.listen(self._on_event)
        self._queue.start()
        self._queue.add(TABLE)

    async def stop(self) -> None:
        await self._queue.stop()

    def _on_event(self, event: Event) -> None:
        if event.entry.resource in (TABLE, DEFINITIONS):
            self._queue.add(TABLE)

    async def _sync(self, _: str) -> None:
        wanted = self._wanted()
        found = {entry.name: entry.decode() for entry in self._store.scan(TABLE)}
        for name, service in wanted.items():
            if name not in found and (not self._started or _managed(service) == ALWAYS):
                try:
                    await self._access.create(TABLE, "", service)
                except errors.AlreadyExists:
                    continue
        for name, service in found.items():
            if name not in wanted and _managed(service) == ALWAYS:
                await self._remove(name)
            elif _available(service) is None:
                await self._report(name)
        self._started = True

    def _wanted(self) -> dict[str, Obj]:
        out = {}
        for group, versions in self._catalog.groups().items():
            if group == "apiregistration.k8s.io":
                continue
            for version in versions:
                custom = any(info.custom for info in self._catalog.resources(group, version))
                service = local_service(group, version, custom=custom)
                out[service["metadata"]["name"]] = service
        return out

    async def _remove(self, name: str) -> None:
        try:
            await self._access.delete(TABLE, "", name, {})
        except errors.NotFound:
            return

    async def _report(self, name: str) -> None:
        def change(live: Obj) -> Obj:
            condition = self._availability(live)
            condition["lastTransitionTime"] = self._access.verbs.registry.timestamp()
            live["status"] = {"conditions": [condition]}
            return live

        try:
            await self._access.update(TABLE, "", name, change=change, subresource="status")
        except errors.NotFound:
            return

    def _availability(self, service: Obj) -> Obj:
        """The Available condition."""
        target = (service.get("spec") or {}).get("service")
        if target is None:
            return _condition("True", "Local", "Local APIServices are always available")
        namespace, name = target.get("namespace", ""), target.get("name", "")
        if self._store.get("/services", f"{namespace}/{name}") is None:
            message = f'service/{name} in "{namespace}" is not present'
            return _condition("False", "ServiceNotFound", message)
        message = "requests for other API servers are not forwarded"
        return _condition("False", "FailedDiscoveryCheck", message)


def _condition(status: str, reason: str, message: str) -> Obj:
    return {"type": "Available", "status": status, "reason": reason, "message": message}


def local_service(group: str, version: str, *, custom: bool) -> Obj:
    """The API service of a group and version that this server has itself."""
    of_group, of_version = CUSTOM_PRIORITY if custom else PRIORITIES.get(group, CUSTOM_PRIORITY)
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {
            "name": f"{version}.{group}",
            "labels": {MANAGED: ALWAYS if custom else AT_START},
        },
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": of_group,
            "versionPriority": VERSION_PRIORITIES.get((group, version), of_version),
        },
    }


def _available(service: Obj) -> Obj | None:
    """The condition, where it still says what is true of the spec."""
    local = (service.get("spec") or {}).get("service") is None
    for condition in (service.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Available" and (condition.get("reason") == "Local") == local:
            return dict(condition)
    return None


def _managed(service: Obj) -> str:
    return str((service["metadata"].get("labels") or {}).get(MANAGED, ""))
