"""A disk that is full, read-only or damaged: reads go on, nothing is lost, all of it returns."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from corral.cluster.apiserver.store import Store, StoreError
from corral.cluster.broker.errors import BrokerError, ErrorCode
from corral.cluster.broker.identities import Identities
from corral.cluster.broker.settings import Limits
from corral.cluster.broker.storage.log import PartitionLog
from corral.cluster.broker.topicconfig import TopicConfig
from corral.cluster.node.container.processes import Container, ContainerSpec, Engine
from corral.cluster.node.container.view import machine_view
from corral.cluster.node.shim.company import _Company
from tests.backends.base import Backend, Reply, free_port, wait_for
from tests.cluster.broker.broker_wire import batch
from tests.cluster.objects import eventually
from tests.faults.disks import Disk, failing_disk, small_disk

ROOT = Path(__file__).parents[2]
SUPERVISED = """
import asyncio, os, signal, sys
from pathlib import Path
from corral.cluster.up.supervisor import Part, Supervisor
starts = Path(sys.argv[1])

async def serve(ready):
    ready({})
    print("words for a log that has no room", flush=True)
    with open(starts, "a") as file:
        file.write(f"{os.getpid()}\\n")
    await asyncio.sleep(60)

def say(text):
    print(text, file=sys.stderr, flush=True)

with Supervisor(say=say) as supervisor:
    supervisor.start([Part("part", serve, Path(sys.argv[2]))])
    supervisor.watch()
    supervisor.stop(supervisor.parts)
