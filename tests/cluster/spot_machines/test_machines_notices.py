"""``corral notices``: what a machine is told is on its Node, with rights to Nodes alone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from corral.api.spot.kinds import PREEMPTION_CONDITION, PREEMPTION_TAINT, RISK_CONDITION, RISK_TAINT
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
    made = {obj["kind"]: obj for obj in notice_objects(objects.namespace, "any")}
    account, role = made["ServiceAccount"], made["ClusterRole"]
    binding = made["ClusterRoleBinding"]
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


@contextmanager
def relaying(config: Path, node: str, cloud: str, endpoint: str, log: Path) -> Iterator[None]:
    log.write_text("")
    argv = ["notices", "--node", node, "--cloud", cloud, "--endpoint", endpoint]
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


@pytest.fixture
def relay(config: Path, vm: Vm, tmp_path: Path) -> Iterator[None]:
    with relaying(config, vm.name, "local", vm.metadata, tmp_path / "log"):
        yield


class Amazon(BaseHTTPRequestHandler):
    """What a machine of EC2 is told that is better left."""

    def do_PUT(self) -> None:
        self._answer(200, b"token")

    def do_GET(self) -> None:
        told = self.path.endswith("/events/recommendations/rebalance")
        self._answer(200 if told else 404, b'{"noticeTime": "2026-11-16T02:00:00Z"}')

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def metadata() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Amazon)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_node_that_is_better_left_is_avoided(
    cluster: Objects, config: Path, vm: Vm, metadata: str, tmp_path: Path
) -> None:
    with relaying(config, vm.name, "aws", metadata, tmp_path / "log"):

        def told() -> Obj | None:
            node = cluster.get("v1", "nodes", vm.name)
            taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
            return node if RISK_TAINT in taints else None

        node = eventually(told)
    effects = {taint["key"]: taint["effect"] for taint in node["spec"]["taints"]}
    assert effects == {"other": "NoSchedule", RISK_TAINT: "PreferNoSchedule"}
    conditions = {each["type"]: each for each in node["status"]["conditions"]}
    found = conditions[RISK_CONDITION]
    assert (found["status"], found["reason"]) == ("True", "Rebalance")
    assert PREEMPTION_CONDITION not in conditions


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
