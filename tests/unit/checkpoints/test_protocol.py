"""The manifest protocol under crashes, damage and concurrent writers."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_store import Crash, MemoryStore

from corral.checkpoints import (
    About,
    AlreadyExists,
    Damaged,
    Fenced,
    InvalidPath,
    NoCheckpoint,
    NotFound,
    Reason,
    Repository,
    Retention,
    Shard,
    collect,
    delete,
    load_state,
    newest_good,
    prune,
    restore_files,
)
from corral.checkpoints.state import add_state, lay_out


def save(repository: Repository, step: int, attempt: int = 0) -> None:
    with repository.begin(step, About(attempt=attempt, kind="state")) as writer:
        add_state(writer, lay_out({"w": b"%d" % step * 300, "step": step}), shard_size=128)
        writer.commit()


def restored_step(repository: Repository) -> int:
    restored = load_state(repository)
    step = restored.value["step"]
    assert restored.value["w"] == b"%d" % step * 300
    assert restored.manifest.step == step
    return int(step)


@given(
    crash_after=st.integers(0, 80),
    crash_does=st.booleans(),
    keep=st.integers(1, 2),
    grace=st.sampled_from([0.0, 5.0]),
)
def test_a_crash_anywhere_costs_at_most_the_save_in_flight(
    crash_after: int, crash_does: bool, keep: int, grace: float
) -> None:
    store = MemoryStore()
    repository = Repository(store, workers=1, clock=lambda: store.now)
    committed = 0
    begun = 0
    save(repository, 0)
    store.crash_after, store.crash_does = crash_after, crash_does
    with contextlib.suppress(Crash):
        for begun in range(1, 8):
            save(repository, begun)
            committed = begun
            prune(repository, Retention(keep_last=keep), grace=grace)
            collect(repository)
    survivor = MemoryStore(store.objects)
    fresh = Repository(survivor, workers=1, clock=lambda: store.now + 10 * 86400)
    step = restored_step(fresh)
    assert committed <= step <= begun
    collect(fresh)
    save(fresh, 100)
    prune(fresh, Retention(keep_last=1))
    collect(fresh)
    assert restored_step(fresh) == 100
    folders, _ = survivor.entries("")
    assert len(folders) == 1  # nothing was left behind


@given(data=st.data())
def test_any_damage_to_the_newest_gives_the_one_before(data: st.DataObject) -> None:
    store = MemoryStore()
    save(Repository(store, workers=1), 1)
    before = set(store.objects)
    save(Repository(store, workers=1), 2)
    path = data.draw(st.sampled_from(sorted(set(store.objects) - before)))
    content = store.objects[path]
    kind = data.draw(st.sampled_from(["flip", "cut", "extend", "gone"]))
    if kind == "flip":
        place = data.draw(st.integers(0, len(content) * 8 - 1))
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        store.objects[path] = bytes(changed)
    elif kind == "cut":
        store.objects[path] = content[: data.draw(st.integers(0, len(content) - 1))]
    elif kind == "extend":
        store.objects[path] = content + b"!"
    else:
        del store.objects[path]
    fresh = Repository(store, workers=1)
    assert restored_step(fresh) == 1
    assert restored_step(Repository(store, workers=1)) == 1


def test_a_flaw_on_the_way_condemns_nothing() -> None:
    store = MemoryStore()
    repository = Repository(store, workers=1)
    save(repository, 1)
    store.flip_reads = 1
    assert restored_step(repository) == 1
    assert not any("QUARANTINED" in path for path in store.objects)


def test_damage_is_quarantined_and_reported_once_read() -> None:
    store = MemoryStore()
    repository = Repository(store, workers=1)
    save(repository, 1)
    save(repository, 2)
    newest = repository.scan().manifests[0]
    store.objects[f"{newest.id}/data/00000"] = b"x" * newest.files[0].size
    first = load_state(repository)
    assert [(f.checkpoint, f.reason, f.path) for f in first.findings] == [
        (newest.id, Reason.CORRUPT, "data/00000")
    ]
    assert first.findings[0].is_damage
    second = load_state(Repository(store))
    assert [f.reason for f in second.findings] == [Reason.QUARANTINED]


def test_only_damage_counts_as_damage() -> None:
    store = MemoryStore()
    repository = Repository(store, workers=1)
    save(repository, 1)

    def unreachable(manifest: object) -> None:
        raise ConnectionError("store down")

    with pytest.raises(ConnectionError):
        newest_good(repository, unreachable)
    assert len(repository.scan().manifests) == 1


def test_the_manifest_is_the_last_object_and_deleted_first() -> None:
    store = MemoryStore()
    repository = Repository(store, workers=1)
    save(repository, 1)
    written = [path for _, path in store.log]
    assert (
        written.index(next(p for p in written if p.endswith("MANIFEST.json"))) == len(written) - 2
    )
    assert written[-1] == "LATEST"
    store.log.clear()
    delete(repository, repository.scan().manifests[0])
    order = [(verb, path.rpartition("/")[2]) for verb, path in store.log]
    assert order[:2] == [("create", "DELETED.json"), ("delete", "MANIFEST.json")]
    assert order[-2:] == [("delete", "DELETED.json"), ("delete", "LATEST")]
    assert store.objects == {}


def test_a_failed_save_cleans_up_and_shows_nothing() -> None:
    store = MemoryStore()
    repository = Repository(store, workers=1)
    with pytest.raises(RuntimeError), repository.begin(1) as writer:
        writer.add("a", [b"1"])
        raise RuntimeError("training failed")
    assert store.objects == {}


def test_a_lost_answer_to_the_manifest_is_no_error() -> None:
    class Forgetful(MemoryStore):
        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            if path.endswith("MANIFEST.json"):
                raise AlreadyExists("the retry of a request that had succeeded")

    repository = Repository(Forgetful(), workers=1)
    save(repository, 1)
    assert restored_step(repository) == 1


def test_many_writers_of_the_same_step() -> None:
    store = MemoryStore()
    threads = [
        threading.Thread(target=save, args=(Repository(store, workers=1), 5)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Repository(store).scan().manifests) == 8
    assert restored_step(Repository(store)) == 5


def test_shards_published_by_all_at_once() -> None:
    store = MemoryStore()
    results: list[object] = []
    barrier = threading.Barrier(4)

    def replica(index: int) -> None:
        writer = Repository(store, workers=1).begin(
            3, About(job_uid="u", attempt=1), shard=Shard(index, 4)
        )
        writer.add("w", [bytes([index]) * 10])
        barrier.wait()
        results.append(writer.commit())

    threads = [threading.Thread(target=replica, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (manifest,) = Repository(store).scan().manifests
    assert {entry.shard for entry in manifest.files} == {0, 1, 2, 3}
    assert any(result is not None for result in results)
    assert all(result in (None, manifest) for result in results)


def test_a_restarted_shard_does_not_touch_what_was_recorded(tmp_path: Path) -> None:
    store = MemoryStore()
    repository = Repository(store, workers=1)
    for content in (b"first", b"second"):
        writer = repository.begin(1, About(job_uid="u"), shard=Shard(0, 2))
        writer.add("w", [content])
        assert writer.commit() is None
    other = repository.begin(1, About(job_uid="u"), shard=Shard(1, 2))
    other.add("w", [b"other"])
    assert other.commit() is not None
    restore_files(repository, tmp_path / "out", shard=0)
    assert (tmp_path / "out/w").read_bytes() == b"first"


def test_a_later_attempt_outranks_a_higher_step() -> None:
    store = MemoryStore()
    repository = Repository(store, workers=1)
    save(repository, 100, attempt=1)
    save(repository, 50, attempt=2)
    assert restored_step(repository) == 50
    with pytest.raises(Fenced, match="attempt 2"):
        save(Repository(store, workers=1), 101, attempt=1)


def test_the_hint_finds_what_a_stale_listing_hides() -> None:
    class Stale(MemoryStore):
        hidden = ""

        def entries(self, prefix: str) -> tuple[list[str], list[str]]:
            folders, objects = super().entries(prefix)
            return [name for name in folders if name != self.hidden], objects

    store = Stale()
    repository = Repository(store, workers=1)
    save(repository, 1)
    save(repository, 2)
    store.hidden = repository.scan().manifests[0].id
    assert restored_step(Repository(store, workers=1)) == 2
    store.objects["LATEST"] = b"../../etc/passwd"
    assert restored_step(Repository(store, workers=1)) == 1


def test_by_name() -> None:
    store = MemoryStore()
    repository = Repository(store, workers=1)
    save(repository, 1)
    save(repository, 2)
    older = repository.scan().manifests[1]
    assert load_state(repository, identifier=older.id).value["step"] == 1
    with pytest.raises(NotFound):
        repository.get("step-000000000009.abc")
    with pytest.raises(NotFound):
        repository.get("../secrets")
    del store.objects[f"{older.id}/MANIFEST.json"]
    with pytest.raises(Damaged):
        Repository(store).get(older.id)
    with pytest.raises(NoCheckpoint, match="no manifest"):
        load_state(Repository(store), identifier=older.id)


@pytest.mark.parametrize(
    "path", ["../x", "/x", "a//b", "a/./b", "", "MANIFEST.json", "a\\b", "a\n"]
)
def test_paths_that_are_refused(path: str) -> None:
    with pytest.raises(InvalidPath):
        Repository(MemoryStore()).begin(1).add(path, [b""])


def test_the_same_file_twice_is_refused() -> None:
    writer = Repository(MemoryStore()).begin(1)
    writer.add("a", [b"1"])
    with pytest.raises(InvalidPath, match="already"):
        writer.add("a", [b"2"])


def test_part_size_is_recorded() -> None:
    writer = Repository(MemoryStore()).begin(1)
    assert writer.add("small", [b"1"]).part_size is None
    assert writer.add("large", [bytes(1001)]).part_size == 1000
