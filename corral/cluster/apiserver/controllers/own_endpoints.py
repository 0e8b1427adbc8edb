"""The ``kubernetes`` Service leads to this server: its Endpoints and EndpointSlice, kept right.

The Service itself is made again when somebody has deleted it: without it no pod finds the server.
Where the server listens on an address that endpoints may not have, there are none.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

from corral.cluster.apiserver.auth.bootstrap import kubernetes_endpoints
from corral.cluster.apiserver.controllers.access import Access
from corral.cluster.apiserver.controllers.queue import KeyedQueue
from corral.cluster.apiserver.store import Event
from corral.kube import errors
from corral.kube.types import Obj

__all__ = ["OwnEndpoints", "advertised"]

TABLES = {"Endpoints": "/endpoints", "EndpointSlice": "discovery.k8s.io/endpointslices"}
SERVICE = "/services"
NAMESPACE, NAME = "default", "kubernetes"
_OWN = ("subsets", "addressType", "endpoints", "ports")


def advertised(listening: str, *, loopback: bool) -> str | None:
    """The address under which a server is reached that listens on one; None if there is none.

    ``loopback``: endpoints may have addresses of 127.0.0.0/8.
    """
    address = ip_address(listening)
    if address.is_unspecified:
        address = ip_address(_outgoing(address.version))
    allowed = not (address.is_link_local or address.is_unspecified)
    if address.is_loopback:
        allowed = loopback and address.version == 4
    return str(address) if allowed else None


def _outgoing(version: int) -> str:
    """The address that connections to elsewhere would come from. Nothing is sent."""
    family, target, alone = (
        (socket.AF_INET6, "2001:db8::1", "::1")
        if version == 6
        else (socket.AF_INET, "192.0.2.1", "127.0.0.1")
    )
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((target, 9))
            return str(sock.getsockname()[0])
    except OSError:
        return alone  # no way out of this machine


class OwnEndpoints:
    """Writes both objects at the start, and again when somebody changes or deletes them."""

    def __init__(
        self,
        access: Access,
        where: Callable[[], tuple[str | None, int]],
        service: Callable[[], Obj],
    ) -> None:
        """``where``: the advertised address, if any, and the port; ``service``: as it is made."""
        self._service = service
        self._access = access
        self._store = access.store
        self._where = where
        self._queue: KeyedQueue[str] = KeyedQueue("own-endpoints", self._sync, workers=1)

    def start(self) -> None:
        self._store.listen(self._on_event)
        self._queue.start()
        for kind in (*TABLES, SERVICE):
            self._queue.add(kind)

    async def stop(self) -> None:
        await self._queue.stop()

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if entry.key != f"{NAMESPACE}/{NAME}":
            return
        for kind, table in TABLES.items():
            if entry.resource == table:
                self._queue.add(kind)
        if entry.resource == SERVICE:
            self._queue.add(SERVICE)

    async def _sync_service(self) -> None:
        """As it is, where there is one: its owner may change it."""
        if self._store.get(SERVICE, f"{NAMESPACE}/{NAME}") is None:
            with suppress(errors.AlreadyExists):
                await self._access.create(SERVICE, NAMESPACE, self._service())

    async def _sync(self, kind: str) -> None:
        if kind == SERVICE:
            await self._sync_service()
            return
        address, port = self._where()
        if address is None:
            return
        wanted = next(o for o in kubernetes_endpoints(address, port) if o["kind"] == kind)
        table = TABLES[kind]
        entry = self._store.get(table, f"{NAMESPACE}/{NAME}")
        if entry is None:
            try:
                await self._access.create(table, NAMESPACE, wanted)
            except errors.AlreadyExists:
                self._queue.add(kind)
            return
        if entry.deleting or _holds(entry.decode(), wanted):
            return
        if kind == "EndpointSlice" and entry.decode().get("addressType") != wanted["addressType"]:
            # The family of a slice cannot change: its deletion brings us back here.
            await self._access.delete(table, NAMESPACE, NAME, {})
            return
        try:
            await self._access.update(
                table, NAMESPACE, NAME, change=lambda live: _corrected(live, wanted)
            )
        except errors.NotFound:
            self._queue.add(kind)


def _holds(live: Obj, wanted: Obj) -> bool:
    labels = live["metadata"].get("labels") or {}
    if not wanted["metadata"]["labels"].items() <= labels.items():
        return False
    return all(live.get(field) == wanted.get(field) for field in _OWN)


def _corrected(live: Obj, wanted: Obj) -> Obj:
    meta = live["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), **wanted["metadata"]["labels"]}
    for field in _OWN:
        if field in wanted:
            live[field] = wanted[field]
    return live
