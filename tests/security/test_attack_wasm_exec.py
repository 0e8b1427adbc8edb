"""A tenant in the container of its own module, beside the host of the module."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
import wasmtime

from corral.cluster.node.wasm import runtime_class
from corral.kube import KubeClient
from corral.kube.errors import ApiError
from tests.security.hostile_pods import Attacker, attacker, backend, nodes

__all__ = ["attacker", "backend", "nodes"]

SPIN = '(module (memory (export "memory") 1) (func (export "_start") (loop $l (br $l))))'
WRITE = """
import json, os
places = [line.split()[4] for line in open("/proc/self/mountinfo")]
done = []
for folder in places:
    try:
        with open(os.path.join(folder, "f" * 64), "w") as file:
            file.write("machine code of mine")
        done.append(folder)
    except OSError:
        pass
print(json.dumps(done))
"""


def run_module(pods: Attacker, name: str, **more: Any) -> None:
    reply = pods.objects.backend.request(
        "POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime_class()
    )
    assert reply.code in (201, 409), reply.body
    data = {"spin.wasm": base64.b64encode(wasmtime.wat2wasm(SPIN)).decode()}
    meta = {"name": name}
    pods.objects.create(
        "configmaps",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "binaryData": data},
    )
    container = {
        "name": "main",
        "image": "modules",
        "command": ["/modules/spin.wasm"],
        "volumeMounts": [{"name": "code", "mountPath": "/modules"}],
        **more,
    }
    volumes = [{"name": "code", "configMap": {"name": name}}]
    pods.run(name, container, runtimeClassName="wasm", volumes=volumes)
    pods.ready(name)


@pytest.mark.attack(
    "wasm host",
    "executes a program in the container of a module, to write what other modules would run",
    "a module has no other processes: exec is refused",
)
@pytest.mark.route("compiled modules")
async def test_wasm_container_has_no_exec(attacker: Attacker) -> None:
    run_module(attacker, "module")
    path = str(attacker.objects.backend.kubeconfig)
    command = ["python3", "-c", WRITE]
    async with KubeClient.from_kubeconfig(path) as client:
        with pytest.raises(ApiError, match="it has no other processes"):
            await client.run("module", command, namespace=attacker.namespace)
    await asyncio.sleep(0.2)  # the refused connection is closed meanwhile
