"""From the name in a request to an address: pods, their containers, the kubelets of nodes."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from corral.cluster.apiserver import errors as say
from corral.kube import errors
from corral.kube.types import Obj

PODS, NODES, SERVICES = "/pods", "/nodes", "/services"
SLICES = "discovery.k8s.io/endpointslices"
KUBELET_PORT = 10250
ADDRESS_TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
WEBSOCKET_FEATURE = "ExtendWebSocketsToKubelet"
SERVICE_LABEL = "kubernetes.io/service-name"


class Decodable(Protocol):
    """A stored object."""

    def decode(self) -> Obj: ...


class Objects(Protocol):
    """What is needed of the store."""

    def get(self, resource: str, key: str) -> Decodable | None: ...

    def scan(self, resource: str, prefix: str = "") -> Iterator[Decodable]: ...


@dataclass(frozen=True, slots=True)
class Kubelet:
    """Where the kubelet of a node listens."""

    node: str
    host: str
    port: int
    websockets: bool
    """It takes clients' WebSockets as they are."""

    @property
    def authority(self) -> str:
        return join_host_port(self.host, self.port)


@dataclass(frozen=True, slots=True)
class Backend:
    """Where a proxied request goes."""

    scheme: str
    host: str
    port: int
    kubelet: bool = False
    """It wants the API server's client certificate."""

    @property
    def authority(self) -> str:
        return join_host_port(self.host, self.port)