"""


@pytest.mark.attack(
    "disk",
    "fills the disk under the logs and kills a part: the message about it meets the full disk",
    "the part is started again, as often as it dies",
)
@pytest.mark.parametrize("log", ["/dev/full", "missing/folder/under/a/file"])
def test_supervisor_without_room_for_words(log: str, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    (tmp_path / "missing").write_text("in the way")
    place = log if log.startswith("/") else str(tmp_path / log)
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen(
            [sys.executable, "-c", SUPERVISED, str(starts), place],
            stdout=full, stderr=full, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
    try:
        seen: set[int] = set()
        for _ in range(3):
            pid = eventually(lambda: newest(starts, seen))
            seen.add(pid)
            subprocess.run(["kill", "-KILL", str(pid)], check=True)
        eventually(lambda: newest(starts, seen))
        assert process.poll() is None
    finally:
        process.terminate()
        assert process.wait(30) in (0, 120)  # 120: its last words found no room either


@pytest.mark.attack(
    "disk",
    "kills a part while its log cannot be opened, as on a read-only disk",
    "its successor writes to the log as it was opened before",
)
def test_logs_that_cannot_be_opened_again(tmp_path: Path) -> None:
    starts, logs, moved = tmp_path / "starts", tmp_path / "logs", tmp_path / "moved"
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISED, str(starts), str(logs / "part.log")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    try:
        first = eventually(lambda: newest(starts, set()))
        logs.rename(moved)
        logs.write_text("in the way")
        subprocess.run(["kill", "-KILL", str(first)], check=True)
        eventually(lambda: newest(starts, {first}))
        words = (moved / "part.log").read_text().splitlines()
        assert words == ["words for a log that has no room"] * 2
    finally:
        process.terminate()
        assert process.wait(30) == 0


def newest(starts: Path, seen: set[int]) -> int:
    """The process of the part, where it is a new one; 0 before."""
    pids = [int(line) for line in starts.read_text().split()] if starts.exists() else []
    return pids[-1] if pids and pids[-1] not in seen else 0


@pytest.mark.attack(
    "disk",
    "fills the disk that a part's standard error goes to, and makes it log",
    "the lines are lost, and the part goes on serving",
)
@pytest.mark.parametrize("part", ["apiserver", "broker", "registry"])
def test_parts_without_room_for_logs(part: str, tmp_path: Path) -> None:
    extra = ["--open"] if part == "registry" else []
    command = [sys.executable, "-m", "corral.cli.main", part, "--data-dir", str(tmp_path / "data")]
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen(
            [*command, "--port", "0", "--verbose", *extra], stdout=subprocess.PIPE, stderr=full,
            text=True, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": "/"},
        )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "is ready" in line
        where = re.search(r"127\.0\.0\.1:(\d+)", line)
        port = int(where[1]) if where else served_port(tmp_path / "data")
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", port), 10) as sock:
                sock.sendall(b"\0\0\0\4junk\r\n\r\n")  # something to log
        assert process.poll() is None
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode in (0, 120, -15)


def served_port(data: Path) -> int:
    config = json.loads((data / "kubeconfig").read_text())
    return int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])


# -- the API server --------------------------------------------------------------------------------


class Server(Backend):
    """`corral apiserver` on a folder."""

    name = "disk"
    token = "admin-token"

    def start(self) -> None:
        """Raises where it does not start; the log says why."""
        tokens = self.folder / "tokens.csv"
        tokens.write_text('admin-token,admin,admin,"system:masters"\n')
        data = self.folder / "data"
        self.server = self.server or f"https://127.0.0.1:{free_port()}"
        log = self.folder / "server.log"
        log.write_text("")
        self.disconnect()
        process = self.spawn(
            "server", sys.executable, "-m", "corral.cli.main", "apiserver", "--data-dir", str(data),
            "--port", self.server.rpartition(":")[2], "--token-file", str(tokens),
        )  # fmt: skip
        self.ca_file = str(data / "pki" / "ca.crt")
        wait_for(process, log, "is ready")

    def write(self, name: str, size: int = 0) -> Reply:
        body = {"metadata": {"name": name}, "data": {"x": "y" * size}}
        return self.request("POST", "/api/v1/namespaces/default/configmaps", body)

    def read(self, name: str) -> Reply:
        return self.request("GET", f"/api/v1/namespaces/default/configmaps/{name}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path)
    yield found
    found.stop()


@pytest.mark.attack(
    "disk",
    "fills the disk of the API server",
    "writes get a 507 that says so, reads go on; writes too once there is room; nothing is lost",
)
def test_full_disk(server: Server, tmp_path: Path) -> None:
    with small_disk(tmp_path / "data", mib=24) as disk:
        server.start()
        try:
            assert server.write("before").code == 201
            disk.fill()
            refused = eventually(lambda: full(server))
            assert refused["reason"] == "InsufficientStorage"
            assert "no room on the disk" in refused["message"]
            assert server.read("before").code == 200
            assert server.read("large").code == 404
            disk.free()
            eventually(lambda: server.write("after").code == 201)
            assert [server.read(name).code for name in ("before", "after")] == [200, 200]
        finally:
            server.stop()


def full(server: Server) -> dict[str, object] | None:
    """The answer to a write that finds no room; what was written ahead may have some left."""
    answer = server.write(f"filler-{free_port()}", 200_000)
    return answer.json() if answer.code == 507 else None


@pytest.mark.attack(
    "disk",
    "kills the API server while its disk is full",
    "it starts on the full disk, serves reads, and writes once there is room",
)
def test_start_on_a_full_disk(server: Server, tmp_path: Path) -> None:
    with small_disk(tmp_path / "data", mib=24) as disk:
        server.start()
        try:
            assert server.write("before").code == 201
            disk.fill()
            server.processes[-1].kill()
            server.processes[-1].wait()
            disk.fill()
            server.start()
            assert server.read("before").code == 200
            disk.free()
            eventually(lambda: server.write("after").code == 201)
        finally:
            server.stop()


@pytest.mark.attack(
    "disk",
    "has every write to the disk refused (a limit on file sizes, an I/O error)",
    "writes get a 500 that says so, reads go on, and all of it returns",
)
def test_disk_that_refuses(server: Server) -> None:
    server.start()
    pid = server.processes[-1].pid
    assert server.write("before").code == 201
    limits = resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    assert server.write("refused").code in (500, 507)
    assert server.read("before").code == 200
    assert server.read("refused").code == 404
    resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
    eventually(lambda: server.write("after").code == 201)
    assert server.read("refused").code == 404


@pytest.mark.attack(
    "disk",
    "makes the disk of the API server read-only, as the kernel does after an error",
    "writes get an error that says so, reads go on",
)
def test_read_only_disk(server: Server, tmp_path: Path) -> None:
    with failing_disk(tmp_path / "data", tmp_path / "image") as trigger:
        server.start()
        try:
            assert server.write("before").code == 201
            trigger.write_text("a test\n")
            refused = eventually(lambda: (found := server.write("no")).code >= 500 and found)
            assert refused.json()["kind"] == "Status"
            assert server.read("before").code == 200
        finally:
            server.stop()


# -- the node --------------------------------------------------------------------------------------


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    """Containers whose records lie on a small disk, under one process that stands by all."""
    if os.geteuid() != 0:
        pytest.skip("others have no mounts to share by")
    with small_disk(tmp_path / "records", mib=1) as disk:
        engine = Engine(disk.path / "containers")
        yield engine
        disk.free()
        for container in await engine.adopt():
            await container.kill()
        engine.close()


@pytest.fixture
def sleeper(tmp_path: Path) -> Callable[[str], ContainerSpec]:
    """Containers that run until they are ended, by name."""
    view = machine_view(tmp_path / "view").to_dict()
    kinds = ["mount", "uts", "ipc", "pid"]
    argv = ["/bin/sleep", "600"]

    def made(name: str) -> ContainerSpec:
        log = str(tmp_path / "logs" / f"{name}.log")
        return ContainerSpec(id=name, argv=argv, unshare=kinds, view=view, log=log)

    return made


def lives(container: Container) -> bool:
    """Whether it runs, and so does who stands by it."""
    pids = (container.state.pid, container.state.shim)
    return container.state.running and all(os.path.exists(f"/proc/{pid}") for pid in pids)


@pytest.mark.attack(
    "disk",
    "fills the room that the records of containers are in, and ends its container",
    "The end is told all the same; the containers of others, and who stands by them, live on",
)
async def test_no_room_for_the_end_of_a_container(
    engine: Engine, sleeper: Callable[[str], ContainerSpec], tmp_path: Path
) -> None:
    mine, other, third = [await engine.start(sleeper(name)) for name in ("mine", "other", "third")]
    Disk(tmp_path / "records").fill()
    state = await asyncio.wait_for(mine.kill(), 30)
    assert (state.exit_code, state.signal, state.lost) == (137, 9, False)
    assert lives(other)
    assert await (await other.exec(["echo", "alive"])).collect() == (0, b"alive\n")
    assert not (await asyncio.wait_for(third.kill(), 30)).lost


@pytest.mark.attack(
    "disk",
    "fills that room but for a few bytes, and has containers started",
    "They are not started, or started; the containers of others live on, and names are free again",
)
async def test_no_room_for_the_start_of_a_container(
    engine: Engine, sleeper: Callable[[str], ContainerSpec], tmp_path: Path
) -> None:
    other = await engine.start(sleeper("other"))
    disk = Disk(tmp_path / "records")
    disk.fill()
    ballast, outcomes = disk.path / "ballast", set()
    for _ in range(20):
        outcome = "started"
        try:
            container = await engine.start(sleeper("mine"))
        except OSError as err:
            assert err.errno == errno.ENOSPC
            outcome = "no record"
        else:
            if container.state.error:
                assert "No space left" in container.state.error and container.state.unmade
                outcome = "no state"
            await asyncio.wait_for(container.kill(), 30)
            container.remove()
        outcomes.add(outcome)
        assert lives(other)
        os.truncate(ballast, ballast.stat().st_size - 4096)
    assert outcomes == {"no record", "no state", "started"}


class Ending:
    """A container at its end, which the disk refuses so often."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.closed = False

    def end(self) -> None:
        """As `Supervisor.end`."""
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EIO, "a test")
        self.closed = True


