"""Other users of the machine against our folders: prepared, squatted, read."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import wasmtime

from corral.cluster import locking
from corral.cluster.apiserver.auth.pki import ensure_pki, write_kubeconfig
from corral.cluster.apiserver.store.log import Log
from corral.cluster.node.agent import take_job_folder
from corral.cluster.node.layout import Layout
from corral.cluster.node.network.addresses import LoopbackGuard
from corral.cluster.node.network.slots import COUNT, Slots
from corral.cluster.node.wasm import runtime_class
from corral.cluster.workloads.claims.folders import make_folder
from corral.files.private import NotPrivate, data_folder
from corral.inpod.volume.staging import Staging
from tests.backends import Backend, Node, add_node, ordinary_python
from tests.backends.nodes import NOBODY
from tests.cluster.objects import Objects
from tests.cluster.pods.conftest import backend, nodes, start_node
from tests.cluster.pods.pods import Pods, shell, terminated
from tests.e2e.clusters import CORRAL, Up
from tests.security.strangers import (
    STRANGER,
    as_stranger,
    as_user,
    everything_in,
    need_root,
    opened_by_stranger,
)

__all__ = ["backend", "nodes"]

MEMORY = Path("/dev/shm")
REFUSED = "The folder is refused, with its owner and what to do"


@pytest.fixture(params=["root", "user"])
def node(request: pytest.FixtureRequest, backend: Backend, nodes: dict[str, Node]) -> Node:
    """A node of each mode in turn; that of user mode runs as an ordinary user."""
    return start_node(backend, nodes, request.param)


@pytest.fixture
def pods(objects: Objects, node: Node) -> Pods:
    return Pods(objects, node)


@pytest.fixture
def crowded() -> Iterator[Path]:
    """A folder in which everybody may make folders, as /tmp."""
    folder = Path(tempfile.mkdtemp(prefix="corral-crowded-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def memory_of(data: Path) -> list[Path]:
    """What a node has in memory, by the name that anybody can work out."""
    digest = hashlib.sha256(str(data.resolve()).encode()).hexdigest()
    return list(MEMORY.glob(f"corral-{digest[:12]}-*"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- prepared folders ----------------------------------------------------------------------------


@pytest.mark.attack(
    "folders",
    "A local user makes the node's folder in memory beforehand, with records of his own",
    "The node uses a folder of a name that nobody can know, and reads nothing of his",
)
@pytest.mark.parametrize("isolation", ["root", "user"])
def test_a_prepared_folder_in_memory(backend: Backend, isolation: str, objects: Objects) -> None:
    need_root()
    backend.allow()
    node = Node(
        backend,
        "one" if isolation == "root" else "two",
        isolation=isolation,
        ordinary=isolation == "user",
        options=(),
    )
    digest = hashlib.sha256(str((node.folder / "data").resolve()).encode()).hexdigest()
    prepared = MEMORY / f"corral-{digest[:12]}"
    proof = node.folder / "proof"
    spec = f'{{"id": "x", "argv": ["touch", "{proof}"], "env": {{}}, "uid": 0}}'
    as_stranger(
        'mkdir -m 777 "$1" "$1/containers" "$1/containers/x"; '
        'echo "$2" > "$1/containers/x/spec.json"',
        str(prepared),
        spec,
    )
    try:
        node.start()
        assert Pods(objects, node).output("pod", shell("echo fine")) == "fine\n"
        assert sorted(os.listdir(prepared)) == ["containers"]
        assert os.listdir(prepared / "containers/x") == ["spec.json"]
        assert not proof.exists()
        (own,) = memory_of(node.folder / "data")
        assert own.stat().st_uid == (NOBODY if isolation == "user" else 0) and mode(own) == 0o700
    finally:
        node.stop()
        shutil.rmtree(prepared)


def layout_in(folder: Path) -> Layout:
    layout = Layout(folder)
    if not layout.has_memory:
        pytest.skip("no file system in memory here")
    layout.make()
    layout.open()
    return layout


@pytest.mark.attack(
    "folders",
    "After a restart of the machine a local user makes the folder that the node had in memory",
    "The node makes itself another and forgets the old one",
)
@pytest.mark.parametrize("what", ["folder", "link", "file"])
def test_the_old_name_in_memory_is_taken(tmp_path: Path, what: str) -> None:
    need_root()
    old = layout_in(tmp_path / "data").memory_root
    shutil.rmtree(old)
    make = {
        "folder": 'mkdir -m 777 -p "$1/containers/x"',
        "link": 'ln -s /tmp "$1"',
        "file": 'echo > "$1"',
    }
    as_stranger(make[what], str(old))
    try:
        new = layout_in(tmp_path / "data").memory_root
        assert new != old and new.stat().st_uid == os.geteuid() and mode(new) == 0o700
        assert os.readlink(tmp_path / "data/containers") == str(new / "containers")
        assert os.listdir(new / "containers") == []
        shutil.rmtree(tmp_path / "data")
        newest = layout_in(tmp_path / "data").memory_root
        assert not new.exists()  # of a folder that is gone
        shutil.rmtree(newest)
    finally:
        shutil.rmtree(old) if what == "folder" else old.unlink()


COMMANDS = {
    "node": ("node", "--kubeconfig", "none", "--name", "n"),
    "up": ("up", "--port", "0"),
    "apiserver": ("apiserver", "--port", "0"),
    "broker": ("broker", "--port", "0"),
    "registry": ("registry", "--port", "0", "--open"),
}


def refusal(command: str, folder: Path) -> str:
    """What a part says about a data folder that it does not take."""
    words = [*CORRAL, *COMMANDS[command], "--data-dir", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    return done.stderr + done.stdout


@pytest.mark.attack("folders", "A local user makes the data folder beforehand", REFUSED)
@pytest.mark.parametrize("command", ["up", "apiserver", "broker", "registry"])
def test_a_prepared_data_folder(crowded: Path, command: str) -> None:
    as_stranger('mkdir -m 777 "$1"', str(crowded / "data"))
    said = refusal(command, crowded / "data")
    assert f"of user {STRANGER}" in said and "choose another folder" in said
    assert os.listdir(crowded / "data") == []


@pytest.mark.attack(
    "folders",
    "A local user makes a folder, a link or a file where the node has a folder of its own",
    REFUSED,
)
@pytest.mark.parametrize("name", ["pods", "logs"])
@pytest.mark.parametrize("what", ["folder", "link"])
def test_a_prepared_folder_in_the_data_folder(tmp_path: Path, name: str, what: str) -> None:
    need_root()
    outside = tmp_path / "outside"
    outside.mkdir()
    data = tmp_path / "data"
    data.mkdir()
    if what == "link":
        (data / name).symlink_to(outside)
        os.chown(data / name, STRANGER, STRANGER, follow_symlinks=False)
    else:
        (data / name).mkdir()
        os.chown(data / name, STRANGER, STRANGER)
    layout = Layout(data)
    layout.make()
    with pytest.raises(NotPrivate, match=f"of user {STRANGER}"):
        layout.open()
    assert os.listdir(outside) == []


@pytest.mark.attack("folders", "The data folder can be written to by everybody", REFUSED)
@pytest.mark.parametrize("command", ["up", "apiserver"])
def test_a_data_folder_of_everybody(crowded: Path, command: str) -> None:
    said = refusal(command, crowded)
    assert "by everybody" in said and "chmod 700" in said
    assert mode(crowded) == 0o1777


@pytest.mark.attack(
    "folders",
    "A local user owns a folder above the data folder, or others may write there",
    REFUSED,
)
@pytest.mark.parametrize("command", ["up", "apiserver", "broker", "registry"])
@pytest.mark.parametrize("above", ["his", "everybodys"])
def test_a_data_folder_below_somebody_elses(crowded: Path, command: str, above: str) -> None:
    place = crowded / "above"
    if above == "his":
        as_stranger('mkdir -m 755 "$1"', str(place))
    else:
        place.mkdir()
        place.chmod(0o777)
    (place / "data").mkdir(mode=0o700)
    said = refusal(command, place / "data")
    assert (f"of user {STRANGER}" if above == "his" else "written to by others") in said
    assert str(place) in said and "choose another folder" in said
    assert os.listdir(place / "data") == []


@pytest.mark.attack(
    "folders",
    "A local user puts a link to a folder of ours where a data folder is to be, or above it",
    REFUSED,
)
@pytest.mark.parametrize("name", ["link", "link/data", "link/data/new"])
def test_a_data_folder_through_somebodys_link(crowded: Path, name: str) -> None:
    ours = crowded / "ours"
    (ours / "data").mkdir(parents=True)
    ours.chmod(0o700)
    as_stranger('ln -s "$1/ours" "$1/link"', str(crowded))
    with pytest.raises(NotPrivate, match=f"link of user {STRANGER}"):
        data_folder(crowded / name)
    assert os.listdir(ours) == ["data"] and os.listdir(ours / "data") == []
    (crowded / "link").unlink()
    (crowded / "link").symlink_to("ours")
    assert data_folder(crowded / "link/data") == (ours / "data").resolve()


@pytest.mark.attack(
    "folders",
    "A local user makes the folder in which a node or an operator is to keep what jobs write",
    "The folder is refused, with its owner and what to do; one of ours is closed to others",
)
@pytest.mark.parametrize("script", ['mkdir -m 777 "$1/jobs"', 'ln -s "$1/ours" "$1/jobs"'])
def test_a_prepared_folder_for_jobs(crowded: Path, script: str) -> None:
    ours = crowded / "ours"
    ours.mkdir()
    ours.chmod(0o755)
    as_stranger(script, str(crowded))
    with pytest.raises(NotPrivate, match=rf"of user {STRANGER}.*--job-folder"):
        take_job_folder(crowded / "jobs")
    words = ("operator", "--kubeconfig", "none", "--local-root", str(crowded / "jobs"))
    done = subprocess.run(
        [*CORRAL, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    said = re.sub(r"[│\s]+", " ", done.stderr)
    assert "--local-root" in said and f"of user {STRANGER}" in said
    assert mode(ours) == 0o755
    take_job_folder(ours)
    assert mode(ours) == 0o700


@pytest.mark.attack(
    "folders",
    "A link lies where the lock of a data folder is made, and leads to another file",
    "The lock is not made, the file keeps its content",
)
def test_a_lock_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("content")
    (tmp_path / "lock").symlink_to("victim")
    with pytest.raises(OSError, match="symbolic links"):
        locking.take(tmp_path / "lock")
    assert (tmp_path / "victim").read_text() == "content"


# -- squatted names ------------------------------------------------------------------------------

FIND = "from corral.cluster.node.machine import machine_folder; print(machine_folder())"
PYTHON = (
    "from pathlib import Path; "
    "from corral.cluster.node.container.images import make_named, named_python; "
    "make_named('{python}', Path('{named}')); print(named_python('{python}', '{named}'))"
)


def ordinary(code: str, temporary: Path) -> str:
    """Run our code as an ordinary user whose machine has no runtime folder."""
    need_root()
    found = ordinary_python()
    if found is None:
        pytest.skip("an ordinary user cannot run our Python here")
    env = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    env |= found[1] | {"TMPDIR": str(temporary)}
    done = as_user(NOBODY, found[0], "-c", code, env=env, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SQUATS = {
    "folder": 'mkdir -m 777 "$1/corral-65534"',
    "link": 'ln -s /tmp "$1/corral-65534"',
    "file": 'echo > "$1/corral-65534"',
    "many": 'for n in "" -a -b -c; do mkdir -m 777 "$1/corral-65534$n"; done',
}


@pytest.mark.attack(
    "folders",
    "A local user takes the name in /tmp by which agents of another user find each other",
    "They use a folder of their own beside it, and find each other there",
)
@pytest.mark.parametrize("what", SQUATS)
def test_a_squatted_name_in_tmp(crowded: Path, what: str) -> None:
    as_stranger(SQUATS[what], str(crowded))
    first, second = (Path(ordinary(FIND, crowded)) for _ in "ab")
    assert first == second and first.parent == crowded
    found = first.lstat()
    assert found.st_uid == NOBODY and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077


@pytest.mark.attack(
    "folders",
    "A runtime folder that belongs to another user is given to the agent",
    "The agent uses one of its own",
)
def test_a_runtime_folder_of_another(crowded: Path) -> None:
    as_stranger('mkdir -m 777 "$1/run"', str(crowded))
    code = f"import os; os.environ['XDG_RUNTIME_DIR'] = '{crowded / 'run'}'; {FIND}"
    assert ordinary(code, crowded) == str(crowded / "corral-65534")
    assert os.listdir(crowded / "run") == []


@pytest.mark.attack(
    "folders",
    "A link in /tmp with the name of the folder for Python leads into a folder of ours",
    "Nothing is written through it",
)
def test_a_link_for_the_folder_of_python(crowded: Path) -> None:
    victim = crowded / "victim"
    victim.mkdir()
    os.chown(victim, NOBODY, NOBODY)
    script = 'ln -s "$1/victim" "$1/corral-python-65534"; ln -s "$1/victim" "$1/corral-65534"'
    as_stranger(script, str(crowded))
    python, named = f"{crowded}/python3", crowded / "data/bin"
    folder = Path(ordinary(PYTHON.format(python=python, named=named), crowded))
    assert os.listdir(victim) == []
    assert folder.parent == named and os.readlink(folder / "python") == python


def squat(prefix: str) -> list[socket.socket]:
    """All names of blocks of addresses."""
    held = []
    for number in range(COUNT):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.bind(f"\0{prefix}/loopback/{number}".encode())
        held.append(sock)
    return held


@pytest.mark.attack(
    "folders",
    "A local user binds the socket names of all blocks of pod addresses",
    "Agents of user mode get blocks all the same, each another one",
)
def test_squatted_socket_names(tmp_path: Path) -> None:
    prefix = f"test-squat-{os.getpid()}"
    held = squat(prefix)
    try:
        guards = [LoopbackGuard(prefix=prefix, tables=str(tmp_path)) for _ in "abc"]
        slots = [
            Slots(tmp_path / "m/c", tmp_path / f"own-{number}", order=guard.order)
            for number, guard in enumerate(guards)
        ]
        assert len({one.claim() for one in slots}) == 3
        for one in slots:
            one.release(forget=True)
    finally:
        for sock in held:
            sock.close()


@pytest.mark.attack(
    "folders",
    "A local user listens in every block of pod addresses",
    "Agents of user mode get blocks all the same",
)
def test_squatted_addresses(tmp_path: Path) -> None:
    listeners = [socket.create_server((f"127.88.{number}.250", 0)) for number in range(COUNT)]
    try:
        guard = LoopbackGuard(prefix=f"test-listen-{os.getpid()}")
        slots = Slots(tmp_path / "m/c", tmp_path / "own", order=guard.order)
        assert {slots.claim(), slots.claim()} <= set(range(COUNT)) and len(slots.numbers) == 2
        slots.release(forget=True)
        guard.close()
    finally:
        for sock in listeners:
            sock.close()


# -- who can read what ---------------------------------------------------------------------------


def secret_pod(objects: Objects, pods: Pods) -> None:
    """A pod that runs, with a Secret, a token, an emptyDir in memory and one on disk."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    objects.create("secrets", {**body, "stringData": {"password": "hunter2"}})
    mounts = [{"name": name, "mountPath": f"/v/{name}"} for name in ("s", "disk", "memory")]
    script = "cat /v/s/password; echo; umask 0; echo x > /v/disk/f; echo x > /v/memory/f; sleep 600"
    pods.run(
        "pod",
        shell(script, volumeMounts=mounts),
        volumes=[
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "disk", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
        ],
    )
    pods.ready("pod")
    pods.wait("pod", lambda _: pods.log("pod") == "hunter2\n")


