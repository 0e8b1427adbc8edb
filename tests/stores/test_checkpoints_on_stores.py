"""The manifest protocol on every store: save, damage, restore, delete."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.checkpoints import (
    About,
    Best,
    Fenced,
    NoCheckpoint,
    Reason,
    Repository,
    Retention,
    Saver,
    Shard,
    collect,
    load_state,
    prune,
    restore_files,
)
from corral.checkpoints.store import Store

pytestmark = pytest.mark.usefixtures("conditional")


@pytest.fixture
def repository(store: Store) -> Repository:
    return Repository(store, prefix="job")


def save(repository: Repository, step: int, about: About | None = None) -> str:
    with repository.begin(step, about) as writer:
        writer.add("model/weights.bin", [f"weights {step} ".encode() * 1000])
        writer.add("optimizer.bin", [f"momentum {step} ".encode() * 500])
        manifest = writer.commit()
    assert manifest is not None
    return manifest.id


def test_restore_to_a_folder(repository: Repository, tmp_path: Path) -> None:
    save(repository, 1)
    newest = save(repository, 2)
    restored = restore_files(repository, tmp_path / "out")
    assert restored.manifest.id == newest
    assert restored.findings == ()
    assert (tmp_path / "out/model/weights.bin").read_bytes() == b"weights 2 " * 1000
    assert restored.manifest.sequence == 2


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("no manifest", None),
        ("torn manifest", Reason.TORN),
        ("altered manifest", Reason.TORN),
        ("truncated", Reason.TRUNCATED),
        ("bit flip", Reason.CORRUPT),
        ("missing", Reason.MISSING),
    ],
)
def test_a_damaged_newest_is_passed_over(
    repository: Repository, tmp_path: Path, damage: str, reason: Reason | None
) -> None:
    good, newest = save(repository, 1), save(repository, 2)
    store, folder = repository.store, repository.folder(newest)
    manifest, data = f"{folder}/MANIFEST.json", f"{folder}/model/weights.bin"
    text, weights = store.read(manifest).data, store.read(data).data
    flipped = weights[:777] + bytes([weights[777] ^ 1]) + weights[778:]
    match damage:
        case "no manifest":
            store.delete([manifest])
        case "torn manifest":
            store.write(manifest, [text[: len(text) // 2]])
        case "altered manifest":
            store.write(manifest, [text.replace(b'"attempt":0', b'"attempt":7')])
        case "truncated":
            store.write(data, [weights[:-1]])
        case "bit flip":
            store.write(data, [flipped])
        case _:
            store.delete([data])
    fresh = Repository(store, prefix="job")
    restored = restore_files(fresh, tmp_path / "out")
    assert restored.manifest.id == good
    assert [found.reason for found in restored.findings] == ([reason] if reason else [])
    again = restore_files(fresh, tmp_path / "again")
    assert again.manifest.id == good


def test_nothing_to_restore(repository: Repository, tmp_path: Path) -> None:
    with pytest.raises(NoCheckpoint):
        restore_files(repository, tmp_path / "out")


def test_state_in_the_background(repository: Repository) -> None:
    weights = bytearray(b"abc" * 1_000_000)
    with Saver(repository, shard_size=1 << 20) as saver:
        saver.save({"w": weights, "step": 7, "empty": b""}, 7)
        weights[:3] = b"xyz"  # training goes on
        saver.wait()
    restored = load_state(repository)
    assert restored.value["w"] == b"abc" * 1_000_000
    assert (restored.value["step"], restored.value["empty"]) == (7, b"")


def test_shards_need_all_writers(repository: Repository, tmp_path: Path) -> None:
    writers = [repository.begin(5, About(job_uid="u"), shard=Shard(i, 3)) for i in range(3)]
    assert len({writer.id for writer in writers}) == 1
    for index, writer in enumerate(writers):
        writer.add("part.bin", [b"%d" % index * 100])
    assert writers[2].commit() is None
    assert writers[0].commit() is None
    assert repository.scan().manifests == ()
    manifest = writers[1].commit()
    assert manifest is not None and len(manifest.files) == 3
    assert writers[0].commit() == manifest
    restore_files(repository, tmp_path / "mine", shard=1)
    assert (tmp_path / "mine/part.bin").read_bytes() == b"1" * 100


def test_an_older_attempt_is_fenced(repository: Repository) -> None:
    late = repository.begin(3, About(attempt=1))
    late.add("x", [b"x"])
    repository.claim(2)
    with pytest.raises(Fenced):
        late.commit()
    with pytest.raises(Fenced):
        repository.begin(4, About(attempt=1))
    assert repository.scan().manifests == ()


def test_retention_and_collection(repository: Repository) -> None:
    names = [
        save(repository, step, About(metrics={"loss": loss}))
        for step, loss in enumerate([5.0, 0.1, 4.0, 3.0, 2.0, 1.0], 1)
    ]
    policy = Retention(keep_last=2, keep_every=3, keep_best=Best("loss"))
    pruned = prune(repository, policy)
    kept = {names[i - 1] for i in (2, 3, 5, 6)}
    assert set(pruned.plan.keep) == kept
    assert {manifest.id for manifest in repository.scan().manifests} == kept
    assert set(repository.store.entries("job")[0]) == kept
    dead = repository.begin(99)
    dead.add("x", [b"left behind"])
    assert collect(repository) == []
    assert collect(repository, orphan_grace=-60.0) == [dead.id]
    assert set(repository.store.entries("job")[0]) == kept
