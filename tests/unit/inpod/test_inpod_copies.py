"""Copies of one job on one volume: any of them goes on from what any other has saved."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.inpod.environment import Environment, read
from corral.inpod.errors import RestoreError
from corral.inpod.replica import Replica
from corral.inpod.volume import copies, names
from corral.inpod.volume.manifest import Manifest
from corral.inpod.volume.volume import Volume

Make = Callable[..., Replica]


def saved(replica: Replica, step: int) -> None:
    def save(path: Path) -> None:
        (path / "weights").write_text(f"step {step}")

    assert replica.maybe_checkpoint(save, step=step, force=True)
    replica.flush()


@pytest.fixture
def copy(replica: Make, tmp_path: Path) -> Make:
    """Makes a start of a copy."""

    def make(number: int, **options: Any) -> Replica:
        folder = str(tmp_path / f"replica-{number}")
        return replica(checkpoint_dir=folder, peers=str(tmp_path), **options)

    return make


def folders(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if names.step_of(path.name) is not None)


class TestRestore:
    def test_nothing_is_there(self, copy: Make) -> None:
        assert copy(0).restore() is None

    def test_the_newest_of_any_copy(self, copy: Make) -> None:
        saved(copy(0, attempt=1), 10)
        saved(copy(1, attempt=2), 30)
        found = copy(0, attempt=3).restore()
        assert found is not None and found.step == 30
        assert (found / "weights").read_text() == "step 30"

    def test_the_step_decides_and_not_the_attempt(self, copy: Make) -> None:
        saved(copy(0, attempt=1), 40)
        saved(copy(1, attempt=5), 30)
        found = copy(2, attempt=6).restore()
        assert found is not None and found.step == 40

    def test_a_damaged_one_of_another_copy_is_passed_over_and_marked(
        self, copy: Make, tmp_path: Path
    ) -> None:
        saved(copy(0, attempt=1), 10)
        saved(copy(1, attempt=2), 30)
        (newest,) = folders(tmp_path / "replica-1")
        (tmp_path / "replica-1" / newest / "weights").write_text("STEP 30")
        found = copy(0, attempt=3).restore()
        assert found is not None and found.step == 10
        assert (tmp_path / "replica-1" / newest / names.QUARANTINED).exists()
        again = copy(1, attempt=4).restore()
        assert again is not None and again.step == 10

    def test_all_damaged_is_nothing(self, copy: Make, tmp_path: Path) -> None:
        saved(copy(1), 30)
        (newest,) = folders(tmp_path / "replica-1")
        (tmp_path / "replica-1" / newest / "weights").unlink()
        assert copy(0).restore() is None

    def test_another_job_left_some_there(self, copy: Make) -> None:
        saved(copy(1, job_uid="uid-0"), 30)
        assert copy(0).restore() is None

    def test_what_is_not_readable_is_an_error(self, copy: Make, tmp_path: Path) -> None:
        starting = copy(0)
        (tmp_path / "replica-1").mkdir()
        (tmp_path / "replica-1" / "step-000000000001.aa").mkdir()
        (tmp_path / "replica-1" / "step-000000000001.aa" / "MANIFEST.json").mkdir()
        assert starting.restore() is None  # a folder of that name is no manifest
        blocked = Environment(
            job_uid="uid-1",
            checkpoint_dir=str(tmp_path / "replica-0"),
            peers=str(tmp_path / "replica-1" / "step-000000000001.aa" / "file"),
        )
        (tmp_path / "replica-1" / "step-000000000001.aa" / "file").write_text("")
        with pytest.raises(RestoreError, match="cannot be read"):
            Replica(blocked).restore()


class TestFence:
    def test_copies_do_not_fence_each_other(self, copy: Make, tmp_path: Path) -> None:
        older, newer = copy(0, attempt=1), copy(1, attempt=2)
        newer.restore()
        saved(older, 5)
        assert len(folders(tmp_path / "replica-0")) == 1

    def test_a_later_start_of_the_same_copy_does(self, copy: Make, tmp_path: Path) -> None:
        older = copy(0, attempt=1)
        saved(older, 5)
        copy(0, attempt=2).restore()
        older.maybe_checkpoint(lambda path: (path / "weights").touch(), step=6, force=True)
        older.flush()
        assert len(folders(tmp_path / "replica-0")) == 1


class TestRetention:
    def make(self, root: Path, step: int, at: float) -> str:
        volume = Volume(str(root))
        identifier = names.checkpoint_id(step, f"{step:04d}")
        (root / identifier).mkdir(parents=True)
        volume.publish(Manifest(id=identifier, step=step, time=at, job_uid="uid-1"))
        return identifier

    def environment(self, root: Path, keep: int) -> Environment:
        return Environment(job_uid="uid-1", checkpoint_dir=str(root), keep=keep)

    def test_the_newest_stay(self, tmp_path: Path) -> None:
        made = [self.make(tmp_path, step, at=step) for step in range(5)]
        volume = Volume(str(tmp_path))
        gone = copies.retain(self.environment(tmp_path, 3), volume, now=1000.0)
        assert sorted(gone) == made[:2]
        assert folders(tmp_path) == made[2:]

    def test_one_that_was_the_newest_a_moment_ago_stays(self, tmp_path: Path) -> None:
        made = [self.make(tmp_path, step, at=float(step)) for step in range(3)]
        volume, environment = Volume(str(tmp_path)), self.environment(tmp_path, 1)
        # the first was replaced at 1, the second at 2
        now = 1 + copies.READING
        assert copies.retain(environment, volume, now=now) == made[:1]
        assert copies.retain(environment, volume, now=now + 1) == made[1:2]

    def test_without_a_number_the_operator_decides(self, tmp_path: Path) -> None:
        self.make(tmp_path, 1, at=0.0)
        self.make(tmp_path, 2, at=0.0)
        volume = Volume(str(tmp_path))
        assert copies.retain(self.environment(tmp_path, 0), volume, now=time.time()) == []

    def test_those_of_other_jobs_are_not_ours_to_remove(self, tmp_path: Path) -> None:
        self.make(tmp_path, 1, at=0.0)
        self.make(tmp_path, 2, at=0.0)
        stranger = Environment(job_uid="uid-2", checkpoint_dir=str(tmp_path), keep=1)
        assert copies.retain(stranger, Volume(str(tmp_path)), now=1000.0) == []


def test_environment() -> None:
    env = {"CORRAL_CHECKPOINT_PEERS": "/checkpoints", "CORRAL_CHECKPOINT_KEEP": "3"}
    assert read(env).peers == "/checkpoints"
    assert read(env).keep == 3
