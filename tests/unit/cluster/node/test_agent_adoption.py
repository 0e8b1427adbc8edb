"""What becomes of pods when their agent stops, or is killed, and another one comes."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_world import World, state
from node_waiting import until

from corral.cluster.node.agent import Agent, AgentConfig, FolderInUse
from corral.cluster.node.isolation import Capabilities, Mode
from corral.cluster.node.layout import Layout
from corral.kube.resources import PODS
from tests.backends import Backend


class Killable:
    """Agents as processes, one after the other on the same folder."""

    def __init__(self, world: World, kubeconfig: Path) -> None:
        self._world = world
        self._kubeconfig = kubeconfig
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, mode: str = "plain") -> None:
        script = Path(__file__).with_name("agent_process.py")
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(script),
            str(self._kubeconfig),
            str(self._world.folder),
            self._world.node,
            mode,
            stdout=asyncio.subprocess.PIPE,
        )

    async def ready(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        async with asyncio.timeout(60):
            assert await self._process.stdout.readline() == b"ready\n"

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self._process.communicate()
            self._process = None


@pytest.fixture
async def killable(world: World, backend: Backend) -> AsyncIterator[Killable]:
    killable = Killable(world, backend.kubeconfig)
    yield killable
    await killable.kill()


def processes(marker: str) -> list[int]:
    """The processes whose command line has this word."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in line.split(b"\0"):
                found.append(int(name))
    return found


async def test_a_running_pod_is_taken_over(world: World, killable: Killable) -> None:
    await killable.start()
    await killable.ready()
    script = "echo up; until [ -e $0 ]; do sleep 0.05; done; echo done"
    flag = world.folder.parent / "flag"
    await world.run("sh", "-c", script, str(flag))
    before = await world.phase("Running")
    await killable.kill()
    await world.start()
    flag.touch()
    after = await world.phase("Succeeded")
    assert state(after)["containerID"] == state(before)["containerID"]
    assert state(after)["restartCount"] == 0
    assert world.log(after) == "up\ndone"


