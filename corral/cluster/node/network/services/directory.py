"""Which pods stand behind which service, and which names lead where. No I/O.

Fed with pods, services and endpoint slices in any order, it tells two listeners what changed:

* ``on_names(gone, new)``: records that hosts files should no longer have, and should have;
* ``on_service(key)``: a service came, changed or went, or a port of it got its first target or
  lost its last; the targets themselves are kept up to date in place (``service(key)``).

A change of one pod costs as much as there are services that select it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from corral.cluster.node.network.entries import PodEntry, PortEntry, ServiceEntry
from corral.cluster.node.network.services.targets import Target, Targets
from corral.kube.types import Obj

API_SERVICE = "default/kubernetes"
_SLICE_LABEL = "kubernetes.io/service-name"
_OWN = ""
"""Under which a service keeps the records that are no pod's."""


class Record(NamedTuple):
    """A name and an address to which it leads."""

    namespace: str
    name: str
    """``service`` or ``host.service``."""
    address: str


class ServiceState:
    """One service and what is behind it."""

    def __init__(self, entry: ServiceEntry) -> None:
        self.entry = entry
        self.targets: dict[PortEntry, Targets] = {
            port: Targets(affinity=entry.affinity) for port in entry.ports
        }
        self.members: set[str] = set()
        """Keys of the pods it selects."""
        self.records: dict[str, frozenset[Record]] = {}


Names = Callable[[frozenset[Record], frozenset[Record]], None]


