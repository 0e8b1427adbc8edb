"""The names and services of the cluster, as one node's pods see them.

Informers feed a directory; the directory feeds hosts files and the service proxy.
"""

from __future__ import annotations

import asyncio
import logging

from corral.cluster.node.network.entries import PodEntry, ServiceEntry, compact_pod
from corral.cluster.node.network.grounds import GatewayGround, LoopbackGround
from corral.cluster.node.network.identity import api_server
from corral.cluster.node.network.names.hosts import HostsFile
from corral.cluster.node.network.names.updates import NamesWriter
from corral.cluster.node.network.services.directory import API_SERVICE, Directory, Record
from corral.cluster.node.network.services.proxy import ServiceProxy
from corral.kube.resources import ENDPOINTSLICES, PODS, SERVICES
from corral.kube.types import Obj
from corral.runtime import Change, Informer, Manager

logger = logging.getLogger(__name__)

_FOREIGN_SLICES = "endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io"
"""Slices that are made of pods are not watched: pods are."""


class ClusterNames:
    """Keeps names and services of one node up to date between ``start`` and ``stop``."""

    def __init__(
        self, manager: Manager, *, node: str, domain: str, own: Informer | None = None
    ) -> None:
        """``own`` has the pods of this node; without it they are among all the others."""
        self._domain = domain
        self._api = api_server(manager.client.config)
        if own is None:
            self._pods: tuple[Informer, ...] = (manager.informer(PODS, transform=compact_pod),)
        else:
            elsewhere = f"spec.nodeName!={node},spec.nodeName!="
            others = manager.informer(PODS, field_selector=elsewhere, transform=compact_pod)
            self._pods = (own, others)
        self._uids: dict[str, str] = {}
        self._services = manager.informer(SERVICES)
        self._slices = manager.informer(ENDPOINTSLICES, label_selector=_FOREIGN_SLICES)
        self._recorder = manager.recorder("corral-network", host=node)
        self._tasks: list[asyncio.Task[None]] = []
        self._directory: Directory | None = None
        self._proxy: ServiceProxy | None = None
        self._writer = NamesWriter(self._records, domain=domain)
        self._ground: GatewayGround | LoopbackGround | None = None

    # -- beginning and end -----------------------------------------------------------------------

    def ground(self, ground: GatewayGround | LoopbackGround) -> None:
        """Where services are offered; before ``start``."""
        self._ground = ground

    def start(self) -> None:
        """Follow the cluster from now on."""
        assert self._ground is not None
        directory = Directory(
            on_names=self._writer.change,
            on_service=self._service_changed,
            shown=self._ground.shown,
            api=self._api,
            domain=self._domain,
        )
        self._directory = directory
        self._proxy = ServiceProxy(directory, self._ground, complain=self._complain)
        self._services.add_handler(self._on_service)
        self._slices.add_handler(self._on_slice)
        for pods in self._pods:
            pods.add_handler(self._on_pod)
        self._tasks = [
            asyncio.create_task(self._begin(), name="names at first"),
            asyncio.create_task(self._writer.run(), name="names"),
            asyncio.create_task(self._proxy.run(), name="services"),
        ]
        for task in self._tasks:
            task.add_done_callback(_report)

    async def _begin(self) -> None:
        for informer in (self._services, self._slices, *self._pods):
            await informer.wait_synced()
        self._writer.begin()

    async def stop(self) -> None:
        """Follow no more; connections to services are broken off."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        self._directory = None
        if self._proxy is not None:
            await self._proxy.stop()

    async def known_pods(self) -> set[str]:
        """The uids of all pods of the cluster, once they are known."""
        for pods in self._pods:
            await pods.wait_synced()
        return {pod["metadata"]["uid"] for pods in self._pods for pod in pods.store}

    # -- what informers say ----------------------------------------------------------------------

    def _on_pod(self, change: Change) -> None:
        if self._directory is None:
            return
        if change.new is not None:
            self._uids[change.key] = change.new["metadata"]["uid"]
            self._directory.set_pod(change.key, PodEntry.of(change.new))
        elif self._uids.get(change.key) == change.object["metadata"]["uid"]:
            # else there is another one of this name by now, on another node
            del self._uids[change.key]
            self._directory.set_pod(change.key, None)

    def _on_service(self, change: Change) -> None:
        if self._directory is not None:
            entry = ServiceEntry.of(change.new) if change.new is not None else None
            self._directory.set_service(change.key, entry)

    def _on_slice(self, change: Change) -> None:
        if self._directory is not None:
            self._directory.set_slice(change.key, change.old, change.new)

    def _service_changed(self, key: str) -> None:
        if self._proxy is not None:
            self._proxy.changed(key)

    def _complain(self, entry: ServiceEntry, reason: str, message: str) -> None:
        service = self._services.store.get(entry.key)
        if entry.key == API_SERVICE:
            logger.info("the API server is not reached at its service address: %s", message)
        elif service is not None:
            self._recorder.warning(SERVICES.stamp(service), reason, message)

    # -- names -----------------------------------------------------------------------------------

    def _records(self) -> frozenset[Record]:
        return frozenset(self._directory.records()) if self._directory else frozenset()

    def add(self, namespace: str, uid: str, file: HostsFile, *, is_new: bool) -> None:
        """Keep a pod's hosts file up to date; a new one is written now."""
        if is_new:
            self._writer.add(namespace, uid, file)
        else:
            self._writer.adopt(namespace, uid, file)

    def remove(self, namespace: str, uid: str) -> None:
        self._writer.remove(namespace, uid)

    # -- services --------------------------------------------------------------------------------

    def services(self, namespace: str, *, direct: bool, others: bool) -> list[Obj]:
        """Services with addresses that work in pods of a namespace, and the API server's.

        ``direct`` names the API server itself in place of its service.
        """
        found = [
            self._as_shown(service)
            for service in (self._services.store.objects(namespace) if others else ())
            if f"{namespace}/{service['metadata']['name']}" != API_SERVICE
        ]
        api = self._services.store.get(API_SERVICE)
        if direct:
            found.append(self._api_itself())
        elif api is not None:
            found.append(api)
        return found

    def _as_shown(self, service: Obj) -> Obj:
        address = ServiceEntry.of(service).address
        if not address or self._ground is None:
            return service
        return {**service, "spec": {**service["spec"], "clusterIP": self._ground.shown(address)}}

    def _api_itself(self) -> Obj:
        host, port = self._api
        return {
            "metadata": {"name": "kubernetes", "namespace": "default"},
            "spec": {
                "clusterIP": host,
                "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
            },
        }


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.critical("%s ended: names or services are stale", task.get_name(),
                        exc_info=task.exception())  # fmt: skip
