"""Nodes that nobody runs, and pods bound to them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cluster.objects import Obj, Objects

slow_on_real = (
    pytest.mark.soak if os.environ.get("CORRAL_BACKEND") == "real" else lambda function: function
)
"""kube-controller-manager has fixed periods; ours are given shorter ones here."""


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, status: str) -> Obj:
    return {
        "type": kind,
        "status": status,
        "reason": "Case",
        "message": "set by the case",
        "lastHeartbeatTime": now(),
        "lastTransitionTime": now(),
    }


def healthy() -> dict[str, str]:
    return {
        "Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False",
    }  # fmt: skip


class Nodes:
    """Makes nodes, and removes them at the end."""

    def __init__(self, cluster: Objects) -> None:
        self.cluster = cluster
        self.names: list[str] = []

    def make(self, name: str, *, labels: dict[str, str] | None = None, **conditions: str) -> Obj:
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels or {}},
        }
        self.cluster.create("nodes", body)
        self.names.append(name)
        return self.post(name, **conditions)

    def post(self, name: str, **conditions: str) -> Obj:
        """What a kubelet says of itself."""
        listed = [condition(k, v) for k, v in (healthy() | conditions).items()]
        patch = {"status": {"conditions": listed}}
        return self.cluster.patch("v1", "nodes", name, patch, subresource="status")

    def get(self, name: str) -> Obj:
        return self.cluster.get("v1", "nodes", name)

    def taints(self, name: str) -> set[str]:
        found = self.get(name)["spec"].get("taints") or []
        return {f"{taint['key'].rpartition('/')[2]}:{taint['effect']}" for taint in found}

    def taint(self, name: str, key: str | None, effect: str = "NoExecute") -> None:
        """Give it one taint more, or (without a key) take away those that the cases gave."""
        node = self.get(name)
        taints = [
            taint
            for taint in node["spec"].get("taints") or []
            if not taint["key"].startswith("example.test/")
        ]
        if key:
            taints.append({"key": key, "effect": effect})
        self.cluster.patch("v1", "nodes", name, {"spec": {"taints": taints}})

    def status(self, name: str, kind: str) -> Obj:
        found = self.get(name)["status"]["conditions"]
        return next(c for c in found if c["type"] == kind)

    def remove(self, name: str) -> None:
        self.cluster.delete("v1", "nodes", name)
        self.names.remove(name)

    def close(self) -> None:
        for name in list(self.names):
            self.remove(name)


def pod(name: str, node: str, *tolerations: Obj, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "example.test/app:1"}],
            "tolerations": list(tolerations),
            **spec,
        },
    }


def running(objects: Objects, name: str) -> None:
    """What a kubelet says of a pod that runs."""
    status = {"phase": "Running", "conditions": [condition_of_pod("Ready", "True")]}
    objects.patch("v1", "pods", name, {"status": status}, subresource="status")


def condition_of_pod(kind: str, status: str) -> Obj:
    return {"type": kind, "status": status, "lastTransitionTime": now()}


def pod_condition(objects: Objects, name: str, kind: str) -> Obj | None:
    found = objects.find("v1", "pods", name)
    listed = ((found or {}).get("status") or {}).get("conditions") or []
    return next((c for c in listed if c["type"] == kind), None)


def events(objects: Objects, name: str, namespace: str = "") -> list[tuple[str, str, str]]:
    """(type, reason, message) of the events about an object, in no order."""
    where = Objects(objects.backend, namespace or objects.namespace)
    path = where.path("v1", "events") + f"?fieldSelector=involvedObject.name={name}"
    reply = objects.backend.request("GET", path)
    assert reply.code == 200, reply.body
    return [(e["type"], e["reason"], e["message"]) for e in reply.json()["items"]]