class Directory:
    """Everything that is known of one cluster."""

    def __init__(
        self,
        *,
        on_names: Names,
        on_service: Callable[[str], None],
        shown: Callable[[str], str] = lambda address: address,
        api: Target | None = None,
        domain: str = "cluster.local",
    ) -> None:
        """``shown`` gives the address under which pods of this node reach a service's.

        ``api`` is where the service of the API server leads.
        """
        self._on_names = on_names
        self._on_service = on_service
        self._shown = shown
        self._api = api
        self._domain = domain
        self._pods: dict[str, PodEntry] = {}
        self._pods_by_label: dict[tuple[str, str, str], set[str]] = {}
        self._services: dict[str, ServiceState] = {}
        self._selectors: dict[tuple[str, str, str], set[str]] = {}
        """Services by the first pair of their selectors: those that a pod's label may concern."""
        self._slices: dict[str, dict[str, Obj]] = {}
        self._aliases: dict[str, set[str]] = {}
        """Service → services that are only other names for it."""

    # -- reading ---------------------------------------------------------------------------------

    def service(self, key: str) -> ServiceState | None:
        return self._services.get(key)

    def records(self) -> Iterable[Record]:
        """Every record there is."""
        for state in self._services.values():
            for records in state.records.values():
                yield from records

    # -- pods ------------------------------------------------------------------------------------

    def set_pod(self, key: str, entry: PodEntry | None) -> None:
        """A pod as it is now; None when it is gone."""
        old = self._pods.get(key)
        if old == entry:
            return
        for pod in (old, entry):
            for label in pod.labels if pod else ():
                self._file_pod(key, (pod.namespace, *label), there=pod is entry)  # type: ignore[union-attr]
        if entry is None:
            del self._pods[key]
        else:
            self._pods[key] = entry
        concerned = {*self._selecting(old), *self._selecting(entry)}
        for service in sorted(concerned):
            self._update_member(self._services[service], key)

    def _file_pod(self, key: str, label: tuple[str, str, str], *, there: bool) -> None:
        if there:
            self._pods_by_label.setdefault(label, set()).add(key)
            return
        keys = self._pods_by_label.get(label, set())
        keys.discard(key)
        if not keys:
            self._pods_by_label.pop(label, None)

    def _selecting(self, pod: PodEntry | None) -> Iterable[str]:
        for name, value in pod.labels if pod else ():
            for key in self._selectors.get((pod.namespace, name, value), ()):  # type: ignore[union-attr]
                if self._services[key].entry.selects(pod):  # type: ignore[arg-type]
                    yield key

    def _update_member(self, state: ServiceState, key: str) -> None:
        pod = self._pods.get(key)
        if pod is not None and not state.entry.selects(pod):
            pod = None
        if pod is None:
            state.members.discard(key)
        else:
            state.members.add(key)
        flipped = False
        for port, targets in state.targets.items():
            had = bool(targets)
            self._offer(targets, key, pod, port, state.entry)
            flipped = flipped or had != bool(targets)
        self._set_records(state, key, self._pod_records(state.entry, pod))
        if flipped:
            self._on_service(state.entry.key)

    def _offer(
        self, targets: Targets, key: str, pod: PodEntry | None, port: PortEntry, entry: ServiceEntry
    ) -> None:
        number = pod.port(port.target, port.protocol) if pod else 0
        if pod is None or not number or not (pod.ready or entry.publish_not_ready):
            targets.put(key, ())
            return
        ending = pod.ending and not entry.publish_not_ready
        targets.put(key, (Target(pod.address, number),), ending=ending)

    def _pod_records(self, entry: ServiceEntry, pod: PodEntry | None) -> frozenset[Record]:
        if pod is None or not (entry.publish_not_ready or (pod.ready and not pod.ending)):
            return frozenset()
        found = []
        if entry.headless:
            found.append(Record(entry.namespace, entry.name, pod.address))
        if pod.hostname and pod.subdomain == entry.name:
            found.append(Record(entry.namespace, f"{pod.hostname}.{entry.name}", pod.address))
        return frozenset(found)

    # -- services --------------------------------------------------------------------------------

    def set_service(self, key: str, entry: ServiceEntry | None) -> None:
        """A service as it is now; None when it is gone."""
        before = self._services.get(key)
        if before is not None and before.entry == entry:
            return
        if before is not None:
            self._file_service(before.entry, there=False)
            del self._services[key]
        records: dict[str, frozenset[Record]] = {}
        if entry is not None:
            state = self._services[key] = ServiceState(entry)
            self._file_service(entry, there=True)
            self._fill(state)
            records = state.records
        self._tell(before.records if before else {}, records)
        self._on_service(key)
        self._refresh_aliases(key)

    def _file_service(self, entry: ServiceEntry, *, there: bool) -> None:
        if entry.selector:
            keys = self._selectors.setdefault((entry.namespace, *entry.selector[0]), set())
            keys.add(entry.key) if there else keys.discard(entry.key)
        target = self._alias_of(entry)
        if target:
            names = self._aliases.setdefault(target, set())
            names.add(entry.key) if there else names.discard(entry.key)

    def _fill(self, state: ServiceState) -> None:
        """Everything about a service from the beginning."""
        entry = state.entry
        state.records[_OWN] = self._own_records(entry)
        if entry.key == API_SERVICE and self._api is not None:
            for targets in state.targets.values():
                targets.put(_OWN, (self._api,))
        elif entry.selector is None:
            self._fill_from_slices(state)
        else:
            first = (entry.namespace, *entry.selector[0])
            for key in sorted(self._pods_by_label.get(first, ())):
                pod = self._pods[key]
                if entry.selects(pod):
                    state.members.add(key)
                    for port, targets in state.targets.items():
                        self._offer(targets, key, pod, port, entry)
                    state.records[key] = self._pod_records(entry, pod)

    def _own_records(self, entry: ServiceEntry) -> frozenset[Record]:
        if entry.address:
            return frozenset({Record(entry.namespace, entry.name, self._shown(entry.address))})
        target = self._services.get(self._alias_of(entry))
        if target is None:
            return frozenset()
        return frozenset(
            Record(entry.namespace, entry.name, record.address)
            for records in target.records.values()
            for record in records
            if record.name == target.entry.name
        )

    # -- names for services ----------------------------------------------------------------------

    def _alias_of(self, entry: ServiceEntry) -> str:
        """The service of this cluster that an ExternalName means; empty for other names."""
        words = entry.external_name.rstrip(".").split(".")
        tail = ["svc", *self._domain.split(".")]
        if len(words) > 2 and words[2:] in (tail, ["svc"]):
            return f"{words[1]}/{words[0]}"
        return ""

    def _refresh_aliases(self, key: str) -> None:
        for alias in sorted(self._aliases.get(key, ())):
            if alias != key and alias in self._services:
                state = self._services[alias]
                self._set_records(state, _OWN, self._own_records(state.entry))

    def _set_records(self, state: ServiceState, owner: str, records: frozenset[Record]) -> None:
        before = state.records.get(owner, frozenset())
        if before == records:
            return
        if records:
            state.records[owner] = records
        else:
            state.records.pop(owner, None)
        self._on_names(before - records, records - before)
        if owner != _OWN:
            self._refresh_aliases(state.entry.key)

    def _tell(
        self, before: dict[str, frozenset[Record]], after: dict[str, frozenset[Record]]
    ) -> None:
        old = frozenset().union(*before.values()) if before else frozenset()
        new = frozenset().union(*after.values()) if after else frozenset()
        if old != new:
            self._on_names(old - new, new - old)

    # -- endpoint slices -------------------------------------------------------------------------

    def set_slice(self, key: str, old: Obj | None, new: Obj | None) -> None:
        """A slice as it was and is; read only for services without a selector."""
        services = set()
        for piece in (old, new):
            if piece is not None:
                label = (piece["metadata"].get("labels") or {}).get(_SLICE_LABEL, "")
                service = f"{piece['metadata'].get('namespace', '')}/{label}"
                services.add(service)
                if piece is new:
                    self._slices.setdefault(service, {})[key] = piece
                elif service in self._slices:
                    self._slices[service].pop(key, None)
        for service in sorted(services):
            state = self._services.get(service)
            if state is not None and state.entry.selector is None and service != API_SERVICE:
                self._fill_from_slices(state, tell=True)

    def _fill_from_slices(self, state: ServiceState, *, tell: bool = False) -> None:
        entry = state.entry
        offered: dict[PortEntry, list[Target]] = {port: [] for port in entry.ports}
        addresses: set[str] = set()
        for piece in self._slices.get(entry.key, {}).values():
            ready = _ready_addresses(piece)
            addresses.update(ready)
            for port in entry.ports:
                number = _slice_port(piece, port)
                offered[port] += [Target(address, number) for address in ready if number]
        flipped = False
        for port, targets in state.targets.items():
            had = bool(targets)
            targets.put(_OWN, tuple(dict.fromkeys(offered[port])))
            flipped = flipped or had != bool(targets)
        records = self._own_records(entry)
        if entry.headless:
            records = frozenset(Record(entry.namespace, entry.name, ip) for ip in addresses)
        if tell:
            self._set_records(state, _OWN, records)
            if flipped:
                self._on_service(entry.key)
        else:
            state.records[_OWN] = records


def _ready_addresses(piece: Obj) -> list[str]:
    if piece.get("addressType", "IPv4") != "IPv4":
        return []
    return [
        address
        for endpoint in piece.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
        for address in endpoint.get("addresses") or ()
    ]


def _slice_port(piece: Obj, port: PortEntry) -> int:
    for offered in piece.get("ports") or ():
        same = (offered.get("name") or "") == port.name
        if same and (offered.get("protocol") or "TCP") == port.protocol:
            return offered.get("port") or 0
    return 0
