"""What is acknowledged stays: kills, a second server, and folders that cannot be written."""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import resource
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.kube import ClientSettings, KubeClient, Obj, errors
from corral.kube.resources import CONFIGMAPS, NAMESPACES
from tests.backends import EmbeddedBackend
from tests.cluster.write_load import Promises, Watcher, Writer, is_whole

pytestmark = pytest.mark.skipif(
    os.environ.get("CORRAL_BACKEND", "embedded") != "embedded",
    reason="the storage under test is the embedded server's own",
)

KILLS = 30
WRITERS = 4
LAST = "the-last-one"
NO_RETRIES = ClientSettings(max_retries=0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedBackend]:
    """A server of the case's own, to be killed."""
    backend = EmbeddedBackend(tmp_path, controllers=False)
    backend.start()
    yield backend
    backend.stop()


async def test_nothing_acknowledged_is_lost_to_kill(server: EmbeddedBackend) -> None:
    seed = int(os.environ.get("CORRAL_SEED") or time.time_ns() % 1_000_000)
    print(f"seed: CORRAL_SEED={seed}")
    rng = random.Random(seed)
    async with KubeClient.from_kubeconfig(str(server.kubeconfig), settings=NO_RETRIES) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "load"}})
        before = await client.list_all(CONFIGMAPS, "load")
        revision = before["metadata"]["resourceVersion"]
        watcher = Watcher(client, "load", revision)
        promises = Promises()
        stop = asyncio.Event()
        async with asyncio.timeout(180), asyncio.TaskGroup() as tasks:
            tasks.create_task(watcher.run(LAST))
            writers = [Writer(client, "load", promises, n) for n in range(WRITERS)]
            running = [tasks.create_task(w.run(stop)) for w in writers]
            for _ in range(KILLS):
                await asyncio.sleep(rng.uniform(0.02, 0.25))
                server.stop()
                promises.epoch += 1
                await restart(server, rng)
            stop.set()
            await asyncio.wait(running)
            await client.create(CONFIGMAPS, {"metadata": {"name": LAST}}, namespace="load")
        after = await client.list_all(CONFIGMAPS, "load")
        again = Watcher(client, "load", revision)
        async with asyncio.timeout(30):
            await again.run(LAST)
    counted = f"{len(promises.acknowledged)} writes, {promises.deletes} deletes acknowledged"
    print(f"{counted}; {promises.unknown} outcomes unknown; {watcher.connections} watches")
    check_state(promises, after)
    check_revisions(promises)
    check_watch(promises, watcher, before, after)
    assert again.events == watcher.events
    server.stop()
    check_database(server.folder / "data" / "db" / "corral.db")


async def restart(server: EmbeddedBackend, rng: random.Random) -> None:
    """Start again on the same folder and port; one start in eight is killed on its way."""
    if rng.random() < 0.125:
        starting = asyncio.create_task(asyncio.to_thread(server.start))
        await asyncio.sleep(rng.uniform(0.0, 0.7))
        for process in server.processes:
            process.kill()
        await asyncio.wait([starting])
        starting.exception()
        server.stop()
    await asyncio.to_thread(server.start)


def check_state(promises: Promises, after: Obj) -> None:
    """Every acknowledged write is there, or what was written over it later."""
    stored = {o["metadata"]["name"]: o["data"] for o in after["items"] if "data" in o}
    assert promises.acknowledged and promises.deletes
    for name, possible in promises.possible.items():
        assert stored.get(name) in possible, name
    ours = [data for name, data in stored.items() if name in promises.possible]
    assert ours and all(is_whole(data) for data in ours)


def check_revisions(promises: Promises) -> None:
    """They grow, over restarts too, and none is given twice."""
    revisions = [ack.revision for ack in promises.acknowledged]
    assert len(set(revisions)) == len(revisions)
    newest = 0
    for epoch in range(KILLS + 1):
        of_epoch = [a.revision for a in promises.acknowledged if a.epoch == epoch]
        if of_epoch:
            assert min(of_epoch) > newest
            newest = max(of_epoch)


