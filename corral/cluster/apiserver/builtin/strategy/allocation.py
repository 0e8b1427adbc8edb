"""Addresses and node ports of services: a pure allocator over what is already taken.

The server keeps ``Taken`` (rebuilt at start from ``claims`` of every stored service), calls
``allocate_create`` or ``allocate_update`` after preparing and defaulting a service and before
validating it, and after the write has succeeded replaces the old service's claims by the new
one's. The functions change the service in place and nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import chain
from typing import Any

from corral.cluster.apiserver.builtin.validation.fields.errors import repeated
from corral.cluster.apiserver.errors import FieldError, internal, invalid, invalid_value, show
from corral.kube.types import Obj

from .service import needs_cluster_ip, needs_health_check

__all__ = ["ServiceNetwork", "Taken", "allocate_create", "allocate_update", "claims"]

_SINGLE, _REQUIRE = "SingleStack", "RequireDualStack"


@dataclass
class Taken:
    """What existing services hold."""

    addresses: set[str] = field(default_factory=set)
    ports: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class ServiceNetwork:
    """Where addresses and ports come from."""

    cidr: str = "10.96.0.0/16"
    """The range of cluster addresses; its family is the only one served."""
    first_port: int = 30000
    last_port: int = 32767
    rng: random.Random = field(default_factory=random.Random, compare=False)

    @property
    def network(self) -> IPv4Network | IPv6Network:
        return ip_network(self.cidr)

    @property
    def family(self) -> str:
        return f"IPv{self.network.version}"


def claims(service: Obj) -> tuple[set[str], set[int]]:
    """The addresses and ports that a stored service holds."""
    spec = service.get("spec") or {}
    addresses = {a for a in spec.get("clusterIPs") or () if a and a != "None"}
    ports = {p["nodePort"] for p in spec.get("ports") or () if p.get("nodePort")}
    if spec.get("healthCheckNodePort"):
        ports.add(spec["healthCheckNodePort"])
    return addresses, ports


def allocate_create(service: Obj, taken: Taken, network: ServiceNetwork) -> None:
    """Complete a new service; raises Invalid or InternalError when it cannot be served."""
    spec = service["spec"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    _choose_families(service, None, network)
    ports = _Ports(taken.ports, network)
    if needs_cluster_ip(spec):
        _allocate_addresses(service, taken, network)
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        _first_ports(service, ports)
    if needs_health_check(spec):
        _health_check_port(spec, ports)


def allocate_update(new: Obj, old: Obj, taken: Taken, network: ServiceNetwork) -> None:
    """Complete a changed service: keep what it has, allocate what it newly needs."""
    spec, before = new["spec"], old["spec"]
    _inherit(spec, before)
    _align_addresses(spec, before)
    _choose_families(new, before, network)
    if needs_cluster_ip(spec) and not needs_cluster_ip(before):
        _allocate_addresses(new, taken, network)
    ports = _Ports(taken.ports, network)
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        _changed_ports(new, before, ports)
    if needs_health_check(spec) and not needs_health_check(before):
        _health_check_port(spec, ports)


class _Ports:
    """Ports handed out during one write."""

    def __init__(self, taken: set[int], network: ServiceNetwork) -> None:
        self._taken = taken
        self._given: set[int] = set()
        self._network = network

    def claim(self, port: int) -> str:
        """Take a port somebody asked for; returns why not."""
        first, last = self._network.first_port, self._network.last_port
        if not first <= port <= last:
            return (
                "provided port is not in the valid range. "
                f"The range of valid ports is {first}-{last}"
            )
        if port in self._taken or port in self._given:
            return "provided port is already allocated"
        self._given.add(port)
        return ""

    def next(self) -> int | None:
        """Any free port, from the upper band first: the lower one is for people to choose from."""
        first, size = (
            self._network.first_port,
            self._network.last_port + 1 - self._network.first_port,
        )
        band = min(max(16, size // 32), 128) if size > 32 else 0
        port = _pick(
            band, size, self._network.rng,
            free=lambda n: first + n not in self._taken and first + n not in self._given,
        )  # fmt: skip
        if port is None:
            return None
        self._given.add(first + port)
        return first + port


def _pick(band: int, size: int, rng: random.Random, free: Callable[[int], bool]) -> int | None:
    """A free number below size: beyond the band from a random start, then inside the band."""
    for low, high in ((band, size), (0, band)):
        if high <= low:
            continue
        start = rng.randrange(low, high)
        for number in chain(range(start, high), range(low, start)):
            if free(number):
                return number
    return None


def _refuse(service: Obj, *problems: FieldError) -> Exception:
    return invalid("", "Service", service["metadata"].get("name") or "", problems)


def _choose_families(service: Obj, before: Obj | None, network: ServiceNetwork) -> None:
    spec = service["spec"]
    if not needs_cluster_ip(spec):
        return
    bare_headless = spec.get("clusterIP") == "None" and not spec.get("selector")
    if not spec.get("ipFamilyPolicy"):
        inherited = (before or {}).get("ipFamilyPolicy")
        spec["ipFamilyPolicy"] = inherited or (_REQUIRE if bare_headless else _SINGLE)
    policy = spec["ipFamilyPolicy"]
    if before is not None and policy == _SINGLE:
        for key in ("clusterIPs", "ipFamilies"):
            values = spec.get(key) or []
            if len(values) > 1 and values == before.get(key):
                spec[key] = values[:1]
    problems = _family_problems(spec, policy, network, bare_headless=bare_headless)
    if problems:
        raise _refuse(service, *problems)
    families: list[str] = list(spec.get("ipFamilies") or ())
    addresses = [a for a in spec.get("clusterIPs") or () if a != "None"]
    families += [f"IPv{ip_address(a).version}" for a in addresses[len(families) :]]
    if not families:
        families = [network.family]
    if bare_headless and len(families) < 2 and policy != _SINGLE:
        families.append("IPv6" if families[0] == "IPv4" else "IPv4")
    spec["ipFamilies"] = families


def _family_problems(
    spec: Obj, policy: str, network: ServiceNetwork, *, bare_headless: bool
) -> list[FieldError]:
    problems: list[FieldError] = []
    addresses, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    if policy == _SINGLE:
        for values, what in ((addresses, "cluster IPs"), (families, "IP families")):
            if len(values) == 2:
                detail = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what}"
                problems.append(
                    invalid_value("spec.ipFamilyPolicy", policy, f"{detail} are specified")
                )
    shown = ""
    for i, address in enumerate(addresses):
        if address == "None":
            break
        try:
            family = f"IPv{ip_address(address).version}"
        except ValueError:
            detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            problems.append(invalid_value(f"spec.clusterIPs[{i}]", address, detail))
            continue
        if i >= len(families) and family != network.family:
            shown = shown or repeated(show(addresses), len(addresses))
            body = f"Invalid value: {shown}: {family} is not configured on this cluster"
            problems.append(FieldError("FieldValueInvalid", f"spec.clusterIPs[{i}]", body))
    if problems or bare_headless:
        return problems
    if policy == _REQUIRE:
        detail = "this cluster is not configured for dual-stack services"
        problems.append(invalid_value("spec.ipFamilyPolicy", policy, detail))
    problems += [
        invalid_value(f"spec.ipFamilies[{i}]", family, "not configured on this cluster")
        for i, family in enumerate(families)
        if family != network.family
    ]
    return problems


def _allocate_addresses(service: Obj, taken: Taken, network: ServiceNetwork) -> None:
    spec = service["spec"]
    asked = spec.get("clusterIPs") or []
    if asked[:1] == ["None"]:
        return
    block = network.network
    if asked and asked[0]:
        why = _address_problem(asked[0], taken, block)
        if why:
            detail = f"failed to allocate IP {asked[0]}: {why}"
            raise _refuse(service, invalid_value("spec.clusterIPs", asked, detail))
        spec["clusterIP"], spec["clusterIPs"] = asked[0], [asked[0]]
        return
    size = block.num_addresses
    band = min(max(16, size // 16), 256) if size > 32 else 0
    # The first and, for IPv4, the last address of the range belong to nobody.
    last = size - 1 if block.version == 4 else size
    base = int(block.network_address)
    number = _pick(
        band, min(last, 2**20), network.rng,
        free=lambda n: n > 0 and str(ip_address(base + n)) not in taken.addresses,
    )  # fmt: skip
    if number is None:
        name = service["metadata"].get("name") or ""
        raise internal(f'failed to allocate a serviceIP for Service "{name}": range is full')
    address = str(block[number])
    spec["clusterIP"], spec["clusterIPs"] = address, [address]


def _address_problem(address: str, taken: Taken, block: IPv4Network | IPv6Network) -> str:
    parsed = ip_address(address)
    edge = {block.network_address, block.broadcast_address if block.version == 4 else None}
    if parsed.version != block.version or parsed not in block or parsed in edge:
        return (
            f"the provided IP ({address}) is not in the valid range. "
            f"The range of valid IPs is {block}"
        )
    return "provided IP is already allocated" if address in taken.addresses else ""


def _wants_node_ports(spec: Obj) -> bool:
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return bool(spec.get("type") == "NodePort")


def _first_ports(service: Obj, ports: _Ports) -> None:
    """One node port per service port number: protocols on the same port share it."""
    spec = service["spec"]
    shared: dict[int, int] = {}
    asked_for: dict[int | None, int] = {}
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            asked_for.setdefault(port.get("port"), int(port["nodePort"]))
    for i, port in enumerate(spec.get("ports") or ()):
        asked, number = port.get("nodePort") or 0, port.get("port") or 0
        if not asked and not _wants_node_ports(spec):
            continue
        known = shared.get(number)
        if known is None:
            wanted = asked or asked_for.get(number, 0)
            shared[number] = port["nodePort"] = (
                _claim(service, ports, i, wanted) if wanted else _next(ports)
            )
        elif not asked:
            port["nodePort"] = known
        elif asked != known:
            _claim(service, ports, i, asked)


def _changed_ports(service: Obj, before: Obj, ports: _Ports) -> None:
    spec = service["spec"]
    held = {p["nodePort"] for p in before.get("ports") or () if p.get("nodePort")}
    claimed: set[int] = set()
    seen: set[tuple[Any, int]] = set()
    for i, port in enumerate(spec.get("ports") or ()):
        asked = port.get("nodePort") or 0
        if asked:
            if asked not in held and asked not in claimed:
                _claim(service, ports, i, asked)
                claimed.add(asked)
        elif _wants_node_ports(spec):
            asked = port["nodePort"] = _next(ports)
        else:
            continue
        if (port.get("protocol"), asked) in seen:
            raise internal(f"duplicate nodePort: {{{port.get('protocol')} {asked}}}")
        seen.add((port.get("protocol"), asked))


def _claim(service: Obj, ports: _Ports, index: int, port: int) -> int:
    why = ports.claim(port)
    if why:
        raise _refuse(service, invalid_value(f"spec.ports[{index}].nodePort", port, why))
    return port


def _next(ports: _Ports) -> int:
    port = ports.next()
    if port is None:
        raise internal("failed to allocate a nodePort: range is full")
    return port


def _health_check_port(spec: Obj, ports: _Ports) -> None:
    asked = spec.get("healthCheckNodePort")
    if not asked:
        spec["healthCheckNodePort"] = _next(ports)
        return
    why = ports.claim(asked)
    if why:
        raise internal(f"failed to allocate requested HealthCheck NodePort {asked}: {why}")


def _inherit(spec: Obj, before: Obj) -> None:
    """Clients that leave allocated values out keep them."""
    if needs_cluster_ip(before) and needs_cluster_ip(spec):
        for key in ("clusterIP", "clusterIPs"):
            if not spec.get(key) and before.get(key):
                spec[key] = before[key]
    if _wants_node_ports(before) and _wants_node_ports(spec):
        old_ports, new_ports = before.get("ports") or (), spec.get("ports") or ()
        kept = {p["nodePort"] for p in old_ports if p.get("nodePort")}
        used = kept & {p["nodePort"] for p in new_ports if p.get("nodePort")}
        by_name = {p.get("name") or "": p.get("nodePort") or 0 for p in old_ports}
        for port in new_ports:
            inherited = by_name.get(port.get("name") or "", 0)
            if not port.get("nodePort") and inherited and inherited not in used:
                port["nodePort"] = inherited
    if needs_health_check(before) and needs_health_check(spec):
        if not spec.get("healthCheckNodePort") and before.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = before["healthCheckNodePort"]


def _align_addresses(spec: Obj, before: Obj) -> None:
    """Keep the single address and the list in step for clients that know only one of them."""
    single, old_single = spec.get("clusterIP") or "", before.get("clusterIP") or ""
    several, old_several = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if old_several and not several and single == old_single:
        spec["clusterIPs"] = old_several
    if single != old_single and several == old_several:
        if old_single and not single:
            spec.pop("clusterIPs", None)
        else:
            spec["clusterIPs"] = [single]