@pytest.mark.attack(
    "disk",
    "has the disk refuse what the end of its container asks of it, while others end too",
    "The others end; that one is tried again",
)
def test_an_end_that_is_refused_keeps_no_other() -> None:
    company = _Company.__new__(_Company)  # without signals: those are the test's
    ending = [Ending(1), Ending(0), Ending(2)]
    company._ending, company._there = set(ending), set(ending)  # type: ignore[arg-type]
    company._look()
    assert [one.closed for one in ending] == [False, True, False]
    company._look()
    company._look()
    assert all(one.closed for one in ending) and company._done()


# -- the broker ------------------------------------------------------------------------------------


@pytest.mark.attack(
    "disk",
    "fills the disk of the broker when the numbers of producers that it wrote off are given",
    "none is given that is not on disk: after a restart nobody has a number twice",
)
def test_numbers_of_producers_on_a_full_disk(tmp_path: Path) -> None:
    file = tmp_path / "disk" / "identities.json"
    with small_disk(file.parent, mib=1) as disk:
        numbers = Identities(file)
        given = [numbers.producer() for _ in range(1000)]  # all that were written off
        disk.fill()
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                given.append(numbers.producer())
        disk.free()
        given += [numbers.producer() for _ in range(10)]
        again = Identities(file)
        given += [again.producer() for _ in range(10)]
    assert len(set(given)) == len(given) == 1020


