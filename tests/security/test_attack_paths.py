"""Pods against the node that follows their paths: links, exchanges, pipes, devices."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.container import logs
from corral.cluster.node.container.logs import LogOptions
from corral.cluster.node.container.messages import MAX_BYTES, termination_message
from corral.cluster.node.shim.journal import Journal
from corral.cluster.node.shim.sources import open_source
from corral.cluster.node.volumes.claims import Claims
from corral.cluster.node.volumes.pod_volumes import host_path, job_path, mounts_of
from corral.cluster.node.volumes.sources import ConfigError
from corral.cluster.workloads.claims.folders import make_folder, remove_folder
from corral.files.beneath import LedOut
from corral.files.removal import remove_tree
from corral.kube.resources import PERSISTENTVOLUMECLAIMS
from tests.backends import Backend, Node
from tests.cluster.objects import Objects, eventually
from tests.cluster.pods.conftest import backend, nodes, start_node
from tests.cluster.pods.pods import Obj, Pods, container, python, shell, terminated

__all__ = ["backend", "nodes"]

SECRET = "another tenant's secret"
OUT = "The container does not start, and an event says that the path leads out of its volume"


@pytest.fixture(params=["root", "user"])
def node(request: pytest.FixtureRequest, backend: Backend, nodes: dict[str, Node]) -> Node:
    """A node of each mode in turn; that of user mode runs as an ordinary user."""
    return start_node(backend, nodes, request.param)


@pytest.fixture
def pods(objects: Objects, node: Node) -> Pods:
    return Pods(objects, node)


@pytest.fixture
def treasure(node: Node) -> Iterator[Path]:
    """A folder of the node's user with a secret, as the data folder is one."""
    folder = Path(tempfile.mkdtemp(prefix="corral-treasure-"))
    (folder / "file").write_text(SECRET)
    owner = (node.folder / "data").stat()
    for path in (folder, folder / "file"):
        os.chown(path, owner.st_uid, owner.st_gid)
    yield folder
    shutil.rmtree(folder)


EMPTY = [{"name": "v", "emptyDir": {}}]


def whole(path: str = "/v") -> list[Obj]:
    return [{"name": "v", "mountPath": path}]


def part(sub: str, path: str = "/part") -> list[Obj]:
    return [{"name": "v", "mountPath": path, "subPath": sub}]


# -- subPath -------------------------------------------------------------------------------------

SWAP = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
os.makedirs("/v/swap", exist_ok=True)
os.symlink(sys.argv[1], "/v/link")
while True:  # RENAME_EXCHANGE: at every moment there is something of this name
    libc.renameat2(-100, b"/v/swap", -100, b"/v/link", 2)