async def test_an_end_that_nobody_saw_is_reported_as_it_was(
    world: World, killable: Killable
) -> None:
    await killable.start()
    await killable.ready()
    flag = world.folder.parent / "flag"
    await world.run(
        "sh", "-c", "until [ -e $0 ]; do sleep 0.02; done; echo because > $1; exit 5",
        str(flag), "/dev/termination-log",
    )  # fmt: skip
    pod = await world.phase("Running")
    await killable.kill()
    flag.touch()
    uid = pod["metadata"]["uid"]
    record = world.folder / "containers" / f"{uid}.main.0" / "state.json"
    await until(lambda: '"exited"' in record.read_text())
    await world.start()
    ended = state(await world.phase("Failed"))["state"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (5, "because\n")


async def test_a_pod_deleted_meanwhile_is_ended(world: World, killable: Killable) -> None:
    await killable.start()
    await killable.ready()
    await world.run("sleep", "987651", name="asked")
    await world.run("sleep", "987652", name="forced")
    for name in ("asked", "forced"):
        await world.phase("Running", name)
    await killable.kill()
    await world.delete("asked")
    await world.delete("forced", grace_seconds=0)
    assert processes("987651") and processes("987652")
    await world.start()
    await until(lambda: not processes("987652"))
    await world.gone("asked")
    assert not processes("987651")
    await until(lambda: not list((world.folder / "containers").iterdir()))
    await until(lambda: not list((world.folder / "logs").iterdir()))


async def test_pods_of_a_stopped_agent_run_on(world: World) -> None:
    await world.start()
    await world.run("sleep", "987653")
    await world.phase("Running")
    await world.stop(end_pods=False)
    (process,) = processes("987653")
    agent = await world.start()
    assert processes("987653") == [process]
    assert [usage.name for usage in agent.access.usage()] == ["pod"]


async def test_ended_with_the_agent(world: World) -> None:
    await world.start()
    await world.run("sleep", "987654", name="never")
    await world.run("sleep", "987655", name="always", restartPolicy="Always")
    polite = "trap 'exit 0' TERM; while true; do sleep 0.05; done"
    await world.run("sh", "-c", polite, "987656", name="polite", restartPolicy="OnFailure")
    for name in ("never", "always", "polite"):
        await world.phase("Running", name)
    await world.stop(end_pods=True)
    for marker in ("987654", "987655", "987656"):
        assert not processes(marker)
    failed = await world.get("never")
    assert failed["status"]["phase"] == "Failed"
    assert failed["status"]["reason"] == "Terminated"
    await world.start()
    for name in ("always", "polite"):
        again = await world.until(
            lambda pod: state(pod)["restartCount"] == 1 and "running" in state(pod)["state"], name
        )
        assert state(again)["lastState"]["terminated"]["exitCode"] != 0
    assert (await world.get("never"))["status"]["phase"] == "Failed"


async def test_what_was_lost_with_the_folder_has_failed(world: World) -> None:
    await world.start()
    await world.run("sleep", "987657")
    await world.phase("Running")
    await world.stop(end_pods=False)
    (process,) = processes("987657")
    os.kill(process, signal.SIGKILL)
    await until(lambda: not processes("987657"))
    world.folder = world.folder.with_name("other")
    await world.start()
    failed = await world.phase("Failed")
    ended = state(failed)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")


async def test_one_agent_for_each_folder(world: World) -> None:
    await world.start()
    config = AgentConfig(name="other", data_dir=world.folder, isolation="plain", gpus=())
    with pytest.raises(FolderInUse, match="already works in"):
        await Agent(config, world.client).start()


@pytest.mark.parametrize(
    ("error", "phase"),
    [
        ("/proc/4194303/fd/30: No such file or directory", "Succeeded"),
        ('exec: "nothing": executable file not found in $PATH', "Failed"),
    ],
)
async def test_surroundings_that_an_agent_took_with_it_are_made_again(
    world: World, error: str, phase: str
) -> None:
    """An agent was killed after it had asked for a container: only a program that failed counts."""
    await world.run("true")
    uid = (await world.get())["metadata"]["uid"]
    layout = Layout(world.folder)
    layout.make()
    layout.open()
    folder = layout.containers / f"{uid}.main.0"
    folder.mkdir()
    labels = {"uid": uid, "namespace": world.namespace, "pod": "pod", "container": "main"}
    spec = {"id": folder.name, "labels": {**labels, "attempt": "0"}, "env": {}}
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "claim").touch()
    state = {"phase": "exited", "error": error, "exitCode": 128}
    (folder / "state.json").write_text(json.dumps(state))
    await world.start()
    ended = await world.until(
        lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"), "pod"
    )
    assert ended["status"]["phase"] == phase, json.dumps(ended["status"], indent=1)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("highest", ["root", "plain"])
async def test_killed_at_any_moment(world: World, killable: Killable, highest: Mode) -> None:
    """Each pod appends a line when it runs: none may be missing, none may be there twice."""
    mode = Capabilities.detect("corral-tests", highest=highest).mode
    rng = random.Random(7)
    trace = world.folder.parent / "trace"
    trace.mkdir()
    names: list[str] = []
    for turn in range(8):
        await killable.start(mode)
        made = []
        for i in range(4):
            name = f"p{turn}-{i}"
            script = f"echo ran >> {trace}/{name}; sleep 0.$0"
            made.append(
                await world.run(
                    "sh",
                    "-c",
                    script,
                    str(rng.randrange(9)),
                    name=name,
                    container={"volumeMounts": [{"name": "trace", "mountPath": str(trace)}]},
                    volumes=[{"name": "trace", "hostPath": {"path": str(trace)}}],
                )
            )
        names += made
        if turn % 3 == 2:
            await killable.ready()
        await asyncio.sleep(rng.random() * 1.5)
        await killable.kill()
    await world.start(isolation=mode)
    for name in names:
        pod = await world.until(
            lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"), name
        )
        assert pod["status"]["phase"] == "Succeeded", json.dumps(pod["status"], indent=1)
        assert (trace / name).read_text() == "ran\n"
    await world.client.delete_collection(PODS, world.namespace)
    for name in names:
        await world.gone(name)
    await until(lambda: not list((world.folder / "containers").iterdir()))
    await until(lambda: not list((world.folder / "pods").iterdir()))
