"""Faults in pairs against `corral up` while jobs run: nothing is lost, doubled or left behind.

Full disk, read-only disk, writes that are refused, killed and stopped parts (and the keepers of
networks and of containers), a clock that jumps by years, deleted objects. Judged by what the pods
wrote down themselves, and by what the API server acknowledged. FAULT_SEED repeats a schedule,
FAULT_SECONDS is how long the soak lasts.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from tests.cluster.objects import Objects, eventually
from tests.e2e.clusters import processes_of
from tests.e2e.fault_schedule import NODES, Faults, FaultyUp, keepers, memory_of, reached
from tests.e2e.test_crashes import complete, journal, judge, leftovers, settled, work
from tests.faults.clock import Clock
from tests.faults.disks import Disk, ReadOnly, small_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "c" / "data", mib=192) as disk:
        yield disk


@pytest.fixture
def up(tmp_path: Path, disk: Disk) -> Iterator[FaultyUp]:
    read_only = ReadOnly(tmp_path, disk.path)
    cluster = FaultyUp(tmp_path / "c", Clock(tmp_path), read_only, "--nodes", "2", "--no-registry")
    left_by_one_that_was_killed(cluster.temporary)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def left_by_one_that_was_killed(temporary: Path) -> None:
    """As of an operator with the key of a machine: without it, that nothing is left says little."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    folder = temporary / f"corral-ssh-{ended.pid}-before"
    folder.mkdir(mode=0o700)
    (folder / "key").touch(0o600)


class Load:
    """Jobs, one after the other, each judged when it is over."""

    def __init__(self, up: FaultyUp, place: Path, count: int) -> None:
        self.up, self.place, self.count = up, place, count
        self.number = 0
        self._start()

    @property
    def name(self) -> str:
        return f"load-{self.number}"

    @property
    def folder(self) -> Path:
        return self.place / self.name

    def _start(self) -> None:
        self.folder.mkdir(parents=True)
        for path in (self.place, self.folder):
            path.chmod(0o777)
        made = work(self.name, self.folder, completions=self.count, parallelism=6, seconds=0.5)
        made["spec"]["podReplacementPolicy"] = "Failed"
        # each index waits for itself: what kills six pods at once delays the others by nothing
        made["spec"]["backoffLimitPerIndex"] = 1000
        objects = Objects(self.up, "default")
        eventually(lambda: reached(lambda: objects.create("jobs", made)), seconds=60)

    def over(self) -> bool:
        return bool(reached(lambda: complete(self.up, self.name)))

    def progress(self, more: int) -> None:
        """Wait for entries in the journal, or the end; then begin anew."""
        want = len(journal(self.folder)) + more
        eventually(lambda: len(journal(self.folder)) >= want or self.over(), seconds=180)
        if self.over():
            self.judge()
            self.number += 1
            self._start()

    def judge(self) -> None:
        eventually(self.over, seconds=300)
        judge(self.folder, self.count)
        status = Objects(self.up, "default").get("batch/v1", "jobs", self.name)["status"]
        assert status["succeeded"] == self.count
        assert status["completedIndexes"] == f"0-{self.count - 1}"


def play(up: FaultyUp, disk: Disk, place: Path, *, seconds: float, turns: int) -> None:
    seed = int(os.environ.get("FAULT_SEED", "0")) or random.randrange(1 << 30)
    print(f"FAULT_SEED={seed}")
    rng = random.Random(seed)
    faults, load = Faults(up, disk, rng), Load(up, place, 40)
    load.progress(1)
    blind = [what for what, found in left_of(up).items() if not found]
    assert not blind, f"these cannot be judged, as they are not seen while pods run: {blind}"
    end, turn = time.monotonic() + seconds, 0
    while turn < turns or time.monotonic() < end:
        turn += 1
        load.progress(rng.randint(1, 6))
        print(f"turn {turn}: {faults.turn()}", flush=True)
        faults.returned()
    load.judge()
    faults.ledger.judge()
    print(f"{turn} turns, {load.number + 1} jobs of {load.count}: {dict(faults.done)}")
    print(f"{len(faults.ledger.kept)} objects acknowledged; hit: {dict(faults.hit)}")
    settled(up)
    pid = up.process.pid
    assert up.process.poll() is None, f"the supervisor {pid} has ended"
    up.stop()
    left = {what: found for what, found in left_of(up).items() if found}
    assert left == {}
    assert sorted(path.name for path in up.temporary.iterdir()) == []
    inside = [
        line for line in Path("/proc/mounts").read_text().splitlines() if str(up.data) in line
    ]
    assert len(inside) == 1, inside  # the disk itself


def left_of(up: FaultyUp) -> dict[str, list[str]]:
    """What this cluster has on the machine beside its data folder (others run here too)."""
    nodes = [(name, up.data / "nodes" / name) for name in NODES]
    own = [f"corral-{name}-{sha256(bytes(path)).hexdigest()[:8]}" for name, path in nodes]
    begin = tuple(memory_of(up.data))
    return {
        "control groups": [path for path in leftovers() if any(group in path for group in own)],
        "folders in memory": [
            str(path) for path in Path("/dev/shm").iterdir() if str(path).startswith(begin)
        ],
        "numbers of address blocks": [
            str(path) for path in Path("/run/corral").glob("cluster-*/*") if _of(path, begin)
        ],
        "processes of containers": [str(pid) for pid in processes_of(up.data)],
        "keepers of networks": [str(pid) for pid in keepers(up.data)],
    }


def _of(path: Path, begin: tuple[str, ...]) -> bool:
    """Whether a file says that it belongs to a node; one that is gone just now does not."""
    with suppress(OSError):
        return path.read_text().startswith(begin)
    return False


@pytest.mark.timeout(400)
def test_faults_in_pairs(up: FaultyUp, disk: Disk, tmp_path: Path) -> None:
    play(up, disk, tmp_path / "place", seconds=0, turns=5)


@pytest.mark.soak
@pytest.mark.timeout(2400)
def test_ten_minutes_of_faults(up: FaultyUp, disk: Disk, tmp_path: Path) -> None:
    play(
        up, disk, tmp_path / "place", seconds=float(os.environ.get("FAULT_SECONDS", "600")), turns=1
    )