# -- a database that is lost -----------------------------------------------------------------------


@pytest.mark.attack(
    "disk",
    "writes records until the disk that the API server also has is full",
    "a part of the disk stays free; writes are taken again once there is more",
)
async def test_records_leave_room_on_the_disk(tmp_path: Path) -> None:
    mib = 2**20
    with small_disk(tmp_path / "disk", mib=40) as disk:
        ballast = disk.path / "others"
        ballast.write_bytes(bytes(20 * mib))
        log = PartitionLog(disk.path / "p", TopicConfig({}, {}), Limits())
        with pytest.raises(BrokerError, match="disk is almost full") as refusal:
            for _ in range(60):
                log.append(batch(bytes(mib // 2)))
        assert refusal.value.code is ErrorCode.kafka_storage_error
        assert shutil.disk_usage(disk.path).free >= 2 * mib and log.size > 10 * mib
        end = log.end
        ballast.unlink()
        assert log.append(batch(b"again")).base_offset == end
        await log.close()


async def used(folder: Path) -> None:
    """A store with a thing in it."""
    store = Store(folder)
    store.open()
    for n in range(200):
        obj = {"metadata": {"name": f"a{n}"}, "data": "x" * 500}
        await store.write("/things", f"a{n}", obj, expect=None)
    await store.close()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def overwrite(file: Path) -> None:
    file.write_bytes(b"\xff" * file.stat().st_size)


def middle(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[8192:16384] = b"\xff" * 8192
    file.write_bytes(content)


@pytest.mark.attack(
    "disk",
    "empties, removes, cuts or overwrites the database",
    "the server refuses to start an empty cluster, and says what to do; nothing is overwritten",
)
@pytest.mark.parametrize("damage", [empty, cut, overwrite, middle, Path.unlink])
def test_lost_database(damage: object, tmp_path: Path) -> None:
    asyncio.run(used(tmp_path / "db"))
    file = tmp_path / "db" / "corral.db"
    damage(file)  # type: ignore[operator]
    before = file.read_bytes() if file.exists() else None
    for _ in range(2):
        with pytest.raises(StoreError, match=r"backup.*another --data-dir"):
            Store(tmp_path / "db").open()
    assert (file.read_bytes() if file.exists() else None) == before


@pytest.mark.attack(
    "disk",
    "empties the database of a cluster that an older version made",
    "its kubeconfig bears witness: the server refuses",
)
def test_lost_database_of_an_older_version(server: Server) -> None:
    server.start()
    server.stop()
    data = server.folder / "data"
    (data / "db" / "lock").write_bytes(b"")
    shutil.copy(data / "db" / "corral.db", server.folder / "backup")
    (data / "db" / "corral.db").write_bytes(b"")
    (data / "db" / "corral.db-wal").unlink(missing_ok=True)
    with pytest.raises(Exception, match="is empty, though a cluster was kept in it"):
        server.start()
    shutil.copy(server.folder / "backup", data / "db" / "corral.db")
    server.start()
    assert server.request("GET", "/api/v1/namespaces/default").code == 200


def test_first_start_that_was_killed(tmp_path: Path) -> None:
    """An empty file that nobody has ever used is no loss."""
    (tmp_path / "corral.db").write_bytes(b"")
    store = Store(tmp_path)
    store.open()
    asyncio.run(store.close())
