"""Real processes: killed, told to stop, forked, several on one volume."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from inpod_operator import Operator

from corral.checkpoints import LocalStore, Repository, restore_files
from corral.inpod.environment import Environment
from corral.inpod.replica import Replica

ROOT = Path(__file__).parents[3]

LOOP = """
import sys
import corral.inpod as corral

state = corral.restore()
start = state.step + 1 if state else 0
print("start", start, flush=True)

def save(path):
    for name in ("a", "b", "c"):
        (path / name).write_bytes(step.to_bytes(8, "big") * 5000)

for step in range(start, start + int(sys.argv[1])):
    corral.report(step=step, total=100000, loss=1.0 / (step + 1))
    taken = corral.maybe_checkpoint(
        save, step=step, sharded="sharded" in sys.argv, force="forced" in sys.argv
    )
    print("step", step, taken, flush=True)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made: list[subprocess.Popen[str]] = []

    def run(code: str, *arguments: object, **env: object) -> subprocess.Popen[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CORRAL_")}
        settings = {
            "CORRAL_CHECKPOINT_DIR": tmp_path / "volume",
            "CORRAL_CHECKPOINT_INTERVAL": "0",
            "CORRAL_JOB_UID": "uid-1",
            "PYTHONPATH": ROOT,
            **env,
        }
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
            env={**clean, **{k: str(v) for k, v in settings.items()}},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that its children end with it
        )
        made.append(process)
        return process

    yield run
    for process in made:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)


def read_until(process: subprocess.Popen[str], count: int) -> None:
    assert process.stdout is not None
    for _ in range(count):
        line = process.stdout.readline()
        assert line, process.communicate()[1]


def whole(folder: Path, step: int) -> bool:
    expected = step.to_bytes(8, "big") * 5000
    return all((folder / name).read_bytes() == expected for name in "abc")


def test_killed_at_any_instant_a_whole_checkpoint_is_restored(start: Start, tmp_path: Path) -> None:
    chance = random.Random(20)
    reached = -1
    for attempt in range(1, 31):
        process = start(LOOP, 100_000, "forced", CORRAL_ATTEMPT=attempt)
        read_until(process, chance.randrange(2, 12))
        process.kill()
        process.wait()
        environment = Environment(checkpoint_dir=str(tmp_path / "volume"), attempt=attempt)
        found = Replica(environment).restore()
        assert found is not None or reached == -1
        if found is not None:
            assert whole(found.path, found.step)
            assert found.step >= reached
            reached = found.step
    assert reached > 5
    repository = Repository(LocalStore(tmp_path / "volume"))
    scan = repository.scan()
    assert all(not repository.verify(manifest) for manifest in scan.manifests)
    assert not [finding for finding in scan.findings if finding.is_damage]
    assert whole(restore_files(repository, tmp_path / "out").value, reached)
    left = [p for p in (tmp_path / "volume").iterdir() if p.name.startswith(".saving-")]
    assert len(left) <= 1, "the next start removes what the one before left"


def test_sigterm_saves_and_ends_with_143(start: Start, tmp_path: Path) -> None:
    process = start(LOOP, 10**9, CORRAL_CHECKPOINT_INTERVAL=3600)
    read_until(process, 5)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    found = Replica(Environment(checkpoint_dir=str(tmp_path / "volume"))).restore()
    assert found is not None
    assert found.step > 3
    assert whole(found.path, found.step)


def test_sigterm_reaches_the_handler_that_was_there_before(start: Start) -> None:
    code = (
        """
import signal
signal.signal(signal.SIGTERM, lambda *_: print("mine", flush=True))
"""
        + LOOP
    )
    process = start(code, 10**9, CORRAL_CHECKPOINT_INTERVAL=3600)
    read_until(process, 5)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert "mine" in output
    assert process.returncode == 143


