"""WebAssembly modules as containers: they run, end as they say, and stay within their limits."""

from __future__ import annotations

import base64

import pytest
import wasmtime

from corral.cluster.node.wasm import runtime_class
from tests.cluster.objects import Objects
from tests.cluster.pods.pods import Obj, Pods, terminated

HELLO = """
(module
  (import "wasi_snapshot_preview1" "fd_write"
    (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "hello from wasm\\n")
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 16))
    (i32.store (i32.const 4) (i32.const 16))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
    (call $exit (i32.const 5))))
"""
SPIN = '(module (memory (export "memory") 1) (func (export "_start") (loop $l (br $l))))'


@pytest.fixture
def modules(pods: Pods) -> Pods:
    """The modules in a ConfigMap, and the class that says how they are run."""
    cluster = Objects(pods.objects.backend)
    reply = cluster.backend.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime_class())
    assert reply.code in (201, 409), reply.body
    data = {
        f"{name}.wasm": base64.b64encode(wasmtime.wat2wasm(text)).decode()
        for name, text in (("hello", HELLO), ("spin", SPIN))
    }
    pods.objects.create(
        "configmaps",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "modules"},
            "binaryData": data,
        },
    )
    return pods


def run(pods: Pods, name: str, module: str, **annotations: str) -> None:
    container: Obj = {
        "name": "main",
        "image": "modules",
        "command": [f"/modules/{module}.wasm"],
        "volumeMounts": [{"name": "code", "mountPath": "/modules"}],
    }
    found = {f"wasm.corral.dev/{key.replace('_', '-')}": v for key, v in annotations.items()}
    pods.run(
        name,
        container,
        runtimeClassName="wasm",
        volumes=[{"name": "code", "configMap": {"name": "modules"}}],
        metadata={"annotations": found},
    )


def test_runs_and_says_its_code(modules: Pods) -> None:
    run(modules, "hello", "hello")
    pod = modules.phase("hello", "Failed")
    assert terminated(pod)["exitCode"] == 5
    assert modules.log("hello") == "hello from wasm\n"


def test_out_of_fuel(modules: Pods) -> None:
    run(modules, "thirsty", "spin", fuel="1000000")
    pod = modules.phase("thirsty", "Failed")
    assert terminated(pod)["exitCode"] == 152
    assert "fuel" in terminated(pod)["message"]


def test_out_of_time(modules: Pods) -> None:
    run(modules, "slow", "spin", timeout_seconds="1")
    pod = modules.phase("slow", "Failed")
    assert terminated(pod)["exitCode"] == 142
