"""A GPU belongs to one container at a time: with a list of devices, and with real ones."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends import Backend, Node, add_node
from tests.cluster.objects import Objects, eventually
from tests.cluster.pods.pods import Obj, Pods, condition, python, shell

GPU = "nvidia.com/gpu"
DEVICES = [
    {"index": "0", "model": "NVIDIA H200", "memory_mib": 143771},
    {"index": "1", "model": "NVIDIA H200", "memory_mib": 143771},
]
SHOW = "echo visible=$CUDA_VISIBLE_DEVICES; sleep 1000"


def asks(count: int) -> Obj:
    return {"resources": {"limits": {GPU: str(count)}}}


@pytest.fixture(scope="module")
def gpu_node(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that believes to have two devices."""
    listed = tmp_path_factory.mktemp("devices") / "gpus.json"
    listed.write_text(json.dumps(DEVICES))
    node = add_node(backend, "one", options=("--gpus", str(listed)))
    yield node
    node.stop()


@pytest.fixture
def gpus(objects: Objects, gpu_node: Node) -> Pods:
    return Pods(objects, gpu_node)


def visible(pods: Pods, name: str) -> str:
    pods.ready(name)
    return eventually(lambda: pods.log(name), seconds=120).strip()


def test_the_node_advertises_them(gpus: Pods) -> None:
    node = Objects(gpus.objects.backend).get("v1", "nodes", gpus.node.name)
    assert node["status"]["capacity"][GPU] == "2"
    assert node["status"]["allocatable"][GPU] == "2"
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H200"
    assert node["metadata"]["labels"]["nvidia.com/gpu.count"] == "2"


def test_never_shared_and_the_last_one_waits(gpus: Pods) -> None:
    for name in ("a", "b"):
        gpus.run(name, shell(SHOW, **asks(1)))
    assert {visible(gpus, name) for name in ("a", "b")} == {"visible=0", "visible=1"}
    gpus.run("c", shell(SHOW, **asks(1)))
    pod = gpus.wait("c", lambda p: condition(p, "PodScheduled") == "False")
    message = next(c["message"] for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
    assert f"Insufficient {GPU}" in message
    held = visible(gpus, "a")
    gpus.delete("a")
    assert visible(gpus, "c") == held


def test_without_a_request_none_is_seen(gpus: Pods) -> None:
    gpus.run("plain", shell(SHOW))
    assert visible(gpus, "plain") == "visible="


def test_all_of_them(gpus: Pods) -> None:
    gpus.run("both", shell(SHOW, **asks(2)))
    assert visible(gpus, "both") == "visible=0,1"


def test_a_restarted_agent_remembers(gpus: Pods) -> None:
    gpus.run("before", shell(SHOW, **asks(1)))
    first = visible(gpus, "before")
    gpus.node.kill()
    gpus.node.start()
    gpus.run("after", shell(SHOW, **asks(1)))
    assert visible(gpus, "after") != first
    assert visible(gpus, "before") == first


@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="this machine has no GPU")
def test_real_devices(backend: Backend, objects: Objects) -> None:
    """CUDA itself counts: one for each pod that asked, none for the one that did not."""
    count = """
import torch, time
name = torch.cuda.get_device_name(0) if torch.cuda.is_available() else ""
print(torch.cuda.device_count(), name, flush=True)
if torch.cuda.is_available():
    x = torch.ones(1024, 1024, device="cuda")
    print(float((x @ x).sum()), flush=True)
time.sleep(1000)
"""
    node = add_node(backend, "two", options=("--gpus", "auto"))
    try:
        pods = Pods(objects, node)
        status = Objects(backend).get("v1", "nodes", "two")["status"]
        devices = int(status["capacity"][GPU])
        for number in range(devices + 1):
            pods.run(f"asks-{number}", python(count, **asks(1)))
        pods.run("none", python(count))
        running = [f"asks-{n}" for n in range(devices + 1)]
        assert visible(pods, "none").startswith("0")
        eventually(lambda: len([n for n in running if _runs(pods, n)]) == devices, seconds=60)
        waits = next(n for n in running if not _runs(pods, n))
        assert condition(pods.get(waits), "PodScheduled") == "False"
        for name in running:
            if name != waits:
                text = eventually(
                    lambda n=name: "\n" in pods.log(n).strip() and pods.log(n), seconds=120
                )
                print(text)
                assert text.startswith("1 NVIDIA")
        pods.delete(next(n for n in running if n != waits))
        assert visible(pods, waits).startswith("1 NVIDIA")
    finally:
        node.stop()


def _runs(pods: Pods, name: str) -> bool:
    return bool(pods.get(name)["status"].get("phase") == "Running")


def test_devices_of_a_folder(tmp_path: Path) -> None:
    """Without nvidia-smi the device files are counted."""
    from corral.cluster.node.resources import discover_gpus

    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (tmp_path / name).touch()
    missing = os.path.join(tmp_path, "no-such-program")
    assert [gpu.index for gpu in discover_gpus(smi=missing, devices=tmp_path)] == ["0", "1"]
