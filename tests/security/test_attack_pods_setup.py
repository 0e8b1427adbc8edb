"""What a pod's spec and volumes do to the node while it puts a container together.

Whoever does that has descriptors of the machine open, to which links in /proc/self/fd lead.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.container.security import hides_proc, refusal
from tests.backends import Backend, Node, add_node
from tests.cluster.objects import Objects
from tests.security.hostile_pods import Attacker, attacker, backend, nodes

__all__ = ["attacker", "backend", "nodes"]

Obj = dict[str, Any]

NUMBERS = range(3, 40)
"""Descriptors that a shim may have open."""
UP = "/.." * 12


@pytest.fixture
def outside(attacker: Attacker) -> Iterator[Path]:
    """A folder of the machine in which nothing may appear."""
    folder = Path(tempfile.mkdtemp(prefix="corral-outside-"))
    (folder / "file").write_text("as it was")
    folder.chmod(0o777)
    (folder / "file").chmod(0o666)
    yield folder
    shutil.rmtree(folder)


def many(attacker: Attacker, code: str, **of_each: Any) -> list[Obj]:
    """Containers of one pod, one for each descriptor; ``{n}`` in their fields is its number."""

    def filled(value: Any, number: int) -> Any:
        if isinstance(value, str):
            return value.replace("{n}", str(number))
        if isinstance(value, list):
            return [filled(one, number) for one in value]
        if isinstance(value, dict):
            return {name: filled(one, number) for name, one in value.items()}
        return value

    return [
        {
            "name": f"c{number}",
            "image": "busybox",
            "command": ["sh", "-c", code],
            **filled(of_each, number),
        }
        for number in NUMBERS
    ]


def settled(pod: Obj) -> bool:
    states = [one.get("state") or {} for one in pod["status"].get("containerStatuses") or ()]
    decided = [
        "terminated" in state or state.get("waiting", {}).get("reason") == "CreateContainerError"
        for state in states
    ]
    return len(states) == len(NUMBERS) and all(decided)


def output_of_all(attacker: Attacker, name: str) -> str:
    pod = attacker.wait(name, settled)
    ran = [
        one["name"]
        for one in pod["status"]["containerStatuses"]
        if one["state"].get("terminated", {}).get("reason") not in (None, "StartError")
    ]
    return "".join(attacker.log(name, one) for one in ran)


@pytest.mark.attack(
    "pods",
    "works in a folder of the machine by a descriptor of whoever starts it (/proc/self/fd/N)",
    "No such link is followed; the container does not start there",
)
def test_working_directories_by_descriptors(attacker: Attacker, outside: Path) -> None:
    code = f"ls -d .{UP}{outside} 2>/dev/null; true"
    attacker.run("cwd", *many(attacker, code, workingDir="/proc/self/fd/{n}"))
    assert str(outside) not in output_of_all(attacker, "cwd")


@pytest.mark.attack(
    "pods",
    "has its working directory made on the machine, by a descriptor of whoever makes it",
    "Nothing is made there",
)
def test_no_folder_is_made_on_the_machine(attacker: Attacker, outside: Path) -> None:
    folder = f"/proc/self/fd/{{n}}{UP}{outside}/made-{{n}}"
    attacker.run("make", *many(attacker, "true", workingDir=folder))
    attacker.wait("make", settled)
    assert [path.name for path in outside.iterdir()] == ["file"]


@pytest.mark.attack(
    "pods",
    "mounts a volume over /proc/sys whose links lead to files of the machine",
    "The kernel's settings are written before volumes are there",
)
def test_settings_are_not_written_through_volumes(attacker: Attacker, outside: Path) -> None:
    name = "ip_unprivileged_port_start"
    plant = "".join(
        f"mkdir /v/{n}; ln -s /proc/self/fd/{n}{UP}{outside}/file /v/{n}/{name}\n" for n in NUMBERS
    )
    first = {"name": "first", "image": "busybox", "command": ["sh", "-c", plant]}
    mount = {"name": "v", "mountPath": "/proc/sys/net/ipv4", "subPath": "{n}"}
    attacker.run(
        "sysctl",
        *many(attacker, "true", volumeMounts=[mount]),
        initContainers=[{**first, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    attacker.wait("sysctl", settled)
    assert (outside / "file").read_text() == "as it was"


@pytest.mark.attack(
    "pods",
    "mounts a volume over /proc/sys in which a pipe stands for a setting",
    "Nobody waits at the pipe: other pods start",
)
def test_nobody_waits_at_a_pipe(attacker: Attacker) -> None:
    first = {
        "name": "first",
        "image": "busybox",
        "command": ["sh", "-c", "mkfifo /v/ip_unprivileged_port_start"],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    main = {
        "name": "main",
        "image": "busybox",
        "command": ["true"],
        "volumeMounts": [{"name": "v", "mountPath": "/proc/sys/net/ipv4"}],
    }
    attacker.run("pipe", main, initContainers=[first], volumes=[{"name": "v", "emptyDir": {}}])
    attacker.wait("pipe", lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"))
    assert attacker.tries("print('others start')") == ["others start"]


@pytest.mark.attack(
    "pods",
    "mounts volumes over /proc and /dev, with pipes and links where the node has its own files",
    "The node has opened its own before: the container starts, and nobody waits",
)
@pytest.mark.parametrize("where", ["/proc", "/dev"])
def test_volumes_over_proc_and_dev(attacker: Attacker, outside: Path, where: str) -> None:
    plant = (
        "mkdir -p /v/self/ns /v/pts; for n in mnt net pid uts ipc; do mkfifo /v/self/ns/$n; done; "
        f"ln -s {outside}/file /v/pts/ptmx; echo planted > /v/word"
    )
    first = {
        "name": "first",
        "image": "busybox",
        "command": ["sh", "-c", plant],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    main = {
        "name": "main",
        "image": "busybox",
        "command": ["cat", f"{where}/word"],
        "tty": True,
        "volumeMounts": [{"name": "v", "mountPath": where}],
    }
    volumes = [{"name": "v", "emptyDir": {}}]
    name = where.strip("/")
    said = attacker.output(name, main, initContainers=[first], volumes=volumes)
    assert said.split() == ["planted"]
    assert attacker.tries("print('others start')") == ["others start"]


SWAP = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
names = [f"/v/s{n}".encode() for n in range(3, 24)]
for n, name in enumerate(names, 3):
    os.makedirs(name, exist_ok=True)
    os.symlink(f"/proc/self/fd/{n}" + sys.argv[1], name + b"-link")
print("up", flush=True)
while True:  # RENAME_EXCHANGE: at every moment there is something of this name
    for name in names:
        libc.renameat2(-100, name, -100, name + b"-link", 2)
"""


