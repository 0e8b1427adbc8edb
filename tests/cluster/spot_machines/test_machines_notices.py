"""``corral notices``: what a machine is told is on its Node, with rights to Nodes alone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from corral.api.spot import PREEMPTION_CONDITION, PREEMPTION_TAINT
from corral.clouds import Vm, VmRequest
from corral.clouds.local import LocalProvider, LocalSettings
from corral.operator.notices import notice_objects
from tests.backends import Backend
from tests.backends.base import wait_for
from tests.cluster.objects import Objects, eventually

Obj = dict[str, Any]
OTHER = {"key": "other", "value": "kept", "effect": "NoSchedule"}


@pytest.fixture
def provider(tmp_path: Path) -> LocalProvider:
    """Machines that are told things, and do nothing."""
    settings = LocalSettings(folder=tmp_path / "cloud", command=("sleep", "1000"), stop_grace_s=1.0)
    return LocalProvider(settings)


@pytest.fixture
def vm(provider: LocalProvider, cluster: Objects, unique: str) -> Iterator[Vm]:
    request = VmRequest(
        name=f"told-{unique}",
        request_id=str(uuid.uuid4()),
        owner="tests",
        zone="local-a",
        machine_type="small",
    )
    made = asyncio.run(provider.create(request))
    node = {"metadata": {"name": made.name}, "spec": {"taints": [OTHER]}}
    cluster.create("nodes", {"apiVersion": "v1", "kind": "Node", **node})
    yield made
    cluster.delete("v1", "nodes", made.name)
    asyncio.run(provider.delete(made.ref))


@pytest.fixture
def config(cluster: Objects, objects: Objects, tmp_path: Path) -> Iterator[Path]:
    """As the DaemonSet's account, with its rights."""
    account, role, binding, _ = notice_objects(objects.namespace, "any")
    objects.create("serviceaccounts", account)
    for obj, plural in ((role, "clusterroles"), (binding, "clusterrolebindings")):
        cluster.create(plural, obj)
    path = objects.path("v1", "serviceaccounts", f"{account['metadata']['name']}/token")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    reply = cluster.backend.request("POST", path, request)
    assert reply.code == 201, reply.body
    token = reply.json()["status"]["token"]
    written = tmp_path / "kubeconfig"
    text = cluster.backend.kubeconfig.read_text()
    written.write_text(text.replace(cluster.backend.token, token))
    yield written
    for obj, plural in ((role, "clusterroles"), (binding, "clusterrolebindings")):
        cluster.delete(obj["apiVersion"], plural, obj["metadata"]["name"])


@pytest.fixture
def relay(config: Path, vm: Vm, tmp_path: Path) -> Iterator[None]:
    log = tmp_path / "log"
    log.write_text("")
    argv = ["notices", "--node", vm.name, "--cloud", "local", "--endpoint", vm.metadata]
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "corral.cli.main", *argv, "--kubeconfig", str(config)],
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
        )
    try:
        wait_for(process, log, "is ready")
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("relay")
def test_a_node_is_tainted_and_says_until_when_it_is_there(
    backend: Backend, cluster: Objects, provider: LocalProvider, vm: Vm
) -> None:
    asyncio.run(provider.maintain(vm.ref))  # nothing that ends the machine
    asyncio.run(provider.preempt(vm.ref, notice_s=60))

    def told() -> Obj | None:
        node = cluster.get("v1", "nodes", vm.name)
        taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
        return node if PREEMPTION_TAINT in taints else None

    node = eventually(told)
    taints = {taint["key"]: taint.get("value") for taint in node["spec"]["taints"]}
    assert taints["other"] == "kept"
    conditions = {each["type"]: each for each in node["status"]["conditions"]}
    found = conditions[PREEMPTION_CONDITION]
    assert (found["status"], found["reason"]) == ("True", "Preemption")
    deadline = datetime.fromisoformat(found["message"].rpartition(" ")[2]).timestamp()
    assert abs(deadline - float(taints[PREEMPTION_TAINT])) <= 1
