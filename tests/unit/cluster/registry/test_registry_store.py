"""What is kept and what is collected; sizes; one process at a time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from corral.cluster.registry.errors import Refused
from corral.cluster.registry.settings import StoreSettings
from corral.cluster.registry.store import Store, StoreInUse

GRACE = 3600.0
DAY = 86400.0


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    one = Store(tmp_path, clock=clock)
    yield one
    one.close()


def sha(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def put(store: Store, content: bytes, repository: str = "ns/job/models") -> str:
    upload = store.begin(repository)
    store.append(upload, [content])
    store.finish(repository, upload, sha(content))
    return sha(content)


def tag(store: Store, name: str, *layers: bytes, repository: str = "ns/job/models") -> str:
    blobs = [put(store, layer, repository) for layer in (b"{}", *layers)]
    return refer(store, name, blobs, repository)


def refer(store: Store, name: str, blobs: list[str], repository: str = "ns/job/models") -> str:
    parts = [{"mediaType": "x", "digest": digest, "size": 1} for digest in blobs]
    content = {"schemaVersion": 2, "config": parts[0], "layers": parts[1:]}
    return store.put_manifest(repository, name, json.dumps(content).encode(), "")[0]


def kept(store: Store, content: bytes, repository: str = "ns/job/models") -> bool:
    try:
        path, _ = store.blob(repository, sha(content))
    except Refused:
        return False
    return path.exists()


def test_an_unreferenced_blob_goes_after_the_grace_and_a_referenced_one_never(
    store: Store, clock: Clock
) -> None:
    put(store, b"loose")
    tag(store, "v1", b"needed")
    clock.now += GRACE - 1
    assert store.collect().blobs == []
    clock.now += 2
    assert store.collect().blobs == [sha(b"loose")]
    assert not kept(store, b"loose") and kept(store, b"needed")
    clock.now += 100 * DAY
    assert store.collect().blobs == []
    assert kept(store, b"needed")


def test_a_deleted_manifest_gives_its_blobs_free_after_the_grace(
    store: Store, clock: Clock
) -> None:
    digest = tag(store, "v1", b"one", b"shared")
    tag(store, "v2", b"two", b"shared")
    clock.now += DAY
    store.delete_manifest("ns/job/models", digest)
    store.collect()
    assert kept(store, b"one")
    clock.now += GRACE + 1
    assert store.collect().blobs == [sha(b"one")]
    assert kept(store, b"shared") and kept(store, b"two")


def test_a_blob_of_two_repositories_goes_with_the_last(store: Store, clock: Clock) -> None:
    put(store, b"both", "a")
    assert store.mount("a", "b", sha(b"both"))
    refer(store, "v1", [put(store, b"{}", "b"), sha(b"both")], "b")
    clock.now += GRACE + 1
    store.collect()
    assert not kept(store, b"both", "a") and kept(store, b"both", "b")


def test_a_long_push_keeps_what_it_has_sent(store: Store, clock: Clock) -> None:
    put(store, b"{}")
    put(store, b"first")
    long = store.begin("ns/job/models")
    for _ in range(40):  # the second layer takes hours
        store.append(long, [b"x"])
        clock.now += GRACE / 8
        store.collect()
    store.finish("ns/job/models", long, sha(b"x" * 40))
    clock.now += GRACE - 1
    store.collect()
    refer(store, "v1", [sha(b"{}"), sha(b"first"), sha(b"x" * 40)])
    clock.now += 2 * GRACE
    assert store.collect().blobs == []


def test_who_was_told_that_a_blob_is_there_can_refer_to_it(store: Store, clock: Clock) -> None:
    put(store, b"{}")
    put(store, b"old")
    clock.now += GRACE - 1
    for content in (b"{}", b"old"):
        assert store.reserve_blob("ns/job/models", sha(content)) == len(content)
    clock.now += GRACE - 1
    store.collect()
    refer(store, "v1", [sha(b"{}"), sha(b"old")])


def test_deleting_in_a_busy_repository_frees_room(store: Store, clock: Clock) -> None:
    """Pushes that never cease must not keep what was deleted."""
    digest = tag(store, "round-1", b"big")
    store.delete_manifest("ns/job/models", digest)
    for number in range(10):
        clock.now += GRACE / 4
        busy = store.begin("ns/job/models")
        store.append(busy, [b"%d" % number])
        store.finish("ns/job/models", busy, sha(b"%d" % number))
    store.begin("ns/job/models")
    store.collect()
    assert not kept(store, b"big")


def test_updates_go_after_a_day_without_use(store: Store, clock: Clock) -> None:
    updates = "ns/job/updates"
    tag(store, "t1", b"unused", repository=updates)
    tag(store, "t2", b"pulled", repository=updates)
    tag(store, "t1", b"model")
    for _ in range(4):
        clock.now += DAY / 2
        store.manifest(updates, "t2")
        store.collect()
    assert store.tags(updates, after="", most=10) == ["t2"]
    clock.now += GRACE + 1
    store.collect()
    assert kept(store, b"pulled", updates) and kept(store, b"model")
    assert not kept(store, b"unused", updates)


def test_idle_uploads_and_orphans_go(store: Store, clock: Clock, tmp_path: Path) -> None:
    upload = store.begin("ns/job/models")
    store.append(upload, [b"x"])
    orphan = tmp_path / "blobs" / "ab" / ("ab" + "0" * 62)
    orphan.parent.mkdir()
    orphan.write_bytes(b"a process died before it could say so")
    os.utime(orphan, (clock.now - DAY, clock.now - DAY))
    clock.now += StoreSettings().upload_idle - 1
    store.collect()
    assert (tmp_path / "uploads" / upload).exists()
    assert not orphan.exists()
    clock.now += 2
    assert store.collect().uploads == [upload]
    assert not (tmp_path / "uploads" / upload).exists()
    with pytest.raises(Refused, match="begin it anew"):
        store.offset("ns/job/models", upload)


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        (StoreSettings(max_total=100), 507),
        (StoreSettings(reserve=1 << 60), 507),
        (StoreSettings(max_uploads=0), 429),
        (StoreSettings(max_blob=99), 413),
    ],
)
def test_what_has_no_room_is_refused(tmp_path: Path, settings: StoreSettings, status: int) -> None:
    with closing(Store(tmp_path, settings)) as store, pytest.raises(Refused) as refused:
        put(store, b"x" * 101)
    assert refused.value.status == status


def test_one_process_at_a_time(tmp_path: Path, store: Store) -> None:
    with pytest.raises(StoreInUse, match=f"process {os.getpid()}"):
        Store(tmp_path)


def test_an_upload_belongs_to_its_repository(store: Store) -> None:
    upload = store.begin("a")
    with pytest.raises(Refused):
        store.offset("b", upload)


@pytest.mark.parametrize(
    "spoil",
    [lambda path: path.write_bytes(b"changed"), lambda path: path.write_bytes(b"")],
    ids=["changed", "cut"],
)
def test_a_spoiled_upload_is_found_out(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    """After a restart the digest is that of the file, whatever was written before."""
    with closing(Store(tmp_path)) as store:
        upload = store.begin("a")
        store.append(upload, [b"content"])
    spoil(tmp_path / "uploads" / upload)
    with closing(Store(tmp_path)) as store, pytest.raises(Refused, match="and not"):
        store.finish("a", upload, sha(b"content"))
