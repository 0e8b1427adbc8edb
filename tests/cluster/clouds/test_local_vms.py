"""Local VMs with real node agents: they join, run pods, and take those along when they end."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from corral.clouds import Gpu, State, Vm, VmRef, VmRequest
from corral.clouds.local import LocalProvider, LocalSettings, node_command
from corral.clouds.local.processes import Process, below
from corral.clouds.local.records import Folder
from corral.cluster.node.agent import AgentConfig, group_name
from corral.cluster.node.layout import Layout
from tests.backends import Backend, own_backend, own_scope
from tests.backends.embedded import node_token
from tests.cluster.objects import Objects, eventually

VM = "one"
"""One of the names for which backends have a node's credentials."""


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with own_backend(tmp_path_factory.mktemp("vms")) as backend:
        backend.allow()
        yield backend


class Cloud:
    """A local cloud whose VMs are nodes of the backend."""

    def __init__(self, backend: Backend) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="corral-cloud-"))
        self.folder.chmod(0o711)
        authority = self.folder / "ca.crt"
        shutil.copy(backend.ca_file, authority)
        text = backend.kubeconfig.read_text().replace(backend.token, node_token(VM))
        kubeconfig = text.replace(backend.ca_file, str(authority))
        self.provider = LocalProvider(
            LocalSettings(
                folder=self.folder / "cloud",
                command=node_command("--client-ca", str(authority)),
                files=lambda request: {"kubeconfig": kubeconfig},
                stop_grace_s=1.0,
            )
        )

    def create(self) -> Vm:
        request = VmRequest(
            name=VM,
            request_id=str(uuid.uuid4()),
            owner="tests",
            zone="local-a",
            machine_type="small",
            gpu=Gpu("nvidia-tesla-t4", 2),
        )
        return asyncio.run(self.provider.create(request))

    def processes(self) -> set[Process]:
        running = Folder(self.folder / "cloud/vms" / VM).running()
        assert running is not None
        return {running.process, *below([running.pid])}

    def sleepers(self) -> int:
        """Processes of the pod's, wherever they went."""
        count = 0
        for process in self.processes():
            with suppress(FileNotFoundError, ProcessLookupError):
                count += b"sleep" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        return count

    def leftovers(self) -> set[Path]:
        """What the node agent has outside its folder, by its own rules."""
        data = self.folder / "cloud/vms" / VM / "data"
        group = group_name(AgentConfig(name=VM, data_dir=data))
        groups = {*Path("/sys/fs/cgroup").glob(group), *Path("/sys/fs/cgroup").glob(f"*/{group}")}
        return groups | {*Path("/dev/shm").glob(f"{Layout(data).prefix}*")}

    def close(self) -> None:
        asyncio.run(self.provider.delete(VmRef(VM, "local-a")))
        shutil.rmtree(self.folder)


@pytest.fixture
def cloud(backend: Backend) -> Iterator[Cloud]:
    made = Cloud(backend)
    yield made
    made.close()


def is_ready(cluster: Objects) -> bool:
    node = cluster.find("v1", "nodes", VM)
    conditions = (node or {}).get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def run_pod(objects: Objects, name: str) -> dict[str, Any]:
    """A pod with a process that tries to get away, when it runs."""
    script = "(setsid sleep 3600 &) ; trap '' TERM; while true; do sleep 1; done"
    objects.create(
        "pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "nodeName": VM,
                "containers": [
                    {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
                ],
            },
        },
    )

    def running() -> dict[str, Any] | None:
        pod = objects.get("v1", "pods", name)
        return pod if pod["status"].get("phase") == "Running" else None

    return eventually(running)


@pytest.mark.parametrize("end", ["preempted", "killed", "crashed"])
def test_a_vm_takes_its_pods_along(
    cloud: Cloud, cluster: Objects, objects: Objects, end: str
) -> None:
    made = cloud.create()
    eventually(lambda: is_ready(cluster))
    run_pod(objects, f"pod-{end}")
    assert cloud.leftovers()
    eventually(lambda: cloud.sleepers() >= 2)
    processes = cloud.processes()
    if end == "preempted":
        asyncio.run(cloud.provider.preempt(made.ref, notice_s=0.5))
    elif end == "killed":
        asyncio.run(cloud.provider.kill(made.ref))
    else:
        running = Folder(cloud.folder / "cloud/vms" / VM).running()
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)
    eventually(lambda: not any(process.alive for process in processes))

    def ended() -> Vm | None:
        vm = asyncio.run(cloud.provider.get(made.ref))
        return vm if vm is not None and vm.state is State.TERMINATED else None

    vm = eventually(ended)
    assert vm.preempted is (end == "preempted")
    eventually(lambda: not cloud.leftovers())
    cluster.delete("v1", "nodes", VM)


def test_a_vm_that_is_deleted_leaves_nothing(
    cloud: Cloud, cluster: Objects, objects: Objects
) -> None:
    made = cloud.create()
    eventually(lambda: is_ready(cluster))
    node = cluster.get("v1", "nodes", VM)
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    run_pod(objects, "pod-deleted")
    processes = cloud.processes()
    asyncio.run(cloud.provider.delete(made.ref))
    assert not any(process.alive for process in processes)
    assert not cloud.leftovers()
    assert asyncio.run(cloud.provider.list("tests")) == []
    cluster.delete("v1", "nodes", VM)
