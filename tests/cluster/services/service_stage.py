"""Playing the node: pods that run because the case says so."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.cluster.manifests import obj
from tests.cluster.objects import Objects, eventually

Obj = dict[str, Any]
DISCOVERY = "discovery.k8s.io/v1"


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(name: str, node: str = "", *, labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    ports = spec.pop("ports", [])
    container = {"name": "main", "image": "example.test/web:1", "ports": ports}
    body: Obj = {"containers": [container], **spec}
    if node:
        body["nodeName"] = node
    return obj("v1", "Pod", name, labels=labels or {"app": "web"}, spec=body)


def service(name: str = "web", *, ports: Any = None, **spec: Any) -> Obj:
    body: Obj = {"selector": {"app": "web"}, **spec}
    body["ports"] = [{"port": 80, "targetPort": 8080}] if ports is None else ports
    return obj("v1", "Service", name, spec={k: v for k, v in body.items() if v is not None})


class Stage:
    """One namespace and one node."""

    def __init__(self, cluster: Objects, objects: Objects, node: str) -> None:
        self.cluster = cluster
        self.objects = objects
        self.node = node
        self._nodes: list[str] = []

    def close(self) -> None:
        """Pods on a node that nobody plays any more would never end."""
        for name in self.objects.names("v1", "pods"):
            self.kill(name)
        for name in self._nodes:
            self.cluster.delete("v1", "nodes", name)

    def kill(self, name: str) -> None:
        """What a node says of a pod that has ended."""
        path = self.objects.path("v1", "pods", name)
        reply = self.objects.backend.request("DELETE", path, {"gracePeriodSeconds": 0})
        assert reply.code in (200, 404), reply.body

    def add_node(self, name: str = "", **labels: str) -> str:
        name = name or self.node
        self.cluster.create("nodes", obj("v1", "Node", name, labels=labels))
        self._nodes.append(name)
        ready = {"type": "Ready", "status": "True", "reason": "Played", "message": ""}
        times = {"lastHeartbeatTime": now(), "lastTransitionTime": now()}
        status = {"conditions": [ready | times]}
        self.cluster.patch("v1", "nodes", name, {"status": status}, subresource="status")
        return name

    def run(self, name: str, ip: str, *, ready: bool = True, **rest: Any) -> Obj:
        """A pod on the node that runs with this address."""
        self.objects.create("pods", pod(name, rest.pop("node", self.node), **rest))
        return self.say(name, ip=ip, ready=ready)

    def say(
        self,
        name: str,
        *,
        ip: str = "",
        ready: bool = True,
        phase: str = "Running",
        since: str = "",
    ) -> Obj:
        """What a node says of a pod."""
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": since or now(),
        }
        status: Obj = {"phase": phase, "conditions": [condition]}
        if ip:
            status |= {"podIP": ip, "podIPs": [{"ip": ip}], "hostIP": "192.0.2.1"}
        return self.objects.patch("v1", "pods", name, {"status": status}, subresource="status")

    # --- what became of it -----------------------------------------------------------------------

    def slices(self, name: str = "web") -> list[Obj]:
        query = f"?labelSelector=kubernetes.io/service-name={name}"
        path = self.objects.path(DISCOVERY, "endpointslices") + query
        items: list[Obj] = self.objects.backend.request("GET", path).json()["items"]
        return items

    def endpoints(self, name: str = "web") -> dict[str, Obj]:
        """All endpoints of the slices of a service, by the name of their pod (or address)."""
        return {
            (one.get("targetRef") or {}).get("name") or one["addresses"][0]: one
            for found in self.slices(name)
            for one in found.get("endpoints") or ()
        }

    def conditions(self, name: str = "web") -> dict[str, tuple[bool, ...]]:
        """(ready, serving, terminating) by pod."""
        kinds = ("ready", "serving", "terminating")
        return {
            pod: tuple(one["conditions"].get(kind) for kind in kinds)
            for pod, one in self.endpoints(name).items()
        }

    def addresses(self, name: str = "web") -> tuple[set[str], set[str]]:
        """Ready and other addresses of the Endpoints object."""
        found = self.objects.find("v1", "endpoints", name) or {}
        subsets = found.get("subsets") or ()
        ready = {a["ip"] for s in subsets for a in s.get("addresses") or ()}
        other = {a["ip"] for s in subsets for a in s.get("notReadyAddresses") or ()}
        return ready, other

    def events(self, name: str) -> set[str]:
        """The reasons of the events about an object."""
        query = f"?fieldSelector=involvedObject.name={name}"
        path = self.objects.path("v1", "events") + query
        items = self.objects.backend.request("GET", path).json()["items"]
        return {item["reason"] for item in items}


READY = (True, True, False)
NOT_READY = (False, False, False)


def settles(look: Any, expected: Any, seconds: float = 30) -> None:
    """Wait until a look gives what is expected; say what it gave if it never does."""
    last: list[Any] = [None]

    def same() -> bool:
        last[0] = look()
        return bool(last[0] == expected)

    try:
        eventually(same, seconds=seconds)
    except AssertionError:
        assert last[0] == expected