@pytest.mark.attack(
    "folders",
    "A local user opens every file and folder of a node while a pod with a Secret runs",
    "Not one of them can be opened, to read or to write",
)
def test_nothing_of_a_node_can_be_opened(objects: Objects, pods: Pods) -> None:
    secret_pod(objects, pods)
    data = pods.node.folder / "data"
    paths = everything_in(data, *memory_of(data))
    assert any(path.endswith("/password") for path in paths)
    assert any(path.endswith("/token") for path in paths)
    assert opened_by_stranger(paths) == []


@pytest.mark.attack(
    "folders",
    "A local user lists the folders of a node to learn which pods run there",
    "He cannot pass the first of them",
)
def test_the_folders_of_a_node_cannot_be_listed(objects: Objects, pods: Pods) -> None:
    secret_pod(objects, pods)
    data = pods.node.folder / "data"
    for folder in (data, *memory_of(data)):
        assert as_stranger('ls -A "$1" 2>&1 || true', str(folder)).count("ermission denied") == 1


@pytest.mark.attack(
    "folders",
    "A pod runs as another user than the node, whose folders nobody may pass through",
    "It has its volumes by mounts and can use them; others still cannot",
)
def test_volumes_of_a_pod_with_a_user_of_its_own(
    objects: Objects, backend: Backend, nodes: dict[str, Node]
) -> None:
    pods = Pods(objects, start_node(backend, nodes, "root"))
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    objects.create("secrets", {**body, "stringData": {"password": "hunter2"}})
    mounts = [{"name": name, "mountPath": f"/v/{name}"} for name in ("s", "disk", "memory")]
    mounts.append({"name": "disk", "mountPath": "/v/sub", "subPath": "a/b"})
    script = (
        "cat /v/s/password; echo one > /v/disk/f; echo two > /v/memory/f; echo three > /v/sub/f; "
        "cat /v/disk/f /v/memory/f /v/disk/a/b/f; echo end > /dev/termination-log"
    )
    said = pods.output(
        "pod",
        shell(script, volumeMounts=mounts, securityContext={"runAsUser": 1234, "runAsGroup": 1234}),
        volumes=[
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "disk", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
        ],
    )
    assert said == "hunter2one\ntwo\nthree\n"


