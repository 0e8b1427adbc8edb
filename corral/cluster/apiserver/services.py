"""Addresses and node ports of services, allocated as part of the write."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.strategy.allocation import (
    ServiceNetwork,
    Taken,
    allocate_create,
    allocate_update,
    claims,
)
from corral.cluster.apiserver.requests import Context
from corral.cluster.apiserver.store import DELETED, Event, Store
from corral.kube.types import Obj

TABLE = "/services"


class ServiceAllocator:
    """The write hook of services. Committed claims follow the store, pending ones are looked up."""

    def __init__(self, store: Store, network: ServiceNetwork) -> None:
        self._store = store
        self._network = network
        self._claims: dict[str, tuple[set[str], set[int]]] = {}

    def start(self) -> None:
        for entry in self._store.scan(TABLE):
            self._claims[entry.key] = claims(entry.decode())
        self._store.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.entry.resource != TABLE:
            return
        if event.type == DELETED:
            self._claims.pop(event.entry.key, None)
        else:
            self._claims[event.entry.key] = claims(event.entry.decode())

    def _taken(self, context: Context) -> Taken:
        held = [*self._claims.values()]
        held += [claims(entry.decode()) for entry in self._store.pending(TABLE)]
        # A dry run of a real server looks at the ports that are taken, not at the addresses.
        addresses = set() if context.dry_run else {a for found, _ in held for a in found}
        ports = {p for _, found in held for p in found}
        return Taken(addresses, ports)

    def before_create(self, obj: Obj, context: Context) -> None:
        allocate_create(obj, self._taken(context), self._network)

    def before_update(self, new: Obj, old: Obj, context: Context) -> None:
        allocate_update(new, old, self._taken(context), self._network)
