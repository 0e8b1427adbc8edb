"""An operator inside the test's process, and WasmTasks and PropletGroups to give it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import wasmtime

from corral.families.federated.settings import FederatedSettings
from corral.families.federated.wiring import register
from tests.cluster.objects import Objects, eventually
from tests.cluster.operators import OperatorThread

Obj = dict[str, Any]
API = "propeller.absmach.io/v1alpha1"
ELSEWHERE = "registry.example.com"
"""The registry in the manifests; here it is the test's own."""


class Operator(OperatorThread):
    """The controllers of WasmTasks and PropletGroups."""

    def __init__(self, kubeconfig: str, **settings: Any) -> None:
        quick = {"waiting_retry": 0.5, "poll": 0.5, "heartbeat_timeout": 2.0, **settings}
        wanted = FederatedSettings(**quick)
        super().__init__(kubeconfig, lambda manager: register(manager, wanted))


def module(text: str) -> str:
    """A module as a task's ``file``."""
    return base64.b64encode(wasmtime.wat2wasm(text)).decode()


def saying(text: str, code: int = 0) -> str:
    """A module that writes a text and ends."""
    data = text.encode() + b"\n"
    escaped = "".join(f"\\{byte:02x}" for byte in data)
    return f"""
(module
  (import "wasi_snapshot_preview1" "fd_write"
    (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "{escaped}")
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 16))
    (i32.store (i32.const 4) (i32.const {len(data)}))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
    (call $exit (i32.const {code}))))
"""


class Tasks:
    """WasmTasks of one namespace."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    def create(self, name: str, **spec: Any) -> Obj:
        metadata: Obj = {"name": name, **spec.pop("metadata", {})}
        task = {"apiVersion": API, "kind": "WasmTask", "metadata": metadata, "spec": spec}
        return self.objects.create("wasmtasks", task)

    def process(self, name: str, script: str, **spec: Any) -> Obj:
        """A task that runs a shell script."""
        return self.create(name, imageUrl="busybox", cliArgs=["sh", "-c", script], **spec)

    def group(self, name: str, labels: dict[str, str], **scheduling: Any) -> Obj:
        group = {
            "apiVersion": API,
            "kind": "PropletGroup",
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": labels},
                "scheduling": {"algorithm": "least-loaded", **scheduling},
            },
        }
        return self.objects.create("propletgroups", group)

    def proplet(self, name: str, node: str, labels: dict[str, str]) -> Obj:
        """A pod that is a proplet on a node."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"proplet-id": name, **labels}},
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {"name": "proplet", "image": "busybox", "command": ["sleep", "3600"]}
                ],
            },
        }
        return self.objects.create("pods", pod)

    def get(self, name: str) -> Obj:
        return self.objects.get(API, "wasmtasks", name)

    def status(self, name: str) -> Obj:
        return dict(self.get(name).get("status") or {})

    def wait(self, name: str, check: Callable[[Obj], Any], *, seconds: float = 60) -> Obj:
        """The status of the task, once the check holds for it."""
        last: list[Obj] = [{}]

        def good() -> bool:
            last[0] = self.status(name)
            return bool(check(last[0]))

        try:
            eventually(good, seconds=seconds)
        except AssertionError:
            pods = [pod.get("status") for pod in self.pods(name)]
            raise AssertionError((last[0], pods)) from None
        return last[0]

    def phase(self, name: str, phase: str, *, seconds: float = 60) -> Obj:
        return self.wait(name, lambda status: status.get("phase") == phase, seconds=seconds)

    def pods(self, name: str) -> list[Obj]:
        query = f"?labelSelector=batch.kubernetes.io%2Fjob-name%3D{name}-job"
        reply = self.objects.backend.request("GET", self.objects.path("v1", "pods") + query)
        assert reply.code == 200, reply.body
        return list(reply.json()["items"])

    def group_status(self, name: str, check: Callable[[Obj], Any]) -> Obj:
        """The status of a group, once the check holds for it."""
        last: list[Obj] = [{}]

        def good() -> bool:
            last[0] = dict(self.objects.get(API, "propletgroups", name).get("status") or {})
            return bool(check(last[0]))

        try:
            eventually(good, seconds=30)
        except AssertionError:
            raise AssertionError(last[0]) from None
        return last[0]

    def events(self, name: str) -> list[str]:
        query = f"?fieldSelector=involvedObject.name%3D{name}"
        reply = self.objects.backend.request("GET", self.objects.path("v1", "events") + query)
        return [item["reason"] for item in reply.json()["items"]]


def condition(status: Obj, type: str) -> Obj:
    found = [c for c in status.get("conditions") or () if c["type"] == type]
    return dict(found[0]) if found else {}
