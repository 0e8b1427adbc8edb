"""Checkpoints on a volume, written and read by this package and by corral.checkpoints."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from inpod_operator import Operator

from corral.checkpoints import (
    About,
    LocalStore,
    Reason,
    Repository,
    Shard,
    collect,
    restore_files,
)
from corral.checkpoints import Fenced as StoreFenced
from corral.inpod import RestoreError
from corral.inpod.replica import Replica
from corral.inpod.volume.volume import Volume

Make = Callable[..., Replica]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "volume"


@pytest.fixture
def repository(root: Path) -> Repository:
    return Repository(LocalStore(root))


def save(step: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        assert not list(path.iterdir())
        (path / "weights.bin").write_bytes(bytes([step % 256]) * 100_000)
        (path / "nested" / "deep").mkdir(parents=True)
        (path / "nested" / "deep" / "optimizer.bin").write_bytes(str(step).encode() * 1000)
        (path / "empty").write_bytes(b"")

    return write


def checkpoint(replica: Replica, step: int, **options: object) -> None:
    assert replica.maybe_checkpoint(save(step), step=step, force=True, **options)  # type: ignore[arg-type]
    replica.flush()


def newest(root: Path) -> Path:
    return max(path for path in root.iterdir() if path.name.startswith("step-"))


# --- both directions ----------------------------------------------------------------------------


def test_corral_checkpoints_scans_verifies_and_restores_what_a_pod_wrote(
    replica: Make, repository: Repository, tmp_path: Path
) -> None:
    writer = replica(framework="jax", replicas=2, processes=2)
    checkpoint(writer, 1, metrics={"loss": 0.5})
    checkpoint(writer, 2, metrics={"loss": float("nan")})
    scan = repository.scan()
    assert [m.step for m in scan.manifests] == [2, 1]
    assert [m.sequence for m in scan.manifests] == [2, 1]
    assert not scan.findings
    first = scan.manifests[1]
    assert (first.attempt, first.job_uid, first.framework) == (1, "uid-1", "jax")
    assert (first.world_size, dict(first.metrics)) == (2, {"loss": 0.5})
    assert scan.manifests[0].metrics == {"loss": None}
    assert repository.verify(first) == []
    assert repository.check_sizes(first) is None
    restored = restore_files(repository, tmp_path / "out")
    assert (restored.value / "nested/deep/optimizer.bin").read_bytes() == b"2" * 1000
    assert (tmp_path / "volume" / "LATEST").read_text() == scan.manifests[0].id


def test_a_pod_restores_what_corral_checkpoints_wrote(
    replica: Make, repository: Repository
) -> None:
    writer = repository.begin(41, About(attempt=1, metrics={"loss": 0.25}))
    writer.add("weights.bin", [b"abc", b"def"])
    writer.add("sub/x", [b""])
    manifest = writer.commit()
    assert manifest is not None
    found = replica(attempt=2).restore()
    assert found is not None
    assert (found.id, found.step, found.metrics) == (manifest.id, 41, {"loss": 0.25})
    assert (found / "weights.bin").read_bytes() == b"abcdef"
    assert Path(os.fspath(found)) == found.path == found.folder
    assert found.shards == ()


def test_both_write_into_one_volume_in_turn(replica: Make, repository: Repository) -> None:
    checkpoint(replica(), 1)
    with repository.begin(2, About(attempt=1, job_uid="uid-1")) as writer:
        writer.add("w", [b"2"])
        writer.commit()
    checkpoint(replica(), 3)
    assert [(m.step, m.sequence) for m in repository.scan().manifests] == [(3, 3), (2, 2), (1, 1)]


@pytest.mark.parametrize("pod_first", [True, False])
def test_shards_of_both_make_one_checkpoint(
    replica: Make, repository: Repository, pod_first: bool
) -> None:
    pod = replica(process=1, replica=1, processes=2, replicas=2)
    about = About(attempt=1, job_uid="uid-1")

    def theirs() -> None:
        with repository.begin(5, about, shard=Shard(0, 2)) as writer:
            writer.add("part", [b"zero"])
            writer.commit()

    if not pod_first:
        theirs()
    pod.maybe_checkpoint(save(5), step=5, sharded=True, force=True)
    pod.flush()
    if pod_first:
        theirs()
    (manifest,) = repository.scan().manifests
    assert manifest.world_size == 2
    assert repository.verify(manifest) == []
    found = replica(attempt=2, process=0, processes=2).restore()
    assert found is not None
    assert (found.path / "part").read_bytes() == b"zero"
    assert len(found.shards) == 2
    alone = replica(attempt=2).restore()
    assert alone is not None
    assert alone.path == alone.folder
    assert (alone.shards[1] / "empty").exists()


# --- damage -------------------------------------------------------------------------------------


def flip(folder: Path) -> None:
    data = bytearray((folder / "weights.bin").read_bytes())
    data[77_000] ^= 1
    (folder / "weights.bin").write_bytes(data)


def truncate(folder: Path) -> None:
    os.truncate(folder / "weights.bin", 99_999)


def remove(folder: Path) -> None:
    (folder / "nested/deep/optimizer.bin").unlink()


def link(folder: Path) -> None:
    target = folder.parent / "elsewhere"
    (folder / "weights.bin").rename(target)
    (folder / "weights.bin").symlink_to(target)


def tear(folder: Path) -> None:
    os.truncate(folder / "MANIFEST.json", 300)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (flip, Reason.CORRUPT),
        (truncate, Reason.TRUNCATED),
        (remove, Reason.MISSING),
        (link, Reason.MISSING),
        (tear, Reason.TORN),
    ],
)
def test_a_damaged_newest_checkpoint_is_passed_over_and_reported(
    replica: Make,
    root: Path,
    repository: Repository,
    operator: Operator,
    damage: Callable[[Path], None],
    reason: Reason,
) -> None:
    writer = replica()
    for step in (1, 2, 3):
        checkpoint(writer, step)
    damaged = newest(root)
    damage(damaged)
    reader = replica(attempt=2, report_url=operator.url)
    found = reader.restore()
    assert found is not None
    assert found.step == 2
    reader.flush()
    reports = operator.bodies("report")
    rejected = [item for body in reports for item in body.get("rejected", [])]
    assert [(item["id"], item["reason"]) for item in rejected] == [(damaged.name, reason)]
    assert {"id": found.id, "step": 2} in [body.get("restored") for body in reports]
    finding = repository.scan().findings[0]
    assert finding.checkpoint == damaged.name
    assert finding.reason == (Reason.TORN if damage is tear else Reason.QUARANTINED)
    again = replica(attempt=2).restore()
    assert again is not None
    assert again.step == 2


def test_a_checkpoint_without_manifest_is_no_checkpoint(replica: Make, root: Path) -> None:
    writer = replica()
    checkpoint(writer, 1)
    checkpoint(writer, 2)
    (newest(root) / "MANIFEST.json").unlink()
    found = replica(attempt=2).restore()
    assert found is not None
    assert found.step == 1


def test_with_nothing_intact_training_starts_anew_and_says_why(
    replica: Make, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint(replica(), 1)
    flip(newest(root))
    assert replica(attempt=2).restore() is None
    assert "is passed over" in caplog.text


# --- what to restore ----------------------------------------------------------------------------


def test_the_source_may_be_named(replica: Make, root: Path, tmp_path: Path) -> None:
    writer = replica()
    checkpoint(writer, 1)
    first = newest(root)
    checkpoint(writer, 2)
    for source in (first.name, str(first), first.as_uri(), f"pvc://claim/sub/{first.name}"):
        found = replica(attempt=2, restore_from=source).restore()
        assert found is not None
        assert found.step == 1
    other = replica(attempt=1, checkpoint_dir=str(tmp_path / "new"), restore_from=root.as_uri())
    found = other.restore()
    assert found is not None
    assert found.step == 2
    assert replica(attempt=2, restore_from="none").restore() is None


def test_a_named_checkpoint_that_is_not_there_or_damaged_raises(replica: Make, root: Path) -> None:
    with pytest.raises(RestoreError, match="cannot be restored"):
        replica(restore_from="step-000000000009.abc").restore()
    checkpoint(replica(), 1)
    flip(newest(root))
    with pytest.raises(RestoreError, match="sha256"):
        replica(restore_from=newest(root).name).restore()
    with pytest.raises(RestoreError, match="cannot be restored"):
        replica(restore_from="mnist-000012").restore()


def test_a_later_attempt_wins_over_a_higher_step(replica: Make) -> None:
    checkpoint(replica(attempt=1), 10)
    checkpoint(replica(attempt=2), 4)
    found = replica(attempt=3).restore()
    assert found is not None
    assert found.step == 4


# --- fences, leftovers, deletion ----------------------------------------------------------------


def test_an_older_attempt_cannot_commit(
    replica: Make, repository: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = replica(attempt=1), replica(attempt=2)
    checkpoint(old, 1)
    new.restore()  # claims the attempt
    assert old.maybe_checkpoint(save(2), step=2, force=True)
    old.flush()
    assert [m.step for m in repository.scan().manifests] == [1]
    assert "attempt 2 of the job has begun" in caplog.text
    assert not old.maybe_checkpoint(save(3), step=3, force=True)
    with pytest.raises(StoreFenced):
        repository.begin(4, About(attempt=1))


def test_a_claim_of_corral_checkpoints_fences_a_pod(
    replica: Make, repository: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    repository.claim(7)
    replica(attempt=6).maybe_checkpoint(save(1), step=1, force=True)
    assert "attempt 7" in caplog.text


def test_what_dead_processes_left_is_removed(replica: Make, root: Path) -> None:
    checkpoint(replica(), 1)
    (root / ".saving-1-00aa" / "data").mkdir(parents=True)
    (root / ".saving-2-00bb").mkdir()
    replica(attempt=2).restore()
    assert not (root / ".saving-1-00aa").exists()
    assert (root / ".saving-2-00bb").exists(), "it may just have been made"
    os.utime(root / ".saving-2-00bb", (0, 0))
    replica(attempt=2).restore()
    assert not (root / ".saving-2-00bb").exists()


def test_collecting_garbage_leaves_a_checkpoint_in_the_making_alone(
    replica: Make, repository: Repository
) -> None:
    def slow(path: Path) -> None:
        collect(repository)
        (path / "w").write_bytes(b"w")
        os.utime(path / "w", (0, 0))

    writer = replica()
    assert writer.maybe_checkpoint(slow, step=1, force=True)
    writer.flush()
    assert collect(repository) == []
    assert [m.step for m in repository.scan().manifests] == [1]


def test_a_folder_that_is_being_filled_is_left_alone(replica: Make, root: Path) -> None:
    def slow(path: Path) -> None:
        os.utime(path, (0, 0))
        replica(attempt=1).restore()
        (path / "w").write_bytes(b"w")

    writer = replica()
    assert writer.maybe_checkpoint(slow, step=1, force=True)
    writer.flush()
    found = replica().restore()
    assert found is not None
    assert found.step == 1


def test_an_incomplete_set_of_an_older_attempt_goes_and_a_complete_one_is_published(
    replica: Make, repository: Repository, root: Path
) -> None:
    for attempt, members in ((1, 1), (2, 2)):
        for process in range(members):
            pod = replica(attempt=attempt, process=process, processes=2)
            pod.maybe_checkpoint(save(8), step=8, sharded=True, force=True)
            pod.flush()
    (complete,) = repository.scan().manifests
    (root / complete.id / "MANIFEST.json").unlink()
    replica(attempt=3).restore()
    assert [m.id for m in repository.scan().manifests] == [complete.id]
    assert [path.name for path in root.iterdir() if path.name.startswith("step-")] == [complete.id]


def test_the_writer_deletes_what_the_operator_says(
    replica: Make, root: Path, operator: Operator, repository: Repository
) -> None:
    checkpoint(replica(), 1)
    old = newest(root).name
    operator.answer = {"delete": [old, "step-000000000077.gone", "../../etc"]}
    writer = replica(report_url=operator.url)
    checkpoint(writer, 2)
    operator.wait(lambda: any("deleted" in body for name, body in operator.calls))
    writer.flush()
    deleted = [name for body in operator.bodies("report") for name in body.get("deleted", [])]
    assert deleted[:2] == [old, "step-000000000077.gone"]
    assert [m.step for m in repository.scan().manifests] == [2]
    assert not (root / old).exists()


def test_a_deletion_that_was_interrupted_is_finished(replica: Make, root: Path) -> None:
    writer = replica()
    checkpoint(writer, 1)
    first = newest(root)
    checkpoint(writer, 2)
    (first / "DELETED.json").write_bytes(b"{}")
    found = replica(attempt=2).restore()
    assert found is not None
    assert not first.exists()
    Volume(str(root)).delete(first.name)
    assert found.step == 2


# --- announcing ---------------------------------------------------------------------------------


def test_a_checkpoint_is_announced_with_its_whole_manifest(
    replica: Make, root: Path, operator: Operator
) -> None:
    writer = replica(report_url=operator.url)
    checkpoint(writer, 1)
    (body,) = operator.bodies("checkpoints")
    folder = newest(root)
    assert body["id"] == folder.name
    assert body["manifest"] == json.loads((folder / "MANIFEST.json").read_bytes())
    assert body["duration"] >= 0


def test_after_a_restart_all_checkpoints_are_announced_again(
    replica: Make, operator: Operator
) -> None:
    writer = replica()
    checkpoint(writer, 1)
    checkpoint(writer, 2)
    checkpoint(replica(job_uid="another", attempt=1), 3)
    operator.faults.extend([503, "drop"])
    reader = replica(attempt=2, report_url=operator.url)
    reader.restore()
    reader.flush()
    steps = [body["manifest"]["step"] for body in operator.bodies("checkpoints")]
    assert steps == [1, 1, 1, 2], "repeated until it was answered, in their order"


# --- what users save ----------------------------------------------------------------------------


def test_a_link_to_a_file_is_saved_as_the_file(replica: Make, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"data")

    def with_link(path: Path) -> None:
        (path / "w").symlink_to(tmp_path / "outside")

    writer = replica()
    assert writer.maybe_checkpoint(with_link, step=1, force=True)
    writer.flush()
    (tmp_path / "outside").unlink()
    found = replica().restore()
    assert found is not None
    assert (found / "w").read_bytes() == b"data"


@pytest.mark.parametrize(
    ("name", "message"),
    [("MANIFEST.json", "reserved"), (".tmp-x", "are not kept"), (None, "wrote no file")],
)
def test_what_cannot_be_kept_is_said(
    replica: Make,
    repository: Repository,
    root: Path,
    caplog: pytest.LogCaptureFixture,
    name: str | None,
    message: str,
) -> None:
    def bad(path: Path) -> None:
        if name is not None:
            (path / name).write_bytes(b"x")

    writer = replica()
    with caplog.at_level(logging.ERROR):
        writer.maybe_checkpoint(bad, step=1, force=True)
        writer.flush()
    assert message in caplog.text
    assert not repository.scan().manifests
    assert not [path for path in root.iterdir() if path.name.startswith((".saving", "step"))]


def test_an_error_in_save_is_the_users(replica: Make, root: Path) -> None:
    def broken(path: Path) -> None:
        (path / "half").write_bytes(b"x")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        replica().maybe_checkpoint(broken, step=1, force=True)
    assert not [path for path in root.iterdir() if path.name.startswith((".saving", "step"))]


def test_file_systems_without_hard_links_serve_as_well(
    replica: Make, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("corral.inpod.volume.disk.os.link", refuse)
    checkpoint(replica(), 1)
    assert [m.step for m in repository.scan().manifests] == [1]
