"""Things to scale: a kind with a scale, pods that somebody says the use of, and autoscalers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from corral.cluster.workloads.autoscaling.controller import Settings, register
from tests.backends import Backend
from tests.cluster.autoscaling.usage import KubeletUsage, Usage, usage_of
from tests.cluster.nodes.controllers_thread import controllers
from tests.cluster.nodes.node_objects import Nodes, events, now
from tests.cluster.objects import Obj, Objects, eventually

MEBI = 1 << 20


@pytest.fixture(scope="module")
def usage(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Usage]:
    folder = tmp_path_factory.mktemp("kubelet")
    with usage_of(backend, Objects(backend), folder) as found:
        yield found


@pytest.fixture(scope="module")
def fleets(backend: Backend) -> Iterator[str]:
    """The group of a kind that has a scale and that no controller knows."""
    cluster = Objects(backend)
    group = f"g{uuid.uuid4().hex[:8]}.example.test"
    number, text = {"type": "integer"}, {"type": "string"}
    part = {"type": "object", "properties": {"replicas": number, "selector": text}}
    schema = {"type": "object", "properties": {"spec": part, "status": part}}
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
    }
    names = {"plural": "fleets", "singular": "fleet", "kind": "Fleet"}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"fleets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    cluster.create("customresourcedefinitions", body)
    eventually(lambda: backend.request("GET", f"/apis/{group}/v1/fleets").code == 200)
    yield group
    definition = f"fleets.{group}"
    cluster.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", definition)


@pytest.fixture(scope="module", autouse=True)
def autoscaler(backend: Backend, fleets: str, usage: Usage) -> Iterator[None]:
    with controllers(backend, partial(register, settings=Settings(period=0.5))):
        yield


class Scene:
    """One case: a fleet, its pods and its autoscaler."""

    def __init__(self, objects: Objects, nodes: Nodes, usage: Usage, group: str) -> None:
        self.objects, self.nodes, self.usage, self.group = objects, nodes, usage, group
        self.node = f"node-{uuid.uuid4().hex[:8]}"

    @property
    def version(self) -> str:
        return f"{self.group}/v1"

    def add_node(self) -> None:
        self.nodes.make(self.node)
        if isinstance(self.usage, KubeletUsage):
            status = {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.usage.port}},
            }
            self.nodes.cluster.patch(
                "v1", "nodes", self.node, {"status": status}, subresource="status"
            )

    def fleet(self, name: str, replicas: int, selector: str | None = None) -> None:
        body = {
            "apiVersion": self.version,
            "kind": "Fleet",
            "metadata": {"name": name},
            "spec": {"replicas": replicas},
        }
        self.objects.create("fleets", body)
        status = {"replicas": replicas, "selector": selector or f"app={name}"}
        path = self.objects.path(self.version, "fleets", name) + "/status"
        reply = self.objects.backend.request(
            "PATCH", path, {"status": status}, content_type="application/merge-patch+json"
        )
        assert reply.code == 200, reply.body

    def pods(
        self, app: str, count: int, *, cpu: float = 0.0, memory: int = 0, sidecar: bool = False
    ) -> None:
        """Ready pods of a fleet that ask for 100m and 100Mi a container."""
        if self.node not in self.nodes.names:
            self.add_node()
        for number in range(count):
            self.pod(f"{app}-{number}", app, cpu=cpu, memory=memory, sidecar=sidecar)

    def pod(
        self,
        name: str,
        app: str,
        *,
        cpu: float = 0.0,
        memory: int = 0,
        sidecar: bool = False,
        phase: str = "Running",
        silent: bool = False,
    ) -> None:
        asks = {"requests": {"cpu": "100m", "memory": "100Mi"}}
        names = ["main", "sidecar"] if sidecar else ["main"]
        containers = [{"name": n, "image": "example.test/app:1", "resources": asks} for n in names]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"nodeName": self.node, "containers": containers},
        }
        made = self.objects.create("pods", body)
        old = "2020-01-01T00:00:00Z"
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": old}
        status = {"phase": phase, "startTime": old, "conditions": [ready]}
        self.objects.patch("v1", "pods", name, {"status": status}, subresource="status")
        if not silent:
            self.usage.say(made, cpu=cpu, memory=memory)

    def autoscale(
        self, name: str, *, metrics: list[Obj], target: Obj | None = None, **spec: Any
    ) -> None:
        reference = target or {"apiVersion": self.version, "kind": "Fleet", "name": name}
        body = {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": name},
            "spec": {"scaleTargetRef": reference, "maxReplicas": 20, "metrics": metrics, **spec},
        }
        self.objects.create("horizontalpodautoscalers", body)

    def replicas(self, name: str) -> int:
        return int(self.objects.get(self.version, "fleets", name)["spec"]["replicas"])

    def status(self, name: str) -> Obj:
        found = self.objects.get("autoscaling/v2", "horizontalpodautoscalers", name)
        return dict(found.get("status") or {})

    def condition(self, name: str, kind: str) -> Obj:
        found = self.status(name).get("conditions") or []
        return next((dict(c) for c in found if c["type"] == kind), {})

    def settled(self, name: str, kind: str, reason: str) -> Obj:
        """Wait for a condition's reason; kube-controller-manager hears of new kinds slowly."""
        end = time.monotonic() + 100
        while True:
            found = self.condition(name, kind)
            if found.get("reason") == reason:
                return found
            assert time.monotonic() < end, self.status(name)
            time.sleep(0.02)

    def told(self, name: str) -> list[tuple[str, str, str]]:
        return events(self.objects, name)


@pytest.fixture
def nodes(cluster: Objects) -> Iterator[Nodes]:
    found = Nodes(cluster)
    yield found
    found.close()


@pytest.fixture
def scene(objects: Objects, nodes: Nodes, usage: Usage, fleets: str) -> Scene:
    return Scene(objects, nodes, usage, fleets)


__all__ = ["MEBI", "Scene", "now"]