@pytest.mark.attack(
    "folders",
    "A local user opens the Secret of a pod on a node of mode plain, by the path in its command",
    "Nobody passes through the folders of a pod but the node and who the pod runs as",
)
@pytest.mark.parametrize("context", [{}, {"runAsUser": 1234, "runAsGroup": 1234}])
def test_a_secret_in_plain_mode(
    objects: Objects, backend: Backend, nodes: dict[str, Node], context: dict[str, int]
) -> None:
    need_root()
    if "plain" not in nodes:
        nodes["plain"] = add_node(backend, "plain", isolation="plain")
    pods = Pods(objects, nodes["plain"])
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    objects.create("secrets", {**body, "stringData": {"password": "hunter2"}})
    pods.run(
        "pod",
        shell(
            'cat "$0"; echo; sleep 600',
            args=["/v/password"],
            volumeMounts=[{"name": "s", "mountPath": "/v"}],
            securityContext=context,
        ),
        volumes=[{"name": "s", "secret": {"secretName": "s"}}],
    )
    pods.wait("pod", lambda pod: pod["status"].get("phase") == "Running")
    pods.wait("pod", lambda _: pods.log("pod") == "hunter2\n")
    paths = everything_in(*memory_of(nodes["plain"].folder / "data"))
    secrets = [path for path in paths if path.endswith("/password")]
    assert secrets and opened_by_stranger(secrets) == []


