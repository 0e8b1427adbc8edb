"""``corral up`` and ``corral down``: one command, one process tree, one folder."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.objects import Objects, eventually
from tests.e2e.clusters import Up, children, corral, job, processes_of


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    cluster = Up(tmp_path / "c", "--nodes", "2")
    cluster.start()
    yield cluster
    cluster.stop()


def finished(objects: Objects, name: str) -> bool:
    status = objects.get("batch/v1", "jobs", name).get("status") or {}
    return any(c["type"] == "Complete" for c in status.get("conditions") or ())


def test_a_job_runs(up: Up) -> None:
    line = up.log.read_text().splitlines()[0]
    assert re.fullmatch(r"corral is ready: KUBECONFIG=\S+/kubeconfig dashboard=\S+", line)
    objects = Objects(up, "default")
    objects.create("jobs", job("first", ["sh", "-c", "echo hello"], completions=3, parallelism=3))
    eventually(lambda: finished(objects, "first"))
    assert objects.get("batch/v1", "jobs", "first")["status"]["succeeded"] == 3
    assert len(Objects(up).names("v1", "nodes")) == 2


def test_nothing_is_left_after_a_stop(up: Up) -> None:
    objects = Objects(up, "default")
    objects.create("jobs", job("long", ["sleep", "1000"], completions=2, parallelism=2))
    eventually(
        lambda: (objects.get("batch/v1", "jobs", "long").get("status") or {}).get("ready") == 2
    )
    tree = children(up.process.pid)
    assert len(tree) >= 5
    assert processes_of(up.data)
    said = corral("down", "--data-dir", str(up.data))
    assert "corral is down" in said.stdout
    assert up.process.wait(10) == 0
    assert not [pid for pid in tree if Path(f"/proc/{pid}").exists()]
    assert processes_of(up.data) == []
    assert str(up.data) not in Path("/proc/mounts").read_text()


def test_restart_resumes(up: Up, tmp_path: Path) -> None:
    go = tmp_path / "go"
    objects = Objects(up, "default")
    wait = f"until test -f {go}; do sleep 0.05; done"
    waits = job("resumes", ["sh", "-c", wait], folder=tmp_path, completions=2, parallelism=2)
    objects.create("jobs", waits)
    eventually(
        lambda: (objects.get("batch/v1", "jobs", "resumes").get("status") or {}).get("ready") == 2
    )
    up.stop()
    go.touch()
    up.start()
    eventually(lambda: finished(Objects(up, "default"), "resumes"), seconds=90)


def test_a_second_one_on_the_same_folder(up: Up) -> None:
    said = corral("up", "--data-dir", str(up.data), "--port", "0", code=1)
    assert f"a cluster is already running on {up.data} (process {up.process.pid})" in said.stderr
    assert "corral down" in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize("part", ["apiserver", "workloads", "scheduler", "corral-1"])
def test_a_part_that_dies_is_started_again(up: Up, part: str) -> None:
    before = up.parts()[part]
    os.kill(before, signal.SIGKILL)
    eventually(lambda: up.parts().get(part, before) != before)
    objects = Objects(up, "default")
    eventually(lambda: answers(up))
    objects.create("jobs", job("after", ["true"]))
    eventually(lambda: finished(objects, "after"), seconds=60)


def answers(up: Up) -> bool:
    try:
        return up.request("GET", "/readyz").code == 200
    except OSError:
        return False


def test_detached(tmp_path: Path) -> None:
    data = tmp_path / "data"
    said = corral("up", "--detach", "--data-dir", str(data), "--port", "0")
    try:
        assert said.stdout.startswith(f"corral is ready: KUBECONFIG={data}/kubeconfig")
    finally:
        assert "corral is down" in corral("down", "--data-dir", str(data)).stdout
    assert "no cluster is running" in corral("down", "--data-dir", str(data)).stdout


def test_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = corral("up", "--data-dir", str(tmp_path / "d"), "--port", str(port), code=1)
    assert f"cannot listen on 127.0.0.1:{port}" in said.stderr
    assert "--port" in said.stderr
    assert "Traceback" not in said.stderr


def test_folder_that_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    said = corral("up", "--data-dir", str(file / "data"), "--port", "0", code=1)
    assert f"cannot use {file / 'data'}: Not a directory" in said.stderr
    assert "--data-dir" in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    said = corral("up", "--data-dir", str(tmp_path / "d"), "--port", "0", code=1)
    assert "Permission denied" in said.stderr


def test_asked_twice_it_hurries(up: Up) -> None:
    """A pod that will not end keeps the first Ctrl-C waiting, not the second."""
    stubborn = job("stubborn", ["sh", "-c", "trap '' TERM; while true; do sleep 0.1; done"])
    stubborn["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 3600
    objects = Objects(up, "default")
    objects.create("jobs", stubborn)
    eventually(
        lambda: (objects.get("batch/v1", "jobs", "stubborn").get("status") or {}).get("ready") == 1
    )
    parts = up.parts()
    up.process.send_signal(signal.SIGINT)
    # the scheduler has gone: now it waits for the nodes
    eventually(lambda: not Path(f"/proc/{parts['scheduler']}").exists())
    assert up.process.poll() is None
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(30) == 0
    assert processes_of(up.data) == []
