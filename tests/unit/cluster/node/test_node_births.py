"""Containers that are started without a copy of their shim's memory, beside others."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.container.processes import Container, ContainerSpec, Engine, Mount
from corral.cluster.node.container.security import DEFAULT
from corral.cluster.node.container.view import machine_view
from corral.cluster.node.isolation import Capabilities, Isolation, Sandbox
from corral.cluster.node.shim import births
from tests.unit.cluster.node.node_waiting import until

pytestmark = pytest.mark.skipif(
    births.native is None or Capabilities.detect("probe").mode != "root",
    reason="there was no compiler, or containers do not share a shim here",
)

LOOK = """
import os, resource
for name in ("CapBnd", "CapEff", "CapPrm", "CapInh", "CapAmb", "Seccomp", "NoNewPrivs", "Uid",
             "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt"):
    print(name, open("/proc/self/status").read().split(f"\\n{name}:")[1].split("\\n")[0].split())
for kind in ("NPROC", "NOFILE", "CORE"):
    print(kind, resource.getrlimit(getattr(resource, f"RLIMIT_{kind}")))
print("oom", open("/proc/self/oom_score_adj").read())
print("folder", os.getcwd(), sorted(os.listdir("/")), os.getsid(0) == os.getpid(), os.getppid())
print("files", [n for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")])
print("processes", sorted(n for n in os.listdir("/proc") if n.isdigit()))
mounts = [line.split() for line in open("/proc/self/mountinfo")]
for words in sorted(mounts, key=lambda words: words[4]):
    print("mount", words[4], words[5], words[words.index("-") + 1])
first = open("/proc/1/status").read()
print("first", [first.split(f"\\n{n}:")[1].split("\\n")[0].split() for n in ("Uid", "CapEff")])
for name in ("fd", "root", "environ"):
    try:
        found = os.open(f"/proc/1/{name}", os.O_RDONLY)
        print(name, "open", os.listdir(found) if name == "fd" else "")
    except PermissionError:
        print(name, "closed")
"""
"""Everything that a container can tell of its boundary."""


@pytest.fixture
async def make_engine(tmp_path: Path) -> AsyncIterator[Callable[[str], Engine]]:
    """Engines by name, each with its own shim."""
    made: list[Engine] = []

    def make(name: str) -> Engine:
        made.append(Engine(tmp_path / name / "containers"))
        return made[-1]

    yield make
    for engine in made:
        for container in await engine.adopt():
            await container.kill()
        engine.close()


def spec_of(folder: Path, name: str, argv: list[str], **more: Any) -> ContainerSpec:
    folder.mkdir(exist_ok=True)
    (folder / "hosts").touch()
    spec = ContainerSpec(
        id=name,
        argv=argv,
        env={"PATH": os.defpath},
        log=str(folder / f"{name}.log"),
        view=machine_view(folder / "view").to_dict(hide_proc=True),
        privileges={
            "capabilities": sorted(DEFAULT),
            "seccomp": True,
            "noNewPrivileges": True,
            "maxProcesses": 77,
            "oomScore": 555,
        },
        **more,
    )
    sandbox = Sandbox(uid="pod", address="", hostname="p", hosts=str(folder / "hosts"))
    return Isolation("root").dress(spec, sandbox)


async def start(engine: Engine, folder: Path, name: str, argv: list[str], **more: Any) -> Container:
    return await engine.start(spec_of(folder, name, argv, **more))


def children_of(pid: int) -> dict[int, bytes]:
    """Their command lines."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in found}


def has_heap(pid: int) -> bool:
    return "[heap]" in Path(f"/proc/{pid}/maps").read_text()


async def look(engine: Engine, folder: Path, **more: Any) -> str:
    container = await start(engine, folder, "looks", [sys.executable, "-c", LOOK], **more)
    assert not container.state.error
    async with asyncio.timeout(60):
        await container.wait()
    assert container.state.exit_code == 0, (folder / "looks.log").read_text()
    text = (folder / "looks.log").read_text()
    return re.sub(r"^\S+ ", "", text, flags=re.M).replace(str(folder), "")


@pytest.mark.parametrize(
    "more",
    [{}, {"uid": 1000, "gid": 1001, "groups": [1002]}, {"shares": ["user"]}, {"cwd": "/new/one"}],
    ids=["root", "user", "machine's users", "folder"],
)
async def test_both_make_the_same_boundary(
    make_engine: Callable[[str], Engine],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, Any],
) -> None:
    without = await look(make_engine("without"), tmp_path / "without", **more)
    monkeypatch.setenv("CORRAL_NATIVE", "0")
    with_copy = await look(make_engine("with"), tmp_path / "with", **more)
    assert without == with_copy
    assert "mount /proc/sys ro" in without


@pytest.mark.parametrize(
    "more",
    [
        {"argv": ["no-such-program"]},
        {"argv": ["/no/such/program"]},
        {"argv": ["/etc/hosts"]},
        {"argv": ["true"], "cwd": "/etc/hosts"},
        {"argv": ["true"], "cwd": "/proc/1/root"},
        {"argv": ["true"], "mounts": [Mount(source="/no/such/folder", target="/volume")]},
        {"argv": ["true"], "sysctls": {"kernel.no_such": "1"}},
    ],
    ids=lambda more: " ".join(map(str, more.values())),
)
async def test_both_say_the_same_of_what_fails(
    make_engine: Callable[[str], Engine],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, Any],
) -> None:
    without = await start(make_engine("without"), tmp_path / "without", "fails", **more)
    monkeypatch.setenv("CORRAL_NATIVE", "0")
    with_copy = await start(make_engine("with"), tmp_path / "with", "fails", **more)
    assert without.state.error
    assert without.state.error == with_copy.state.error