class OrdinaryUp(Up):
    """``corral up`` of an ordinary user."""

    def spawn(self, name: str, *argv: str, **env: str) -> subprocess.Popen[bytes]:
        found = ordinary_python()
        assert found is not None
        self.folder.chmod(0o755)
        for path in (self.folder, self.folder / "tokens.csv"):
            os.chown(path, NOBODY, NOBODY)
        words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", found[0]]
        more = {**found[1], "HOME": str(self.folder), **env}
        return super().spawn(name, *words, *argv[1:], **more)


@pytest.fixture(params=["root", "user"], scope="module")
def up(request: pytest.FixtureRequest) -> Iterator[Up]:
    """A whole cluster, started with a umask that hides nothing."""
    need_root()
    if request.param == "user" and ordinary_python() is None:
        pytest.skip("an ordinary user cannot run our Python here")
    folder = Path(tempfile.mkdtemp(prefix="corral-attacked-"))
    folder.chmod(0o755)
    kind = Up if request.param == "root" else OrdinaryUp
    cluster = kind(folder, "--isolation", request.param)
    before = os.umask(0)
    try:
        cluster.start()
    finally:
        os.umask(before)
    yield cluster
    cluster.stop()
    shutil.rmtree(folder)


@pytest.mark.attack(
    "folders",
    "A local user opens every file and folder of `corral up`, which was started with umask 000",
    "Not one of them can be opened: database, keys, kubeconfig, tokens, logs, claims, broker",
)
def test_nothing_of_a_cluster_can_be_opened(up: Up) -> None:
    found = everything_in(up.data)
    names = {os.path.basename(path) for path in found}
    assert {"corral.db", "corral.db-wal", "kubeconfig", "sa.key", "tokens.json", "claims"} <= names
    memory = [place for node in (up.data / "nodes").iterdir() for place in memory_of(node)]
    assert opened_by_stranger([*found, *everything_in(*memory)]) == []