@pytest.mark.attack(
    "pods",
    "exchanges folders of a volume for links while something is mounted below them",
    "The mount is made where it was looked for, or not at all; nothing is made on the machine",
)
def test_an_exchange_under_a_mount_path(attacker: Attacker, outside: Path) -> None:
    swapper = {
        "name": "swapper",
        "image": "python:3.12",
        "command": ["python", "-c", SWAP, f"{UP}{outside}"],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "restartPolicy": "Always",
    }
    mounts = [{"name": "v", "mountPath": "/v"}] + [
        {"name": "w", "mountPath": f"/v/s{number}/made-{number}"} for number in range(3, 24)
    ]
    code = "true"
    attacker.run(
        "exchange",
        *(
            {
                "name": f"c{number}",
                "image": "busybox",
                "command": ["sh", "-c", code],
                "volumeMounts": mounts,
            }
            for number in range(8)
        ),
        initContainers=[swapper],
        volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
    )

    def tried(pod: Obj) -> bool:
        states = [one.get("state") or {} for one in pod["status"].get("containerStatuses") or ()]
        return len(states) == 8 and all(
            "terminated" in one or one.get("waiting", {}).get("reason") == "CreateContainerError"
            for one in states
        )

    attacker.wait("exchange", tried)
    assert [path.name for path in outside.iterdir()] == ["file"]
    attacker.delete("exchange", grace=0)


BESIDE = """
import stat
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname"):
    attempt(lambda: open(path, "r+b"))
attempt(lambda: os.mknod("/tmp/disk", stat.S_IFBLK | 0o600, os.makedev(254, 0)))
hidden = [path for path in ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/interrupts")
          if os.path.exists(path)]
print([path for path in hidden if open(path, "rb").read(4)], os.getuid())
"""


@pytest.mark.attack(
    "host access",
    "has the machine's users, on a node that allows that and no more, and its root's rights",
    "It changes no settings of the kernel, makes no devices, reads no memory",
)
def test_the_machines_users_are_not_its_administrators(
    backend: Backend, nodes: dict[str, Node], objects: Objects
) -> None:
    options = ("--allow-host-access=users",)
    if os.geteuid() != 0:
        pytest.skip("only root has other users to give")
    nodes["three"] = add_node(
        backend, "three", isolation="root", options=options, open_to_cases=False
    )
    lines = Attacker(objects, nodes["three"]).tries(BESIDE, hostUsers=True)
    assert lines == ["EROFS", "EROFS", "EPERM", "[] 0"]


@pytest.mark.attack(
    "host access",
    "has the machine's users and asks for a capability that is harmless in a namespace only",
    "refused, with the option",
)
@pytest.mark.parametrize("name", ["MKNOD", "SYS_NICE", "SYS_RESOURCE", "SYS_PTRACE"])
def test_capabilities_with_the_machines_users(name: str) -> None:
    context = {"capabilities": {"add": [name]}}
    spec = {"hostUsers": True, "containers": [{"name": "main", "securityContext": context}]}
    pod = {"metadata": {"namespace": "x"}, "spec": spec}
    refused = refusal(pod, mode="root", allowed=("users",))
    assert refused is not None and "--allow-host-access capabilities" in refused.message
    del spec["hostUsers"]
    assert refusal(pod, mode="root", allowed=()) is None


@pytest.mark.attack(
    "host access",
    "has the machine's users and asks for all of /proc, where only its root's rights are missing",
    "refused, with the reason; pods with users of their own may have it",
)
def test_all_of_proc_with_the_machines_users() -> None:
    context = {"procMount": "Unmasked"}
    container = {"name": "main", "securityContext": context}
    spec: Obj = {"hostUsers": True, "containers": [container]}
    pod = {"metadata": {"namespace": "x"}, "spec": spec}
    refused = refusal(pod, mode="root", allowed=("users",))
    assert refused is not None and "procMount Unmasked" in refused.message
    assert not hides_proc(pod, container)
    spec["hostUsers"] = False
    assert refusal(pod, mode="root", allowed=()) is None
    context["procMount"] = "Default"
    assert hides_proc(pod, container) and hides_proc(pod, {"name": "main"})


@pytest.mark.attack(
    "pods",
    "has its program looked for in half a million folders while other pods wait to be started",
    "The container is refused at once",
)
def test_a_path_without_end(attacker: Attacker) -> None:
    folders = ":".join("a" for _ in range(500_000))
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["nothing"],
        "env": [{"name": "PATH", "value": folders}],
        "resources": {"limits": {"cpu": "1m"}, "requests": {"cpu": "1m"}},
    }
    attacker.run("path", container)
    pod = attacker.phase("path", "Failed")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert "path has more than 1000 folders" in ended["message"]