def check_watch(promises: Promises, watcher: Watcher, before: Obj, after: Obj) -> None:
    """No revision twice, none out of order, none missing, and the sum of all is the state."""
    revisions = watcher.revisions()
    assert revisions == sorted(set(revisions))
    assert watcher.connections > KILLS // 2
    seen = {int(o["metadata"]["resourceVersion"]): o for _, o in watcher.events}
    for ack in promises.acknowledged:
        assert seen[ack.revision]["metadata"]["name"] == ack.name
        assert seen[ack.revision]["data"] == ack.data
    deletes = sum(type_ == "DELETED" for type_, _ in watcher.events)
    assert deletes >= promises.deletes
    replayed = watcher.replay({o["metadata"]["name"]: o for o in before["items"]})
    assert replayed == {o["metadata"]["name"]: o for o in after["items"]}


def check_database(path: Path) -> None:
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


# -- a full disk ------------------------------------------------------------------------------


async def test_full_disk_refuses_writes_and_keeps_the_rest(server: EmbeddedBackend) -> None:
    """The disk is full where files may not grow: a limit on their size, taken away later."""
    pid = server.processes[0].pid
    wal = server.folder / "data" / "db" / "corral.db-wal"
    kept: dict[str, Obj] = {}
    async with KubeClient.from_kubeconfig(str(server.kubeconfig), settings=NO_RETRIES) as client:

        async def create(name: str) -> None:
            obj = {"metadata": {"name": name}, "data": {"text": name * 4000}}
            kept[name] = await client.create(CONFIGMAPS, obj, namespace="default")

        await create("before")
        unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        limit = wal.stat().st_size + 60_000
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, unlimited[1]))
        with pytest.raises(errors.InternalError) as caught:
            for n in range(20):
                await create(f"full-{n}")
        assert caught.value.status_code == 500
        assert "the write could not be stored" in caught.value.message
        refused = f"full-{len(kept) - 1}"
        with pytest.raises(errors.NotFound):
            await client.get(CONFIGMAPS, refused, namespace="default")
        assert await client.get(CONFIGMAPS, "before", namespace="default") == kept["before"]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
        await create(refused)
        await create("after")
        server.stop()
        await asyncio.to_thread(server.start)
        for name, obj in kept.items():
            assert await client.get(CONFIGMAPS, name, namespace="default") == obj


# -- starts that must be refused -----------------------------------------------------------------


def run_server(
    folder: Path, port: int = 0, before: Callable[[], None] | None = None
) -> tuple[int, str]:
    """The exit code and the complaint of a server that should not start."""
    ended = subprocess.run(
        [
            sys.executable, "-m", "corral.cli.main", "apiserver",
            "--data-dir", str(folder), "--port", str(port),
        ],
        preexec_fn=before, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stderr


def obey_permissions() -> None:
    """In the child: no power over the mode bits of files, even for root."""
    drop_from_bounding_set, override = 24, 1
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0 and libc.prctl(drop_from_bounding_set, override, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot give up CAP_DAC_OVERRIDE")


def test_second_server_on_the_folder_is_refused(server: EmbeddedBackend) -> None:
    code, complaint = run_server(server.folder / "data")
    assert code == 1
    assert "is in use by another server" in complaint and "--data-dir" in complaint
    assert "Traceback" not in complaint
    assert server.request("GET", "/readyz").body == b"ok"


def test_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, complaint = run_server(tmp_path / "data", port)
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in complaint
    assert "Traceback" not in complaint


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    code, complaint = run_server(tmp_path / "data")
    assert code == 1
    assert "cannot use the data folder" in complaint and "Traceback" not in complaint


def test_read_only_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o555)
    code, complaint = run_server(folder, before=obey_permissions)
    assert code == 1
    assert "cannot use the data folder" in complaint and "Permission denied" in complaint
    assert "Traceback" not in complaint


def test_damaged_database_is_refused(tmp_path: Path) -> None:
    database = tmp_path / "data" / "db" / "corral.db"
    database.parent.mkdir(parents=True)
    database.write_bytes(b"this is no database" * 500)
    code, complaint = run_server(tmp_path / "data")
    assert code == 1
    assert "cannot read the database" in complaint and "Traceback" not in complaint
    assert database.read_bytes().startswith(b"this is no database")