@pytest.mark.attack(
    "folders",
    "Somebody opens up the data folder itself, so that only the modes below protect",
    "Keys, database, kubeconfig and tokens are 0600, all folders beside the first 0700",
)
def test_modes_below_the_data_folder(up: Up) -> None:
    closed = {"corral.db", "corral.db-wal", "corral.db-shm", "kubeconfig", "sa.key", "tokens.json"}
    wrong = []
    for path in map(Path, everything_in(up.data)):
        info = path.lstat()
        if path.name in closed or path.name.endswith((".key", ".kubeconfig", ".log")):
            wrong += [path] if info.st_mode & 0o077 else []
        elif stat.S_ISDIR(info.st_mode) and path.parent == up.data:
            wrong += [path] if stat.S_IMODE(info.st_mode) != 0o700 else []
    assert wrong == []


@pytest.mark.attack(
    "folders",
    "The cluster is started in a shell whose umask is 000",
    "Every part of it has 077, so that nothing that it writes is open to others",
)
def test_every_part_has_a_private_umask(up: Up) -> None:
    parts = up.parts()
    assert {
        "apiserver",
        "workloads",
        "scheduler",
        "operator",
        "gateway",
        "corral-1",
    } <= parts.keys()
    for pid in (up.process.pid, *parts.values()):
        status = Path(f"/proc/{pid}/status").read_text()
        assert "Umask:\t0077" in status, parts