def test_a_program_that_never_checkpoints_ends_at_once(start: Start) -> None:
    code = """
import corral.inpod as corral, time
corral.restore()
corral.report(step=1)
print("ready", flush=True)
while True:  # a signal just before signal.pause() would wait for the next one
    time.sleep(0.05)
"""
    process = start(code)
    read_until(process, 1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM


def test_a_forked_child_dies_of_sigterm_as_ever(start: Start) -> None:
    code = """
import corral.inpod as corral, os, signal, time
corral.maybe_checkpoint(lambda path: (path / "w").write_bytes(b"x"), step=1)
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.write(write, b"x")
    while True:
        time.sleep(0.05)
os.read(read, 1)
os.kill(child, signal.SIGTERM)
print(os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
"""
    output, errors = start(code).communicate(timeout=60)
    assert output.strip() == str(int(signal.SIGTERM)), errors


def test_the_last_checkpoint_is_finished_at_exit(
    start: Start, tmp_path: Path, operator: Operator
) -> None:
    code = """
import corral.inpod as corral
corral.report(step=9, total=10, loss=0.5)
corral.maybe_checkpoint(lambda p: (p / "w").write_bytes(b"x" * 50_000_000), step=9)
"""
    operator.faults.append(503)
    process = start(code, CORRAL_REPORT_URL=operator.url)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    (manifest,) = Repository(LocalStore(tmp_path / "volume")).scan().manifests
    assert [body["id"] for body in operator.bodies("checkpoints")][-1:] == [manifest.id]
    assert operator.bodies("report")[-1]["metrics"] == {"loss": 0.5}


def test_two_replicas_write_shards_into_one_folder(start: Start, tmp_path: Path) -> None:
    pods = [
        start(
            LOOP, 2000, "sharded",
            CORRAL_REPLICA=n, CORRAL_REPLICAS=2, CORRAL_CHECKPOINT_INTERVAL="0.05",
        )
        for n in range(2)
    ]  # fmt: skip
    lines = [list(pod.stdout or ()) for pod in pods]
    assert [pod.wait(60) for pod in pods] == [0, 0], [pod.communicate()[1] for pod in pods]
    assert all(lines)
    repository = Repository(LocalStore(tmp_path / "volume"))
    scan = repository.scan()
    assert all(not repository.verify(manifest) for manifest in scan.manifests)
    assert all(manifest.world_size == 2 for manifest in scan.manifests)
    assert not [finding for finding in scan.findings if finding.is_damage]


FORCED = """
import corral.inpod as corral, os, sys
replica = os.environ["CORRAL_REPLICA"]
for step in range(5):
    corral.maybe_checkpoint(
        lambda path: (path / "part").write_text(replica + " " + str(step)),
        step=step, sharded=True, force=True,
    )
"""


def test_the_shards_of_two_processes_make_whole_checkpoints(start: Start, tmp_path: Path) -> None:
    pods = [start(FORCED, CORRAL_REPLICA=n, CORRAL_REPLICAS=2) for n in range(2)]
    for pod in pods:
        _, errors = pod.communicate(timeout=60)
        assert pod.returncode == 0, errors
    repository = Repository(LocalStore(tmp_path / "volume"))
    assert [manifest.step for manifest in repository.scan().manifests] == [4, 3, 2, 1, 0]
    for process in range(2):
        environment = Environment(
            checkpoint_dir=str(tmp_path / "volume"), process=process, processes=2
        )
        found = Replica(environment).restore()
        assert found is not None
        assert (found / "part").read_text() == f"{process} 4"
        assert [(path / "part").read_text() for path in found.shards] == ["0 4", "1 4"]


def test_outside_corral_nothing_happens(tmp_path: Path) -> None:
    code = """
import json, os, signal, sys, threading
import corral.inpod as corral
before = signal.getsignal(signal.SIGTERM)
corral.report(step=1, total=2, loss=float("nan"))
found = corral.restore()
taken = corral.maybe_checkpoint(lambda path: 1 / 0, step=1, force=True)
corral.flush()
same = signal.getsignal(signal.SIGTERM) == before
print(json.dumps([found, taken, same, threading.active_count(), os.listdir(".")]))
"""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("CORRAL_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**clean, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == [None, False, True, 1, []], done.stderr
    assert done.stderr == ""
