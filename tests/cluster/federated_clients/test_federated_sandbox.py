"""A task that is a module cannot leave its sandbox: each attempt ends with a code and words."""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from tests.cluster.federated_clients.modules import hostile_module
from tests.cluster.pods.pods import Obj, Pods, terminated

SECRET = "the secret of another tenant"
SOCKETS = """
(module
  (import "wasi_snapshot_preview1" "sock_open"
    (func (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")))
"""


class Stage:
    """A folder of the machine that tasks may read, beside one that they may not."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="corral-stage-"))
        self.folder.chmod(0o755)
        self.given = self.folder / "given"
        self.given.mkdir()
        (self.given / "mine.txt").write_text("for the task")
        (self.folder / "secret.txt").write_text(SECRET)
        (self.given / "beside").symlink_to("../secret.txt")
        (self.given / "anywhere").symlink_to(self.folder / "secret.txt")
        (self.given / "up").symlink_to("..")
        descriptor, name = tempfile.mkstemp(dir="/dev/shm", prefix="corral-stage-")
        os.write(descriptor, SECRET.encode())
        os.fchmod(descriptor, 0o644)
        os.close(descriptor)
        self.shared_memory = Path(name)

    def end(self) -> None:
        shutil.rmtree(self.folder)
        self.shared_memory.unlink()


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.end()


class Attempts:
    """Runs the hostile task with what a task may have: its module, a folder, and one to read."""

    def __init__(self, pods: Pods, stage: Stage) -> None:
        self.pods, self.stage = pods, stage
        module = hostile_module().read_bytes()
        found = {"hostile": module, "sockets": wasmtime.wat2wasm(SOCKETS)}
        data = {f"{name}.wasm": base64.b64encode(code).decode() for name, code in found.items()}
        meta = {"name": "modules"}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "binaryData": data}
        pods.objects.create("configmaps", config)

    def container(
        self, *words: str, name: str = "main", module: str = "hostile", **limits: str
    ) -> Obj:
        return {
            "name": name,
            "image": "modules",
            "command": [f"/modules/{module}.wasm", *words],
            "resources": {"limits": limits},
            "volumeMounts": [
                {"name": "code", "mountPath": "/modules"},
                {"name": "own", "mountPath": "/own"},
                {"name": "given", "mountPath": "/given", "readOnly": True},
            ],
        }

    def run(self, name: str, *containers: Obj, **spec: Any) -> None:
        volumes = [
            {"name": "code", "configMap": {"name": "modules"}},
            {"name": "own", "emptyDir": {}},
            {"name": "given", "hostPath": {"path": str(self.stage.given)}},
        ]
        self.pods.run(name, *containers, runtimeClassName="wasm", volumes=volumes, **spec)

    def ended(self, name: str) -> Obj:
        """The pod, once it has failed and its containers are really over."""

        def over(pod: Obj) -> bool:
            states = [c["state"] for c in pod["status"].get("containerStatuses") or ()]
            return pod["status"].get("phase") in ("Failed", "Succeeded") and all(
                "terminated" in state for state in states
            )

        return self.pods.wait(name, over)


@pytest.fixture
def attempts(pods: Pods, stage: Stage) -> Attempts:
    return Attempts(pods, stage)


REFUSED = (
    ("read", "/etc/passwd"),
    ("read", "/proc/self/environ"),
    ("read", "SHARED_MEMORY"),
    ("read", "/own/../../../../../../../../etc/passwd"),
    ("read", "../../../../../../../../etc/passwd"),
    ("raw", "/etc/passwd"),
    ("raw", "../../../../../../../../../../etc/passwd"),
    ("raw", "../secret.txt"),
    ("read", "/given/beside"),
    ("read", "/given/anywhere"),
    ("read", "/given/up/secret.txt"),
    ("raw", "up/secret.txt"),
    ("link", "/etc/passwd", "/own/absolute"),
    ("link", "../../../../../../../../../etc/passwd", "/own/upwards"),
    ("list", "/"),
    ("list", "/dev/shm"),
    ("write", "/given/mine.txt"),
    ("write", "/modules/hostile.wasm"),
    ("write", "/tmp/hostile"),
)


def test_reaches_nothing_but_its_own(attempts: Attempts) -> None:
    """Neither files nor the network, however it asks; what it was given it can read."""
    shared = str(attempts.stage.shared_memory)
    containers = [
        attempts.container(*(word.replace("SHARED_MEMORY", shared) for word in words), name=f"a{n}")
        for n, words in enumerate(REFUSED)
    ]
    attempts.run(
        "attempts",
        *containers,
        attempts.container("read", "/given/mine.txt", name="good"),
        attempts.container("network", name="network"),
        attempts.container(name="sockets", module="sockets"),
    )
    pod = attempts.ended("attempts")
    found = {
        words: (terminated(pod, f"a{n}")["exitCode"], attempts.pods.log("attempts", f"a{n}"))
        for n, words in enumerate(REFUSED)
    }
    for words, (code, log) in found.items():
        assert (code, log[:7]) == (1, "cannot "), (words, log)
        assert SECRET not in log, words
    assert terminated(pod, "good")["exitCode"] == 0
    assert "for the task" in attempts.pods.log("attempts", "good")
    assert terminated(pod, "network")["exitCode"] == 1
    assert attempts.pods.log("attempts", "network") == "no network: 192 calls refused\n"
    sockets = terminated(pod, "sockets")
    assert (sockets["exitCode"], sockets["reason"]) == (126, "ContainerCannotRun")
    assert "sock_open" in sockets["message"]
    assert (attempts.stage.given / "mine.txt").read_text() == "for the task"


def test_has_no_more_memory_than_its_limit(attempts: Attempts) -> None:
    attempts.run("greedy", attempts.container("grow", memory="24Mi"))
    ended = terminated(attempts.ended("greedy"))
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    assert "the limit is 25165824 bytes" in ended["message"]
    taken = [line for line in attempts.pods.log("greedy").splitlines() if line.endswith(" MiB")]
    assert 8 <= len(taken) < 24


def test_has_no_more_time_than_its_deadline(attempts: Attempts) -> None:
    """Whether it computes or waits."""
    two = [attempts.container(way, name=way) for way in ("spin", "wait")]
    attempts.run("late", *two, activeDeadlineSeconds=2)
    pod = attempts.ended("late")
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    assert "active on the node longer than" in pod["status"]["message"]
    assert terminated(pod, "spin")["exitCode"] and terminated(pod, "wait")["exitCode"]


def test_has_no_more_time_than_its_own_limit(attempts: Attempts) -> None:
    limit = {"annotations": {"wasm.corral.dev/timeout-seconds": "1"}}
    two = [attempts.container(way, name=way) for way in ("spin", "wait")]
    attempts.run("late", *two, metadata=limit)
    pod = attempts.ended("late")
    for way in ("spin", "wait"):
        ended = terminated(pod, way)
        assert (ended["exitCode"], ended["reason"]) == (142, "WasmDeadlineExceeded")
        assert ended["message"] == "out of time: the limit is 1 seconds"