@pytest.mark.attack(
    "folders",
    "A local user looks into the claims of a cluster and writes to them",
    "He cannot pass the folder above; pods of any user can write what they have mounted",
)
def test_claims_are_closed_to_others(crowded: Path) -> None:
    before = os.umask(0)
    try:
        make_folder(crowded / "claims" / "pvc-1")
    finally:
        os.umask(before)
    (crowded / "claims/pvc-1/model").write_text("weights")
    assert mode(crowded / "claims") == 0o700
    assert opened_by_stranger(everything_in(crowded / "claims")) == []
    said = as_stranger('echo x 2>&1 > "$1/f" || true', str(crowded / "claims/pvc-1"))
    assert sorted(os.listdir(crowded / "claims/pvc-1")) == ["model"], said


@pytest.mark.attack(
    "folders",
    "A local user makes the folder for claims, or puts a link there, before the provisioner",
    REFUSED,
)
@pytest.mark.parametrize("script", ['mkdir -m 777 "$1/claims"', 'ln -s /tmp "$1/claims"'])
def test_a_prepared_folder_for_claims(crowded: Path, script: str) -> None:
    as_stranger(script, str(crowded))
    with pytest.raises(NotPrivate, match=f"of user {STRANGER}"):
        make_folder(crowded / "claims" / "pvc-1")