"""


@pytest.mark.attack(
    "paths",
    "A sidecar exchanges a folder and a link all the time while containers mount it by subPath",
    "Each container gets the folder or does not start; none gets what the link leads to",
)
@pytest.mark.route("files of pods")
def test_an_exchange_under_a_sub_path(pods: Pods, treasure: Path) -> None:
    names = [f"c{number}" for number in range(8)]
    swapper = python(SWAP, volumeMounts=whole()) | {"name": "swapper"}
    swapper["command"] = [*swapper["command"], str(treasure)]
    readers = [
        shell("cat /part/file 2>/dev/null; true", volumeMounts=part("swap")) | {"name": name}
        for name in names
    ]
    pods.run("pod", swapper, *readers, volumes=EMPTY)

    def decided(pod: Obj) -> bool:
        states = [container(pod, name)["state"] for name in names]
        waiting = [state["waiting"].get("reason") for state in states if "waiting" in state]
        return not {None, "ContainerCreating"}.intersection(waiting) and not any(
            "running" in state for state in states
        )

    pod = pods.wait("pod", decided)
    ended = [name for name in names if "terminated" in container(pod, name)["state"]]
    read = {name: pods.log("pod", name) for name in ended}
    pods.delete("pod", grace=0)
    assert SECRET not in "".join(read.values()), read


LINKS = {
    "absolute": ("ln -s {treasure} /v/out", "out"),
    "relative": ("ln -s ../../../../../../../../..{treasure} /v/out", "out"),
    "through a link": ("mkdir /v/a; ln -s {treasure} /v/a/b", "a/b"),
    "two links": ("ln -s two /v/one; ln -s {treasure} /v/two", "one"),
    "to the root": ("ln -s / /v/out", "out{treasure}"),
    "to a process's root": ("ln -s /proc/1/root /v/out", "out{treasure}"),
    "its file": ("ln -s {treasure}/file /v/out", "out"),
}


@pytest.mark.attack("paths", "A container leaves a link to a folder of the node as a subPath", OUT)
@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.route("files of pods")
def test_a_link_as_a_sub_path(pods: Pods, treasure: Path, kind: str) -> None:
    script, sub = (text.format(treasure=treasure) for text in LINKS[kind])
    pods.run(
        "pod",
        shell("cat /part /part/file", volumeMounts=part(sub)),
        initContainers=[shell(script, volumeMounts=whole()) | {"name": "first"}],
        volumes=EMPTY,
    )
    pods.wait("pod", lambda pod: "waiting" in container(pod)["state"])
    eventually(lambda: any("leads out of its volume" in text for _, text in pods.events("pod")))
    assert "terminated" not in container(pods.get("pod"))["state"]


@pytest.mark.attack(
    "paths",
    "A missing folder of a subPath is to be made behind a link that leads out of the volume",
    "Nothing is made there",
)
def test_nothing_is_made_behind_a_link(pods: Pods, treasure: Path) -> None:
    pods.run(
        "pod",
        shell("true", volumeMounts=part("out/made/here")),
        initContainers=[
            shell(f"ln -s {treasure} /v/out", volumeMounts=whole()) | {"name": "first"}
        ],
        volumes=EMPTY,
    )
    eventually(lambda: any("leads out of its volume" in text for _, text in pods.events("pod")))
    assert os.listdir(treasure) == ["file"]


@pytest.mark.attack(
    "paths",
    "subPathExpr takes a path that leads out from a variable of the container",
    "The container does not start",
)
@pytest.mark.parametrize("value", ["..", "../..", "/etc", "a/../../b"])
def test_sub_path_expressions(tmp_path: Path, value: str) -> None:
    volume = tmp_path / "v"
    volume.mkdir()
    mount = {"name": "v", "mountPath": "/x", "subPathExpr": "$(WHERE)"}
    with pytest.raises(ConfigError, match="must not"):
        mounts_of({"volumeMounts": [mount]}, {"v": volume}, {"WHERE": value})
    assert os.listdir(tmp_path) == ["v"]


@pytest.mark.attack(
    "paths",
    "A link inside a volume that stays inside is used as a subPath",
    "It works, as everywhere: only what leads out is refused",
)
def test_links_that_stay_inside(pods: Pods) -> None:
    said = pods.output(
        "pod",
        shell("cat /part/f", volumeMounts=part("link")),
        initContainers=[
            shell("mkdir /v/a; echo inside > /v/a/f; ln -s a /v/link", volumeMounts=whole())
            | {"name": "first"}
        ],
        volumes=EMPTY,
    )
    assert said == "inside\n"


# -- termination messages ------------------------------------------------------------------------


def fifo(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def hard_link(path: Path, outside: Path) -> None:
    os.link(outside, path)


def folder(path: Path, outside: Path) -> None:
    path.mkdir()


def device(path: Path, outside: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes devices")
    os.mknod(path, 0o020666, os.makedev(1, 5))  # /dev/zero


def sock(path: Path, outside: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.attack(
    "paths",
    "A container leaves a link, a pipe or a device where its termination message is read",
    "The message says that it is no file; nothing is read and nobody waits",
)
@pytest.mark.parametrize("make", [fifo, link, hard_link, folder, device, sock])
def test_no_file_as_a_termination_message(
    tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    outside = tmp_path / "outside"
    outside.write_text(SECRET)
    make(tmp_path / "message", outside)
    said = termination_message(tmp_path / "message", policy="File", failed=True, log=None)
    assert said.startswith("Error on reading termination log") and SECRET not in said


@pytest.mark.attack(
    "paths",
    "A container writes gigabytes as its termination message",
    "The last 4096 bytes are read, and no more",
)
def test_a_huge_termination_message(tmp_path: Path) -> None:
    with (tmp_path / "message").open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, os.SEEK_END)
        file.write(b"the end")
    said = termination_message(tmp_path / "message", policy="File", failed=False, log=None)
    assert len(said) == MAX_BYTES and said.endswith("the end")


@pytest.mark.attack(
    "paths",
    "A container removes its termination message, or makes it a link, and writes a lot to it",
    "The pod's status has at most 4096 bytes of what the container itself wrote",
)
def test_a_container_and_its_termination_message(pods: Pods, treasure: Path) -> None:
    script = (
        "rm -f /dev/termination-log; "
        f"ln -s {treasure}/file /dev/termination-log; mv -f /dev/null /dev/termination-log; "
        "head -c 1000000 /dev/zero | tr '\\0' x > /dev/termination-log; true"
    )
    pods.run("pod", shell(script))
    pod = pods.wait("pod", lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"))
    message = terminated(pod).get("message", "")
    assert len(message) <= MAX_BYTES and SECRET not in message


# -- logs ----------------------------------------------------------------------------------------


@pytest.mark.attack(
    "paths",
    "A link lies where the log of a container is written, and leads to another file",
    "The log is not opened; the other file stays as it is",
)
@pytest.mark.parametrize("make", [link, fifo])
def test_a_link_as_a_log(tmp_path: Path, make: Callable[[Path, Path], None]) -> None:
    outside = tmp_path / "outside"
    outside.write_text(SECRET)
    (tmp_path / "logs").mkdir()
    make(tmp_path / "logs/0.log", outside)
    with pytest.raises(OSError):
        Journal(str(tmp_path / "logs/0.log"))
    assert outside.read_text() == SECRET


@pytest.mark.attack(
    "paths",
    "A link or a pipe lies among the rotated files of a log that somebody reads",
    "It is not read",
)
@pytest.mark.parametrize("name", ["0.log", "0.log.1"])
@pytest.mark.parametrize("make", [link, fifo, folder])
def test_a_link_among_logs(tmp_path: Path, make: Callable[[Path, Path], None], name: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text(f"2026-01-01T00:00:00.000000000Z stdout F {SECRET}\n")
    log = tmp_path / "0.log"
    if name != "0.log":
        log.write_text("2026-01-01T00:00:00.000000000Z stdout F fine\n")
    make(tmp_path / name, outside)
    with pytest.raises(OSError):
        print(list(logs.read(log, LogOptions())))


# -- removal -------------------------------------------------------------------------------------

PLANT = """
umask 0
mkdir -p /v/a/b /v/deep; ln -s {treasure} /v/link; ln -s {treasure}/file /v/a/b/link
mkfifo /v/a/pipe; chmod 000 /v/a/b; chmod 500 /v/a
cd /v/deep; n=0; while [ $n -lt 300 ]; do mkdir d && cd d || exit; n=$((n+1)); done
"""


@pytest.mark.attack(
    "paths",
    "A pod leaves links to folders of the node, and folders that forbid removal, in its emptyDir",
    "All of the pod's is removed, nothing of the node's is touched",
)
def test_the_removal_of_an_empty_dir(pods: Pods, treasure: Path) -> None:
    before = treasure.stat()
    pod = pods.run(
        "pod", shell(PLANT.format(treasure=treasure), volumeMounts=whole()), volumes=EMPTY
    )
    pods.phase("pod", "Succeeded")
    pods.delete("pod", grace=0)
    pods.gone("pod")
    place = pods.node.folder / "data/pods" / pod["metadata"]["uid"]
    eventually(lambda: not place.exists())
    after = treasure.stat()
    assert (treasure / "file").read_text() == SECRET
    assert (before.st_mode, before.st_uid) == (after.st_mode, after.st_uid)


@pytest.mark.attack(
    "paths",
    "A claim is full of links when it is removed, or is a link itself",
    "Links are removed, never followed",
)
@pytest.mark.parametrize("kind", ["inside", "itself"])
def test_the_removal_of_a_claim(tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text(SECRET)
    claim = tmp_path / "claims/pvc-1"
    make_folder(claim)
    if kind == "itself":
        claim.rmdir()
        claim.symlink_to(outside)
        with pytest.raises(OSError, match="is a link"):
            remove_folder(claim)
    else:
        (claim / "link").symlink_to(outside)
        (claim / "folder").mkdir(mode=0)
        remove_folder(claim)
        assert not claim.exists()
    assert (outside / "kept").read_text() == SECRET


@pytest.mark.attack(
    "paths",
    "While a claim is removed a pod exchanges a folder in it for a link, again and again",
    "Only what is in the claim is removed",
)
def test_an_exchange_during_a_removal(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for number in range(20):
        (outside / f"kept-{number}").write_text(SECRET)
    stop, building = threading.Event(), threading.Lock()
    claim = tmp_path / "claim"

    def exchange() -> None:
        while not stop.is_set():
            with building:
                for one, two in (("a", "b"), ("link", "a"), ("a", "link"), ("b", "a")):
                    try:
                        os.rename(claim / one, claim / two)
                    except OSError:
                        continue  # removed already

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        for _ in range(60):
            with building:
                (claim / "a/deeper").mkdir(parents=True)
                (claim / "link").symlink_to(outside)
            remove_tree(claim)
    finally:
        stop.set()
        thread.join()
    assert len(os.listdir(outside)) == 20


# -- other paths ---------------------------------------------------------------------------------


@pytest.mark.attack(
    "paths",
    "A hostPath of type FileOrCreate is a link that leads to a file that is not there",
    "No file is made there",
)
def test_host_path_file_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    with pytest.raises((ConfigError, OSError)):
        host_path({"path": str(tmp_path / "link"), "type": "FileOrCreate"})
    assert not (tmp_path / "outside").exists()


@pytest.mark.attack(
    "paths",
    "In the folder that holds those of jobs there is a link where one's namespace or job should be",
    "It is not followed: no folder is made behind it, and nothing there is mounted",
)
@pytest.mark.parametrize("where", ["mine", "mine/job", "mine/job/uid"])
def test_links_on_the_way_to_a_jobs_folder(tmp_path: Path, where: str) -> None:
    root, outside = tmp_path / "jobs", tmp_path / "outside"
    (outside / "job/uid/sub").mkdir(parents=True)
    link = root / where
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    path = root / "mine/job/uid"
    for kind in ("", "Directory", "DirectoryOrCreate"):
        with pytest.raises(ConfigError, match="a link, which is not followed"):
            job_path({"path": str(path), "type": kind}, root)
    assert sorted(os.listdir(outside)) == ["job"]
    mount = {"name": "v", "mountPath": "/v"}
    (made,) = mounts_of({"volumeMounts": [mount]}, {"v": path}, {}, root_of=lambda _: root)
    with pytest.raises(LedOut):
        open_source(made.to_dict())
    for sub in ("sub", "new"):
        with pytest.raises((ConfigError, LedOut)):
            mounts_of(
                {"volumeMounts": [{**mount, "subPath": sub}]},
                {"v": path},
                {},
                root_of=lambda _: root,
            )
    assert not list(outside.rglob("new"))


def test_a_jobs_folder_is_made_and_mounted(tmp_path: Path) -> None:
    path = job_path({"path": f"{tmp_path}/mine/job/uid", "type": "DirectoryOrCreate"}, tmp_path)
    assert path.is_dir()
    for sub, place in (("", path), ("a/b", path / "a/b")):
        mount = {"name": "v", "mountPath": "/v", **({"subPath": sub} if sub else {})}
        (made,) = mounts_of({"volumeMounts": [mount]}, {"v": path}, {}, root_of=lambda _: tmp_path)
        found = open_source(made.to_dict())
        assert os.readlink(f"/proc/self/fd/{found}") == str(place)
        os.close(found)


@pytest.mark.attack(
    "paths",
    "A pod changes the files and links of a mounted Secret, which the node will write again",
    "The volume is read-only; the node's links lead where they did",
)
def test_files_of_the_api_cannot_be_changed(objects: Objects, pods: Pods) -> None:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    objects.create("secrets", {**body, "stringData": {"k": "first"}})
    script = (
        "rm -rf /v/..data /v/k; ln -s /etc /v/..data_tmp; mkdir /v/new; mv /v/..data /v/x; "
        "echo more >> /v/k; chmod 777 /v; ls -A /v | wc -l; cat /v/k"
    )
    volumes = [{"name": "v", "secret": {"secretName": "s"}}]
    said = pods.output(
        "pod", shell(f"({script}) 2>/dev/null; true", volumeMounts=whole()), volumes=volumes
    )
    assert said.split() == ["3", "first"]


class _Objects:
    """An API server that has a claim of one tenant, and a volume of another."""

    def __init__(self, bound_to: str) -> None:
        self._bound_to = bound_to

    async def get(self, resource: object, name: str, *, namespace: str = "") -> Obj:
        if resource is PERSISTENTVOLUMECLAIMS:
            spec = {"volumeName": "pvc-of-another"}
            return {
                "metadata": {"name": name, "uid": "mine"},
                "spec": spec,
                "status": {"phase": "Bound"},
            }
        reference = {"namespace": "other", "name": name, "uid": self._bound_to}
        return {
            "metadata": {"name": name},
            "spec": {"hostPath": {"path": "/"}, "claimRef": reference},
        }


@pytest.mark.attack(
    "paths",
    "A claim names another tenant's volume and says that it is bound to it",
    "The volume says otherwise, and is not mounted",
)
@pytest.mark.route("files of pods")
async def test_a_claim_of_anothers_volume() -> None:
    pod = {
        "metadata": {"namespace": "x"},
        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    }
    client: Any = _Objects("another's")
    with pytest.raises(ConfigError, match="is not bound to this claim"):
        await Claims(client).folders(pod)
    client = _Objects("mine")
    assert await Claims(client).folders(pod) == {"c": Path("/")}