@dataclass(frozen=True)
class Place:
    """Where a process is, and how much it has open."""

    namespaces: dict[str, str]
    root: str
    folder: str
    files: int

    @classmethod
    def of(cls, pid: int) -> Place:
        names = ("mnt", "uts", "ipc", "net", "pid", "pid_for_children", "user")
        found = {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in names}
        root, folder = (os.readlink(f"/proc/{pid}/{name}") for name in ("root", "cwd"))
        return cls(found, root, folder, len(os.listdir(f"/proc/{pid}/fd")))


async def test_a_shim_is_where_it_was(make_engine: Callable[[str], Engine], tmp_path: Path) -> None:
    """It goes among the files of containers and comes back, whether they can be made or not."""
    engine, folder = make_engine("one"), tmp_path / "one"
    first = await start(engine, folder, "first", ["sleep", "600"])
    broken: list[tuple[list[str], dict[str, Any]]] = [
        (["no-such-program"], {}),
        (["true"], {"mounts": [Mount(source="/no/such", target="/volume")]}),
        (["true"], {"mounts": [Mount(source="/usr", target="/proc/self/x/y")]}),
        (["true"], {"sysctls": {"kernel.no_such": "1"}}),
    ]

    async def start_all(turn: int) -> None:
        for number, (argv, more) in enumerate(broken):
            failed = await start(engine, folder, f"failed-{turn}-{number}", argv, **more)
            assert failed.state.error
        ended = await start(engine, folder, f"ended-{turn}", ["true"])
        await ended.wait()
        last = await start(engine, folder, f"last-{turn}", ["sleep", "600"])
        await last.kill()
        assert (await (await first.exec(["echo", "on"])).collect()) == (0, b"on\n")

    await start_all(0)
    most = Place.of(first.state.shim)  # some of what it has open may be about to go
    for turn in range(1, 4):
        await start_all(turn)
    await until(lambda: Place.of(first.state.shim).files <= most.files)
    assert replace(Place.of(first.state.shim), files=most.files) == most
    ours = Place.of(os.getpid())
    assert (most.namespaces, most.root) == (ours.namespaces, ours.root)


async def test_the_first_process_has_no_memory_of_the_shim(
    make_engine: Callable[[str], Engine], tmp_path: Path
) -> None:
    engine = make_engine("one")
    await start(engine, tmp_path / "one", "first", ["sleep", "600"])
    second = await start(engine, tmp_path / "one", "second", ["sleep", "600"])
    shim = second.state.shim
    holders = [pid for pid, line in children_of(shim).items() if b"sleep" not in line]
    assert len(holders) == 2
    assert has_heap(shim)
    assert not has_heap(holders[-1])
    assert not os.listdir(f"/proc/{holders[-1]}/fd")


async def test_containers_do_not_share_what_they_see(
    make_engine: Callable[[str], Engine], tmp_path: Path
) -> None:
    """What one changes in its own root, hidden folders or shared memory no other finds."""
    engine = make_engine("one")
    writes = "touch /mine /tmp/mine /dev/shm/mine /root/mine; touch /usr/mine /sys/mine /proc/sys/x"
    one = await start(engine, tmp_path / "one", "writes", ["sh", "-c", f"{writes}; sleep 600"])
    codes = await (await one.exec(["sh", "-c", "until test -e /root/mine; do :; done"])).collect()
    assert codes == (0, b"")
    other = await start(engine, tmp_path / "one", "other", ["sleep", "600"])
    found = "find / -xdev -name mine; find /tmp /dev/shm /usr/mine -maxdepth 1 -name mine"
    code, said = await (await other.exec(["sh", "-c", f"{found} 2>/dev/null; true"])).collect()
    assert (code, said) == (0, b"")
