"""The same pods in every isolation mode that this machine has; and what is left afterwards."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
import wasmtime
from agent_world import World, state
from node_waiting import until

from corral.cluster.node import wasm
from corral.cluster.node.access import AccessError
from corral.cluster.node.isolation import Capabilities, Mode
from corral.cluster.node.layout import Layout
from corral.kube.errors import AlreadyExists
from corral.kube.resources import CONFIGMAPS, Resource

MODES: tuple[Mode, ...] = ("root", "user", "plain")


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> Mode:
    wanted: Mode = request.param
    if Capabilities.detect("corral-tests", highest=wanted).mode != wanted:
        pytest.skip(f"this machine has no mode {wanted}")
    return wanted


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


async def test_a_pod_with_everything(world: World, mode: Mode) -> None:
    agent = await world.start(isolation=mode)
    settings = {"metadata": {"name": "settings"}, "data": {"key": "value"}}
    await world.client.create(CONFIGMAPS, settings, namespace=world.namespace)
    script = """
        cat $0/key; echo; echo data > $1/file; cat $1/file; pwd; echo $HOSTNAME; echo why > $2
        echo memory > $3/file; until [ -e $1/go ]; do sleep 0.05; done
    """
    await world.run(
        "sh",
        "-c",
        script,
        "/etc/corral-test/config",
        "/corral-test-data",
        "/dev/termination-log",
        "/corral-test-memory",
        container={
            "workingDir": "/corral-test-data",
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/corral-test/config", "readOnly": True},
                {"name": "data", "mountPath": "/corral-test-data"},
                {"name": "memory", "mountPath": "/corral-test-memory"},
            ],
        },
        volumes=[
            {"name": "config", "configMap": {"name": "settings"}},
            {"name": "data", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
        ],
        hostname="named",
        terminationGracePeriodSeconds=1,
    )
    pod = await world.phase("Running")
    folder = world.folder / "pods" / pod["metadata"]["uid"] / "volumes" / "data"
    await until(lambda: world.log(pod).endswith("named"))
    shown = "/corral-test-data" if mode != "plain" else str(folder)
    assert world.log(pod) == f"value\ndata\n{shown}\nnamed"
    used = agent.access.usage()[0].containers[0]
    assert used.name == "main" and used.usage.memory_bytes > 0
    streams = await agent.access.exec(
        world.namespace,
        "pod",
        "main",
        command=["cat", f"{shown}/file"],
        stdin=False,
        tty=False,
    )
    assert await streams.collect() == (0, b"data\n")
    await world.stop(end_pods=False)
    await world.start(isolation=mode)
    (folder / "go").touch()
    done = await world.phase("Succeeded")
    assert state(done)["state"]["terminated"]["message"] == "why\n"
    assert state(done)["restartCount"] == 0
    await world.stop(end_pods=True)
    assert not list((world.folder / "containers").iterdir())
    assert not list((world.folder / "pods").iterdir())
    assert world.groups() == []
    assert str(world.folder) not in mounts()
    prefix = Layout(world.folder).prefix
    assert not [name for name in os.listdir("/dev/shm") if name.startswith(prefix)]


async def test_limits_are_kept(world: World, mode: Mode) -> None:
    if Capabilities.detect("corral-tests", highest=mode).groups is None:
        pytest.skip("no control groups here")
    await world.start(isolation=mode)
    await world.run(
        "python",
        "-c",
        "x = bytearray(200 << 20); print(len(x))",
        container={"image": "python:3", "resources": {"limits": {"memory": "40Mi"}}},
    )
    failed = await world.phase("Failed")
    ended = state(failed)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


async def test_users_and_groups(world: World, mode: Mode) -> None:
    if os.geteuid() != 0 or mode == "user":
        pytest.skip("nobody can become somebody else here")
    await world.start(isolation=mode)
    await world.run(
        "sh",
        "-c",
        "id -u; id -g; id -G; touch $0/mine && ls -n $0/mine | cut -d' ' -f4",
        "/corral-test-data",
        container={"volumeMounts": [{"name": "data", "mountPath": "/corral-test-data"}]},
        volumes=[{"name": "data", "emptyDir": {}}],
        securityContext={
            "runAsUser": 4321,
            "runAsGroup": 4322,
            "fsGroup": 4323,
            "supplementalGroups": [4324],
        },
    )
    done = await world.until(lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"))
    seen = world.log(done).split("\n")
    assert seen[:3] == ["4321", "4322", "4322 4323 4324"]
    if mode != "plain":  # there the folder is reached by its path, which tests keep to themselves
        assert seen[3:] == ["4323"]
    await world.run("true", name="root", securityContext={"runAsNonRoot": True})
    pod = await world.until(lambda pod: "waiting" in state(pod).get("state", {}), "root")
    if state(pod)["state"]["waiting"]["reason"] == "ContainerCreating":
        pod = await world.until(
            lambda pod: state(pod)["state"]["waiting"]["reason"] != "ContainerCreating", "root"
        )
    waiting = state(pod)["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert waiting["message"].startswith("container has runAsNonRoot and image will run as root")


async def test_access_in_the_words_of_a_kubelet(world: World) -> None:
    agent = await world.start()
    await world.run("sh", "-c", "exit 1", restartPolicy="Always")
    await world.until(lambda pod: state(pod).get("restartCount", 0) >= 1)
    access, where = agent.access, (world.namespace, "pod", "main")
    assert access.log_file(*where, previous=False).exists()
    assert access.log_file(*where, previous=True).exists()
    await world.run("true", name="other", container={"image": "no/such:1"})
    await world.until(lambda pod: "waiting" in state(pod).get("state", {}), "other")
    cases = {
        (world.namespace, "missing", "main"): (404, 'pod "missing" not found'),
        (world.namespace, "pod", "missing"): (
            400,
            'container "missing" in pod "pod" is not available',
        ),
        (world.namespace, "other", "main"): (
            400,
            'container "main" in pod "other" is waiting to start: image can\'t be pulled',
        ),
    }
    for place, (code, words) in cases.items():
        with pytest.raises(AccessError) as caught:
            access.log_file(*place, previous=False)
        assert (caught.value.code, str(caught.value)) == (code, words)
    with pytest.raises(AccessError) as caught:
        access.log_file(world.namespace, "other", "main", previous=True)
    words = 'previous terminated container "main" in pod "other" not found'
    assert str(caught.value) == words


async def test_a_module_runs_as_a_container(world: World, mode: Mode) -> None:
    folder = world.folder.parent / "modules"
    folder.mkdir()
    code = """
        (module
          (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
          (memory (export "memory") 1)
          (func (export "_start") (call $exit (i32.const 3))))
    """
    endless = '(module (memory (export "memory") 1) (func (export "_start") (loop (br 0))))'
    (folder / "three.wasm").write_bytes(wasmtime.wat2wasm(code))
    (folder / "endless.wasm").write_bytes(wasmtime.wat2wasm(endless))
    await world.start(isolation=mode)
    await runtime_class(world)
    for name, fuel in (("three", ""), ("endless", "100000")):
        await world.run(
            f"/modules/{name}.wasm",
            name=name,
            annotations={"wasm.corral.dev/fuel": fuel} if fuel else {},
            container={
                "image": "any/module:1",
                "volumeMounts": [{"name": "modules", "mountPath": "/modules"}],
            },
            volumes=[{"name": "modules", "hostPath": {"path": str(folder)}}],
            runtimeClassName="wasm",
        )
    ended = state(await world.phase("Failed", "three"), "main")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (3, "Error")
    ended = state(await world.phase("Failed", "endless"), "main")["state"]["terminated"]
    assert ended["reason"] == "WasmOutOfFuel"


async def runtime_class(world: World) -> None:
    classes = Resource("node.k8s.io", "v1", "runtimeclasses", False, "RuntimeClass")
    with suppress(AlreadyExists):
        await world.client.create(classes, wasm.runtime_class())