@pytest.mark.attack(
    "folders",
    "A local user reads a checkpoint on a disk that everybody may look at",
    "The folder of a checkpoint is for the pod's user and group",
)
def test_checkpoints_are_closed_to_others(crowded: Path) -> None:
    volume = crowded / "volume"
    volume.mkdir(mode=0o755)
    volume.chmod(0o755)
    before = os.umask(0o022)  # as in containers
    try:
        folder = Staging(str(volume), 1).open()
        (folder.path / "weights").write_text("secret")
    finally:
        os.umask(before)
    assert opened_by_stranger([str(folder.path), str(folder.path / "weights")]) == []
    folder.discard()


@pytest.mark.attack(
    "folders",
    "The database and the keys of an API server lie in a folder that was open to all",
    "The folder is closed, and the files are for the server's user alone",
)
@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_files_of_an_api_server(crowded: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        folder = crowded / "data"
        folder.mkdir(mode=0o755)
        log = Log(folder)
        log.open()
        log.commit([], [], {})
        pki = ensure_pki(folder / "pki")
        write_kubeconfig(folder / "kubeconfig", "https://x", ca=pki.ca.cert, token="t")
    finally:
        os.umask(before)
    found = [path for path in everything_in(folder) if os.path.isfile(path)]
    assert {"corral.db", "corral.db-wal"} <= {os.path.basename(path) for path in found}
    assert [path for path in found if os.stat(path).st_mode & 0o077] == []
    assert [mode(path) for path in (folder, folder / "pki")] == [0o700, 0o700]
    log.close()


@pytest.mark.attack(
    "folders",
    "A pod writes to /etc/resolv.conf, which every pod of the node has",
    "The file of the installed package stays as it is",
)
def test_resolv_conf_is_nobodys_to_change(
    objects: Objects, backend: Backend, nodes: dict[str, Node]
) -> None:
    from corral.cluster.node import network

    kept = Path(network.__file__).parent / "podside/resolv.conf"
    before = kept.read_bytes()
    pods = Pods(objects, start_node(backend, nodes, "root"))
    pods.run(
        "pod", shell("echo nameserver 6.6.6.6 >> /etc/resolv.conf; rm -f /etc/resolv.conf; true")
    )
    pods.wait("pod", lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"))
    assert kept.read_bytes() == before


@pytest.mark.attack(
    "folders",
    "A WebAssembly module runs as another user than the node, whose folders nobody may pass",
    "Its runner has module, volumes and message by mounts, and nothing else of the node",
)
def test_a_module_with_a_user_of_its_own(
    objects: Objects, backend: Backend, nodes: dict[str, Node]
) -> None:
    if as_user(1234, "sh", "-c", f"{sys.executable} -c 1", cwd="/").returncode != 0:
        pytest.skip("another user cannot run our Python here")
    pods = Pods(objects, start_node(backend, nodes, "root"))
    reply = backend.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime_class())
    assert reply.code in (201, 409), reply.body
    module = base64.b64encode(wasmtime.wat2wasm(ADD)).decode()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}}
    objects.create("configmaps", {**body, "binaryData": {"add.wasm": module}})
    pods.run(
        "pod",
        {
            "name": "main",
            "image": "modules",
            "command": ["/code/add.wasm"],
            "volumeMounts": [{"name": "code", "mountPath": "/code"}],
            "securityContext": {"runAsUser": 1234, "runAsGroup": 1234},
        },
        metadata={"annotations": {"wasm.corral.dev/inputs": "[2, 3]"}},
        runtimeClassName="wasm",
        volumes=[{"name": "code", "configMap": {"name": "code"}}],
    )
    pod = pods.wait("pod", lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"))
    assert terminated(pod)["message"].strip() == "5", terminated(pod)


ADD = """
(module (func (export "add") (param i32 i32) (result i32)
  (i32.add (local.get 0) (local.get 1))))
"""
