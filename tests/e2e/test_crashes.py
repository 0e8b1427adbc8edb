"""SIGKILL at random, 30 times, under load: nothing is lost, nothing runs twice, nothing is left.

Every pod appends to a journal when it begins and when it ends, and holds a lock of its index while
it runs; what happened is judged by that, not by what the cluster says of itself.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.objects import Objects, eventually
from tests.e2e.clusters import Up, job, processes_of

WORK = """
import fcntl, os, sys, time
folder, index, uid = os.environ["PLACE"], os.environ["JOB_COMPLETION_INDEX"], os.environ["POD_UID"]
journal = os.open(f"{folder}/journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
lock = os.open(f"{folder}/lock-{index}", os.O_RDWR | os.O_CREAT, 0o666)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    os.write(journal, f"twice {index} {uid}\\n".encode())
os.write(journal, f"begin {index} {uid}\\n".encode())
time.sleep(float(os.environ["SECONDS_"]))
os.write(journal, f"end {index} {uid}\\n".encode())
"""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    cluster = Up(tmp_path / "c", "--nodes", "2")
    cluster.start()
    yield cluster
    cluster.stop()


def work(name: str, place: Path, *, completions: int, parallelism: int, seconds: float) -> Any:
    made = job(
        name,
        ["python", "-c", WORK],
        folder=place,
        completions=completions,
        parallelism=parallelism,
        completionMode="Indexed",
        backoffLimit=10_000,
    )
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["image"] = "python:3.12"
    container["env"] = [
        {"name": "PLACE", "value": str(place)},
        {"name": "SECONDS_", "value": str(seconds)},
        {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
    ]
    return made


def journal(place: Path) -> list[tuple[str, str, str]]:
    try:
        lines = (place / "journal").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [(what, index, uid) for what, index, uid in (line.split() for line in lines)]


def judge(place: Path, completions: int) -> None:
    """By what the pods wrote down."""
    entries = journal(place)
    assert not [entry for entry in entries if entry[0] == "twice"]
    begun = Counter(uid for what, _, uid in entries if what == "begin")
    assert max(begun.values()) == 1, "a container of a pod that never restarts ran twice"
    ended = {index for what, index, _ in entries if what == "end"}
    assert ended == {str(n) for n in range(completions)}


def complete(up: Up, name: str) -> bool:
    try:
        status = Objects(up, "default").get("batch/v1", "jobs", name).get("status") or {}
    except OSError:
        return False  # the API server is on its way back
    return any(c["type"] == "Complete" for c in status.get("conditions") or ())


def settled(up: Up) -> None:
    """No process, mount, group or folder of a pod that is no more."""
    objects = Objects(up, "default")
    reply = up.request(
        "DELETE", "/apis/batch/v1/namespaces/default/jobs?propagationPolicy=Background"
    )
    assert reply.code == 200, reply.body
    eventually(lambda: not objects.names("v1", "pods"), seconds=60)
    eventually(lambda: not processes_of(up.data), seconds=30)
    eventually(lambda: not list(up.data.glob("nodes/*/pods/*")), seconds=30)
    eventually(lambda: not list(up.data.glob("nodes/*/containers/*")), seconds=30)


def leftovers() -> set[str]:
    """Control groups and network devices of ours that are there now."""
    groups = {str(path) for path in Path("/sys/fs/cgroup").glob("**/corral-*/*/")}
    return groups | {name for name in os.listdir("/sys/class/net") if name.startswith("cv")}


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_thirty_kills(up: Up, tmp_path: Path) -> None:
    seed = int(os.environ.get("CRASH_SEED", "0")) or random.randrange(1 << 30)
    print(f"CRASH_SEED={seed}")
    rng = random.Random(seed)
    before = leftovers()
    place = tmp_path / "place"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    objects = Objects(up, "default")
    count = 240
    objects.create("jobs", work("load", place, completions=count, parallelism=10, seconds=1.0))
    killed: Counter[str] = Counter()
    for turn in range(30):
        want = len(journal(place)) + rng.randint(1, 12)
        eventually(
            lambda want=want: len(journal(place)) >= want or complete(up, "load"), seconds=90
        )
        victim = rng.choice(["corral-1", "corral-2", "scheduler", "workloads", "apiserver", "all"])
        killed[victim] += 1
        if victim == "all":
            up.crash()
            up.start()
        else:
            part = eventually(lambda v=victim: up.parts().get(v))
            os.kill(part, signal.SIGKILL)
        print(f"kill {turn}: {victim}", flush=True)
    eventually(lambda: complete(up, "load"), seconds=300)
    judge(place, count)
    status = objects.get("batch/v1", "jobs", "load")["status"]
    assert status["succeeded"] == count
    assert status["completedIndexes"] == f"0-{count - 1}"
    print(f"killed {dict(killed)}, pods failed honestly: {status.get('failed', 0)}")
    settled(up)
    up.stop()
    assert leftovers() <= before
    assert str(up.data) not in Path("/proc/mounts").read_text()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_thousand_pods(up: Up, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o777)
    objects = Objects(up, "default")
    began = time.monotonic()
    for number in range(4):
        folder = place / str(number)
        folder.mkdir()
        folder.chmod(0o777)
        made = work(f"load-{number}", folder, completions=250, parallelism=50, seconds=1.0)
        objects.create("jobs", made)
    for number in range(4):
        eventually(lambda n=number: complete(up, f"load-{n}"), seconds=600)
        judge(place / str(number), 250)
        entries = journal(place / str(number))
        assert len([e for e in entries if e[0] == "begin"]) == 250, "a pod was replaced"
        status = objects.get("batch/v1", "jobs", f"load-{number}")["status"]
        assert status["succeeded"] == 250
        assert not status.get("failed")
    print(f"1,000 pods of one second: {time.monotonic() - began:.0f} s")
    settled(up)