def join_host_port(host: str, port: int | str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Lookup:
    """Finds things; raises what kube-apiserver would say."""

    def __init__(
        self,
        objects: Objects,
        *,
        allow_loopback: bool = True,
        rng: random.Random | None = None,
    ) -> None:
        self.objects = objects
        self._allow_loopback = allow_loopback
        self._rng = rng or random.Random()

    def pod(self, namespace: str, name: str) -> Obj:
        entry = self.objects.get(PODS, f"{namespace}/{name}")
        if entry is None:
            raise say.not_found("", "pods", name)
        return entry.decode()

    def kubelet(self, node: str, *, plural: str = "pods") -> Kubelet:
        """``plural`` is the resource of the request: kube-apiserver blames that one."""
        entry = self.objects.get(NODES, node)
        if entry is None:
            raise say.not_found("", plural, node)
        return kubelet_of(entry.decode())

    def kubelet_of_pod(self, pod: Obj) -> Kubelet:
        node = pod["spec"].get("nodeName")
        if not node:
            name = pod["metadata"]["name"]
            raise errors.BadRequest(f"pod {name} does not have a host assigned")
        return self.kubelet(node)

    # -- proxies -----------------------------------------------------------------------------

    def pod_backend(self, namespace: str, text: str) -> Backend:
        scheme, name, port = split_scheme_name_port(text, "pod")
        pod = self.pod(namespace, name)
        if not port:
            ports = (c.get("ports") or [] for c in pod["spec"].get("containers") or [])
            first = next((p[0] for p in ports if p), None)
            port = str(first["containerPort"]) if first else ""
        status = pod.get("status") or {}
        address = (status.get("podIPs") or [{"ip": status.get("podIP", "")}])[0]["ip"]
        self._check_pod(pod, address)
        return Backend(scheme or "http", address, port_number(port, scheme))

    def node_backend(self, text: str) -> Backend:
        scheme, name, port = split_scheme_name_port(text, "node")
        kubelet = self.kubelet(name, plural="nodes")
        if _is_address(kubelet.host):
            self._check_address(kubelet.host)
        if not port or port == str(kubelet.port):
            return Backend("https", kubelet.host, kubelet.port, kubelet=True)
        if _is_own(kubelet.host):
            raise errors.BadRequest("address not allowed")
        return Backend(scheme or "http", kubelet.host, port_number(port, scheme))

    def service_backend(self, namespace: str, text: str) -> Backend:
        scheme, name, port = split_scheme_name_port(text, "service")
        if port.isdigit():
            port = self._port_name(namespace, name, int(port))
        slices = list(self._slices(namespace, name))
        self._rng.shuffle(slices)
        for found in slices:
            for candidate in found.get("ports") or []:
                if candidate.get("name", "") == port and candidate.get("port"):
                    address = self._ready(namespace, found.get("endpoints") or [])
                    if address:
                        return Backend(scheme or "http", address, int(candidate["port"]))
        raise errors.ServiceUnavailable(f'no endpoints available for service "{name}"')

    def _port_name(self, namespace: str, name: str, number: int) -> str:
        entry = self.objects.get(SERVICES, f"{namespace}/{name}")
        if entry is None:
            raise say.not_found("", "services", name)
        for port in entry.decode()["spec"].get("ports") or []:
            if port["port"] == number:
                return str(port.get("name", ""))
        raise errors.ServiceUnavailable(f'no service port {number} found for service "{name}"')

    def _slices(self, namespace: str, service: str) -> Iterator[Obj]:
        for entry in self.objects.scan(SLICES, f"{namespace}/"):
            found = entry.decode()
            if (found["metadata"].get("labels") or {}).get(SERVICE_LABEL) == service:
                yield found

    def _ready(self, namespace: str, endpoints: list[dict[str, Any]]) -> str:
        """The address of a ready endpoint that really is a pod of this namespace."""
        self._rng.shuffle(endpoints)
        for endpoint in endpoints:
            if (endpoint.get("conditions") or {}).get("ready") is False:
                continue
            target = endpoint.get("targetRef") or {}
            address = endpoint["addresses"][0]
            entry = self.objects.get(PODS, f"{namespace}/{target.get('name', '')}")
            if entry is None or target.get("namespace") != namespace:
                continue
            pod = entry.decode()
            ips = (pod.get("status") or {}).get("podIPs") or []
            if any(ip.get("ip") == address for ip in ips):
                self._check_pod(pod, address)
                return str(address)
        return ""

    def _check_pod(self, pod: Obj, address: str) -> None:
        """A pod is reached at an address of its own only, never at the machine's loopback."""
        self._check_address(address)
        host = bool(pod["spec"].get("hostNetwork"))
        if _is_own(address) or (host and _unmapped(address).is_loopback):
            raise errors.BadRequest("address not allowed")

    def _check_address(self, text: str) -> None:
        """Refuse addresses that are no place for a pod or node (metadata services, multicast…)."""
        try:
            address = _unmapped(text)
        except ValueError:
            raise errors.BadRequest("address not allowed") from None
        bad = address.is_multicast or address.is_unspecified or address.is_link_local
        if bad or (address.is_loopback and not self._allow_loopback):
            raise errors.BadRequest("address not allowed")


def kubelet_of(node: Obj) -> Kubelet:
    """Raises when the node does not say where it is."""
    status = node.get("status") or {}
    addresses = status.get("addresses") or []
    by_type = {a["type"]: a["address"] for a in reversed(addresses)}
    host = next((by_type[t] for t in _PREFERRED if by_type.get(t)), None)
    if host is None:
        known = " ".join(f"{{{a['type']} {a['address']}}}" for a in addresses)
        raise errors.ApiError(f"no preferred addresses found; known addresses: [{known}]")
    endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    return Kubelet(
        node["metadata"]["name"],
        host,
        endpoint.get("Port") or KUBELET_PORT,
        WEBSOCKET_FEATURE in (status.get("declaredFeatures") or ()),
    )


_PREFERRED = ("InternalIP", *(t for t in ADDRESS_TYPES if t != "InternalIP"))
"""The address first: names of nodes need not resolve on the machine of the API server."""


def container_of(pod: Obj, wanted: str) -> str:
    """The container meant. Raises BadRequest when it is unclear or not there."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    lists = ("initContainers", "containers", "ephemeralContainers")
    every = [c["name"] for key in lists for c in spec.get(key) or []]
    if wanted:
        if wanted not in every:
            raise errors.BadRequest(f"container {wanted} is not valid for pod {name}")
        return wanted
    containers = spec.get("containers") or []
    if len(containers) == 1:
        return str(containers[0]["name"])
    choice = f", choose one of: [{' '.join(every)}]" if containers else ""
    raise errors.BadRequest(f"a container name must be specified for pod {name}{choice}")


def split_scheme_name_port(text: str, kind: str) -> tuple[str, str, str]:
    """``name``, ``name:port`` or ``scheme:name:port``."""
    parts = text.split(":")
    scheme = parts.pop(0) if len(parts) == 3 else ""
    name, port, *more = [*parts, ""][: max(2, len(parts))]
    if more or not name or scheme not in ("", "http", "https"):
        raise errors.BadRequest(f'invalid {kind} request "{text}"')
    return scheme, name, port


def port_number(text: str, scheme: str) -> int:
    if not text:
        return 443 if scheme == "https" else 80
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise errors.ServiceUnavailable(
            f"error trying to reach service: dial tcp: lookup tcp/{text}: unknown port"
        )
    return int(text)


_OWN = ipaddress.ip_network("127.0.0.0/16")
"""Where the machine's own programs listen; pods that are on its loopback have others."""


def _unmapped(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address that is meant. Raises ValueError."""
    address = ipaddress.ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address


def _is_own(host: str) -> bool:
    """Whether this is the loopback of the machine that the server runs on."""
    try:
        address = _unmapped(host)
    except ValueError:
        return host == "localhost"
    return address in _OWN if address.version == 4 else address.is_loopback


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
