"""The store: durability, revisions, history, watches; the disk is real, the limits are small."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from corral.cluster.apiserver.store import (
    ADDED,
    DELETED,
    MODIFIED,
    Compacted,
    Entry,
    Event,
    Limits,
    Stale,
    Store,
    StoreError,
    Watch,
)
from corral.cluster.apiserver.store.watches import WAKES
from corral.kube.types import Obj
from tests.support.matrix import seeds

TABLE = "/things"
Opener = Callable[..., Awaitable[Store]]


@pytest.fixture
async def open_store(tmp_path: Path) -> AsyncIterator[Opener]:
    """Opens stores on the test's folder and closes them at the end."""
    opened: list[Store] = []

    async def opener(path: Path = tmp_path, **options: object) -> Store:
        store = Store(path, **options)  # type: ignore[arg-type]
        store.open()
        opened.append(store)
        return store

    yield opener
    for store in opened:
        if not _closed(store):
            await store.close()


def _closed(store: Store) -> bool:
    try:
        store._log.db.total_changes  # noqa: B018 -- raises on a closed connection
    except sqlite3.ProgrammingError:
        return True
    return False


@pytest.fixture
async def store(open_store: Opener) -> Store:
    return await open_store()


def thing(name: str, value: object = 0, **meta: object) -> Obj:
    return {"metadata": {"name": name, "uid": f"uid-{name}", **meta}, "value": value}


async def put(store: Store, key: str, value: object = 0, **meta: object) -> Entry:
    """Create or replace; durable on return."""
    name = key.rpartition("/")[2]
    return await store.write(TABLE, key, thing(name, value, **meta), expect=store.head(TABLE, key))


async def remove(store: Store, key: str) -> Entry:
    entry = store.head(TABLE, key)
    assert entry is not None
    return await store.write(TABLE, key, entry.decode(), expect=entry, delete=True)


def rows(path: Path) -> list[tuple[int, str, int]]:
    """What is really in the database: revision, key, deleted. The store has it for itself."""
    with TemporaryDirectory() as folder:
        for name in ("corral.db", "corral.db-wal"):
            if (path / name).exists():
                shutil.copy(path / name, folder)
        db = sqlite3.connect(Path(folder) / "corral.db")
        try:
            return db.execute("SELECT rv, key, deleted FROM log ORDER BY rv").fetchall()
        finally:
            db.close()


def told(events: list[Event]) -> list[tuple[str, int]]:
    return [(e.type, e.rv) for e in events]


# -- writing ----------------------------------------------------------------------------------


async def test_write_stamps_the_revision_and_stores_bytes(store: Store) -> None:
    obj = thing("a", labels={"x": "1"}, namespace="ns", ownerReferences=[{"uid": "o1"}])
    entry = await store.write(TABLE, "ns/a", obj, expect=None)
    assert obj["metadata"]["resourceVersion"] == "1"
    assert entry.decode() == obj and entry.decode() is not obj
    assert (entry.name, entry.namespace, entry.uid) == ("a", "ns", "uid-a")
    assert (entry.labels, entry.owners, entry.deleting) == ({"x": "1"}, ("o1",), False)
    assert (entry.rv, entry.create_rv, store.revision) == (1, 1, 1)
    assert store.get(TABLE, "ns/a") is entry


async def test_create_revision_stays_over_updates_and_not_over_a_new_life(store: Store) -> None:
    await put(store, "a")
    assert (await put(store, "a", 1)).create_rv == 1
    await remove(store, "a")
    assert (await put(store, "a", 2)).create_rv == 4


@pytest.mark.parametrize("case", ["create over one", "update of an old one", "update of none"])
async def test_stale_expectations_are_refused_at_once(store: Store, case: str) -> None:
    first = await put(store, "a")
    await put(store, "a", 1)
    key, expect = {
        "create over one": ("a", None),
        "update of an old one": ("a", first),
        "update of none": ("b", first),
    }[case]
    with pytest.raises(Stale):
        store.write(TABLE, key, thing(key), expect=expect)
    assert store.revision == 2 and (await put(store, "a", 2)).rv == 3


async def test_one_of_many_writers_on_the_same_version_wins(store: Store) -> None:
    first = await put(store, "a")
    outcomes = []
    for n in range(5):
        try:
            outcomes.append(store.write(TABLE, "a", thing("a", n), expect=first))
        except Stale:
            outcomes.append(None)
    assert [o is not None for o in outcomes] == [True, False, False, False, False]
    assert outcomes[0] is not None
    assert (await outcomes[0]).decode()["value"] == 0


async def test_head_is_ahead_of_what_readers_see(store: Store) -> None:
    done = store.write(TABLE, "a", thing("a", 1), expect=None)
    head = store.head(TABLE, "a")
    assert head is not None and head.decode()["value"] == 1
    assert store.get(TABLE, "a") is None and store.count(TABLE) == 0 and store.revision == 0
    assert store.pending(TABLE) == [head] and store.pending("/others") == []
    then = store.write(TABLE, "a", thing("a", 2), expect=head)
    gone = store.write(TABLE, "a", thing("a", 2), expect=store.head(TABLE, "a"), delete=True)
    assert store.head(TABLE, "a") is None and store.pending(TABLE) == []
    again = store.write(TABLE, "a", thing("a", 3), expect=None)
    assert [(await f).rv for f in (done, then, gone, again)] == [1, 2, 3, 4]
    assert store.head(TABLE, "a") is store.get(TABLE, "a")
    assert store.pending(TABLE) == []


async def test_writes_during_a_commit_share_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    commit = store._commit

    def counted(batch: list[object], garbage: list[int]) -> None:
        batches.append(len(batch))
        commit(batch, garbage)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "_commit", counted)
    first = store.write(TABLE, "first", thing("first"), expect=None)
    await asyncio.sleep(0)  # the commit of the first one has begun
    rest = [store.write(TABLE, f"k{n}", thing(f"k{n}"), expect=None) for n in range(20)]
    await asyncio.gather(first, *rest)
    assert batches == [1, 20]


async def test_events_come_in_order_of_revisions_and_before_the_answer(store: Store) -> None:
    seen: list[int] = []
    store.listen(lambda event: seen.append(event.rv))
    futures = [store.write(TABLE, f"k{n}", thing(f"k{n}"), expect=None) for n in range(10)]
    for n, future in enumerate(futures):
        await future
        assert len(seen) > n
    assert seen == list(range(1, 11))


async def test_a_failing_listener_does_not_stop_the_others(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []

    def broken(event: Event) -> None:
        raise ValueError("cannot cope")

    store.listen(broken)
    store.listen(lambda event: seen.append(event.rv))
    entries = await asyncio.gather(put(store, "a"), put(store, "b"))
    assert [e.rv for e in entries] == seen == [1, 2]
    assert "cannot cope" in caplog.text


async def test_waiting_for_a_revision(store: Store) -> None:
    await put(store, "a")
    await store.reached(1)
    waiting = asyncio.create_task(store.reached(3))
    await put(store, "b")
    assert not waiting.done()
    await put(store, "c")
    await asyncio.wait_for(waiting, 5)


# -- failing ------------------------------------------------------------------------------------


async def test_a_failed_commit_fails_what_was_built_on_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = await put(store, "a", "kept")
    commit, calls = store._commit, []

    def full(batch: object, garbage: list[int]) -> None:
        calls.append(batch)
        if len(calls) == 1:
            raise sqlite3.OperationalError("database or disk is full")
        commit(batch, garbage)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "_commit", full)
    watch = store.watch(TABLE, store.revision)
    first = store.write(TABLE, "a", thing("a", "lost"), expect=kept)
    await asyncio.sleep(0)
    second = store.write(TABLE, "a", thing("a", "too"), expect=store.head(TABLE, "a"))
    beside = store.write(TABLE, "b", thing("b"), expect=None)
    for future in (first, second):
        with pytest.raises(StoreError, match="could not be stored: database or disk is full"):
            await future
    assert store.get(TABLE, "a") is store.head(TABLE, "a") is kept
    stored = await beside  # not built on what was lost
    assert store.get(TABLE, "b") is stored
    later = await put(store, "a", "again")
    assert told(watch.drain()) == [(ADDED, stored.rv), (MODIFIED, later.rv)]


async def test_a_full_database_keeps_reads_and_recovers(open_store: Opener) -> None:
    store = await open_store()
    await put(store, "a", "x" * 1000)
    pages = store._log.db.execute("PRAGMA page_count").fetchone()[0]
    store._log.db.execute(f"PRAGMA max_page_count={pages + 2}")
    stored = ["a"]
    with pytest.raises(StoreError, match="full"):
        for n in range(50):
            await put(store, f"k{n}", "x" * 3000)
            stored.append(f"k{n}")
    assert [e.key for e in store.scan(TABLE)] == sorted(stored)
    store._log.db.execute("PRAGMA max_page_count=1000000")
    await put(store, "later")
    await store.close()
    reopened = await open_store()
    assert [e.key for e in reopened.scan(TABLE)] == sorted([*stored, "later"])


# -- reopening ----------------------------------------------------------------------------------


async def test_reopened_store_is_the_same(open_store: Opener) -> None:
    store = await open_store()
    await put(store, "ns/b", 1, labels={"l": "1"})
    await put(store, "ns/a", 2)
    await put(store, "ns/a", 3)
    await put(store, "ns/c")
    await remove(store, "ns/c")
    before = [(e.key, e.value, e.rv, e.create_rv, e.labels) for e in store.scan(TABLE)]
    await store.close()
    again = await open_store()
    assert [(e.key, e.value, e.rv, e.create_rv, e.labels) for e in again.scan(TABLE)] == before
    assert again.revision == 5 and (await put(again, "ns/d")).rv == 6
    events = again.watch(TABLE, 0).drain()
    assert told(events) == [
        (ADDED, 1), (ADDED, 2), (MODIFIED, 3), (ADDED, 4), (DELETED, 5), (ADDED, 6),
    ]  # fmt: skip
    previous = [e.prev.rv if e.prev else None for e in events]
    assert previous == [None, None, 2, None, 4, None]


async def test_revision_does_not_go_back_when_the_newest_row_was_a_deletion(
    open_store: Opener,
) -> None:
    limits = Limits(min_events=0, max_events=1)
    store = await open_store(limits=limits)
    await put(store, "a")
    await remove(store, "a")
    await put(store, "b")
    await remove(store, "b")
    await store.close()
    again = await open_store(limits=limits)
    assert again.revision == 4 and (await put(again, "c")).rv == 5


async def test_folder_in_use_is_refused_and_free_after_close(
    open_store: Opener, tmp_path: Path
) -> None:
    store = await open_store()
    with pytest.raises(StoreError, match="in use by another server"):
        Store(tmp_path).open()
    await store.close()
    await open_store()


async def test_damaged_folder_is_refused_and_released(open_store: Opener, tmp_path: Path) -> None:
    store = await open_store()
    await put(store, "a")
    await store.close()
    with sqlite3.connect(tmp_path / "corral.db") as db:
        db.execute("UPDATE log SET value = ?", (b'{"metadata": {"na',))
    db.close()
    for _ in range(2):  # the second time the folder must not be "in use"
        with pytest.raises(StoreError, match="cannot read the database"):
            Store(tmp_path).open()


async def test_a_new_store_can_have_a_past_nobody_knows(open_store: Opener) -> None:
    """Clients that ask from version 1 on hear that it is gone, as on any cluster."""
    store = await open_store(first=101)
    assert store.revision == 100
    assert (await put(store, "a")).rv == 101
    assert told(store.watch(TABLE, 100).drain()) == [(ADDED, 101)]
    with pytest.raises(Compacted):
        store.watch(TABLE, 1)
    await store.close()
    again = await open_store(first=101)
    assert told(again.watch(TABLE, 100).drain()) == [(ADDED, 101)]
    assert (await put(again, "b")).rv == 102


async def test_folder_is_private(open_store: Opener, tmp_path: Path) -> None:
    await open_store(tmp_path / "deep" / "db")
    assert (tmp_path / "deep" / "db").stat().st_mode & 0o777 == 0o700


# -- scanning -----------------------------------------------------------------------------------


async def test_scan_is_ordered_and_bounded(store: Store) -> None:
    for key in ("b/2", "a/1", "b/1", "c/1", "b/10", "ba/1"):
        await put(store, key)

    def scan(prefix: str = "", after: str = "") -> list[str]:
        return [e.key for e in store.scan(TABLE, prefix, after)]

    assert scan() == ["a/1", "b/1", "b/10", "b/2", "ba/1", "c/1"]
    assert scan("b/") == ["b/1", "b/10", "b/2"]
    assert scan("b/", "b/1") == ["b/10", "b/2"]
    assert scan("b/", "b/15") == ["b/2"]
    assert scan("", "b/2") == ["ba/1", "c/1"]
    assert scan("x/") == [] and list(store.scan("/nothing")) == []


async def test_scan_of_the_past(store: Store) -> None:
    await put(store, "a", 1)
    await put(store, "b", 1)
    await put(store, "a", 2)
    await remove(store, "b")
    await put(store, "b", 3)
    past = {rv: {e.key: e.decode()["value"] for e in store.scan_at(TABLE, rv)} for rv in range(6)}
    assert past == {
        0: {}, 1: {"a": 1}, 2: {"a": 1, "b": 1}, 3: {"a": 2, "b": 1}, 4: {"a": 2},
        5: {"a": 2, "b": 3},
    }  # fmt: skip
    assert [e.key for e in store.scan_at(TABLE, 3, "b")] == ["b"]


# -- history ------------------------------------------------------------------------------------


async def test_history_is_trimmed_by_count(open_store: Opener, tmp_path: Path) -> None:
    store = await open_store(limits=Limits(min_events=0, max_events=3))
    for n in range(6):
        await put(store, "a", n)
    with pytest.raises(Compacted) as caught:
        store.watch(TABLE, 2)
    assert (caught.value.asked, caught.value.oldest) == (2, 3)
    assert told(store.watch(TABLE, 3).drain()) == [(MODIFIED, 4), (MODIFIED, 5), (MODIFIED, 6)]
    with pytest.raises(Compacted):
        store.scan_at(TABLE, 2)
    assert [e.rv for e in store.scan_at(TABLE, 3)] == [3]


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        (Limits(min_events=0, max_bytes=25_000), 2),
        (Limits(min_events=4, max_bytes=25_000), 4),
        (Limits(min_events=4, max_bytes=25_000, most_bytes=35_000), 3),
        (Limits(min_events=4, max_bytes=10, most_bytes=10), 1),
    ],
    ids=["by bytes", "not below the least", "unless too large", "the newest stays"],
)
async def test_history_is_trimmed_by_size(open_store: Opener, limits: Limits, left: int) -> None:
    store = await open_store(limits=limits)
    for _ in range(8):
        await put(store, "a", "x" * 10_000)
    assert len(store.watch(TABLE, 8 - left).drain()) == left
    with pytest.raises(Compacted):
        store.watch(TABLE, 8 - left - 1)


async def test_trimming_one_resource_leaves_the_history_of_others(open_store: Opener) -> None:
    store = await open_store(limits=Limits(min_events=0, max_events=4))
    await store.write("/others", "o", thing("o"), expect=None)
    for n in range(4):
        await put(store, "a", n)
    with pytest.raises(Compacted):
        store.watch("/others", 0)
    assert store.watch("/others", 1).drain() == []
    assert len(store.watch(TABLE, 1).drain()) == 4


async def test_forgotten_rows_leave_the_database(open_store: Opener, tmp_path: Path) -> None:
    limits = Limits(min_events=0, max_events=2)
    store = await open_store(limits=limits)
    await put(store, "gone")
    await remove(store, "gone")
    for n in range(10):
        await put(store, "kept", n)
    await put(store, "other")  # carries the last garbage away
    assert rows(tmp_path) == [(10, "kept", 0), (11, "kept", 0), (12, "kept", 0), (13, "other", 0)]
    await store.close()
    again = await open_store(limits=limits)
    assert [(e.key, e.rv) for e in again.scan(TABLE)] == [("kept", 12), ("other", 13)]
    with pytest.raises(Compacted):
        again.watch(TABLE, 5)


async def test_history_survives_as_far_as_it_is_kept(open_store: Opener) -> None:
    limits = Limits(min_events=0, max_events=5)
    store = await open_store(limits=limits)
    for n in range(12):
        await put(store, f"k{n % 3}", n)
    await store.close()
    again = await open_store(limits=limits)
    events = again.watch(TABLE, 7).drain()
    assert told(events) == [(MODIFIED, rv) for rv in range(8, 13)]
    assert [e.prev.rv for e in events if e.prev] == [rv - 3 for rv in range(8, 13)]
    with pytest.raises(Compacted):
        again.watch(TABLE, 6)


# -- watching -----------------------------------------------------------------------------------


async def test_watch_replays_then_follows(store: Store) -> None:
    await put(store, "a")
    await put(store, "b")
    watch = store.watch(TABLE, 1)
    await asyncio.wait_for(watch.wait(), 5)
    assert told(watch.drain()) == [(ADDED, 2)] and watch.idle
    waiting = asyncio.create_task(watch.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    await remove(store, "a")
    await asyncio.wait_for(waiting, 5)
    (event,) = watch.drain()
    assert (event.type, event.rv) == (DELETED, 3) and event.prev is not None
    await store.write("/others", "o", thing("o"), expect=None)
    assert watch.idle
    store.unwatch(TABLE, watch)
    await put(store, "c")
    assert watch.idle


async def test_slow_watch_is_dropped_not_thinned_out(open_store: Opener) -> None:
    store = await open_store(watch_limit=3)
    watch = store.watch(TABLE, 0)
    for n in range(5):
        await put(store, "a", n)
    assert watch.overrun
    assert [rv for _, rv in told(watch.drain())] == [1, 2, 3]
    await asyncio.wait_for(watch.wait(), 5)  # an ended watch never blocks its reader
    assert told(store.watch(TABLE, 3).drain()) == [(MODIFIED, 4), (MODIFIED, 5)]


async def test_replay_does_not_count_against_the_reader(open_store: Opener) -> None:
    store = await open_store(watch_limit=3)
    for n in range(6):
        await put(store, "a", n)
    watch = store.watch(TABLE, 0)
    await put(store, "a", 6)
    assert not watch.overrun and len(watch.drain()) == 7


async def test_waiting_events_keep_what_they_changed_when_history_forgets(
    open_store: Opener,
) -> None:
    """A selector must still see that an object left it, however late the reader is."""
    store = await open_store(limits=Limits(min_events=0, max_events=1))
    await put(store, "a", labels={"in": "yes"})
    watch = store.watch(TABLE, 1)
    await put(store, "a", labels={"in": "no"})
    for n in range(3):
        await put(store, "b", n)
    first = watch.drain()[0]
    assert first.prev is not None and first.prev.labels == {"in": "yes"}


async def test_readers_are_woken_a_few_in_one_turn_of_the_event_loop(open_store: Opener) -> None:
    store = await open_store()
    awake: list[str] = []

    async def read(flow: str) -> None:
        watch = store.watch(TABLE, 0, flow=flow)
        await watch.wait()
        assert len(watch.drain()) == 3
        awake.append(flow)

    readers = [asyncio.create_task(read("loud")) for _ in range(40)]
    readers.append(asyncio.create_task(read("quiet")))
    await asyncio.sleep(0)
    counts: list[int] = []
    writes = [store.write(TABLE, name, thing(name), expect=None) for name in "abc"]
    await asyncio.gather(*writes)  # one commit
    while len(awake) < 41:
        counts.append(len(awake))
        await asyncio.sleep(0)
    assert max(after - before for before, after in pairwise(counts)) == WAKES
    assert awake.index("quiet") < 2 * WAKES
    await asyncio.gather(*readers)


async def test_a_namespace_has_its_own_events_only(open_store: Opener) -> None:
    store = await open_store()
    await put(store, "before")
    every, mine = store.watch(TABLE, 0), store.watch(TABLE, 0, namespace="mine")
    for name, namespace in (("a", "mine"), ("b", "other"), ("c", "")):
        obj = thing(name)
        obj["metadata"]["namespace"] = namespace
        await store.write(TABLE, f"{namespace}/{name}", obj, expect=None)
    assert len(every.drain()) == 4
    assert [event.entry.name for event in mine.drain()] == ["a"]
    replayed = store.watch(TABLE, 0, namespace="other").drain()
    assert [event.entry.name for event in replayed] == ["b"]


@pytest.mark.parametrize("how", ["end_watches", "close"])
async def test_watches_end(open_store: Opener, how: str) -> None:
    store = await open_store()
    watch = store.watch(TABLE, 0)
    if how == "close":
        await store.close()
    else:
        store.end_watches(TABLE)
    await asyncio.wait_for(watch.wait(), 5)
    assert watch.overrun


# -- against a model ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(6, always=2))
async def test_store_agrees_with_a_model(open_store: Opener, seed: int) -> None:
    """Random writes in random groups, restarts between: states, history and watches agree."""
    rng = random.Random(seed)
    limits = Limits(min_events=rng.choice((0, 20)), max_events=rng.choice((15, 60, 10_000)))
    store = await open_store(limits=limits)
    log: list[tuple[str, str, Obj]] = []  # (type, key, object) of revision n + 1
    watch, watched = store.watch(TABLE, 0), 0
    for _ in range(12):
        for _ in range(rng.randrange(1, 6)):
            await asyncio.gather(*_burst(store, rng, log))
        watched = _check_watch(watch, watched, log)
        _check(store, rng, log)
        if rng.random() < 0.3:
            await store.close()
            store = await open_store(limits=limits)
            watch = store.watch(TABLE, watched)
            _check(store, rng, log)


def _burst(
    store: Store, rng: random.Random, log: list[tuple[str, str, Obj]]
) -> list[asyncio.Future[Entry]]:
    futures = []
    for _ in range(rng.randrange(1, 8)):
        key = f"{rng.choice('ab')}/{rng.randrange(6)}"
        head = store.head(TABLE, key)
        delete = head is not None and rng.random() < 0.3
        obj = head.decode() if head and delete else thing(key, rng.randrange(1000))
        type_ = DELETED if delete else MODIFIED if head else ADDED
        futures.append(store.write(TABLE, key, obj, expect=head, delete=delete))
        log.append((type_, key, obj))
    return futures


def _model(log: list[tuple[str, str, Obj]], revision: int) -> dict[str, Obj]:
    state: dict[str, Obj] = {}
    for type_, key, obj in log[:revision]:
        if type_ == DELETED:
            del state[key]
        else:
            state[key] = obj
    return dict(sorted(state.items()))


def _check(store: Store, rng: random.Random, log: list[tuple[str, str, Obj]]) -> None:
    assert store.revision == len(log)
    now = _model(log, len(log))
    assert {e.key: e.decode() for e in store.scan(TABLE)} == now
    assert list(now) == [e.key for e in store.scan(TABLE)]
    assert [e.key for e in store.scan(TABLE, "b/")] == [k for k in now if k.startswith("b/")]
    for revision in rng.sample(range(len(log) + 1), min(6, len(log))):
        try:
            past = store.scan_at(TABLE, revision)
        except Compacted as err:
            assert err.oldest > revision and len(log) - revision > 15
            continue
        assert {e.key: e.decode() for e in past} == _model(log, revision)


def _check_watch(watch: Watch, since: int, log: list[tuple[str, str, Obj]]) -> int:
    events = watch.drain()
    assert [(e.type, e.entry.key, e.entry.decode()) for e in events] == log[since:]
    return len(log)


async def test_past_states_are_listed_for_some_minutes(open_store: Opener) -> None:
    now = 0.0
    store = await open_store(limits=Limits(past_seconds=300), clock=lambda: now)
    first = await store.write(TABLE, "a", {"metadata": {"name": "a"}}, expect=None)
    now = 1000.0
    second = await store.write(TABLE, "b", {"metadata": {"name": "b"}}, expect=None)
    now = 1299.0
    assert [e.key for e in store.scan_at(TABLE, first.rv)] == ["a"]
    now = 1300.0
    with pytest.raises(Compacted):
        store.scan_at(TABLE, first.rv)
    assert [e.key for e in store.scan_at(TABLE, second.rv)] == ["a", "b"]
    watch = store.watch(TABLE, first.rv)
    assert [e.rv for e in watch.drain()] == [second.rv]


async def test_selectable_fields_are_those_of_the_asking_version(store: Store) -> None:
    entry = await store.write(TABLE, "a", {"metadata": {"name": "a"}, "x": "1"}, expect=None)
    assert entry.fields(lambda obj: {"old": obj["x"]}) == {"old": "1"}
    assert entry.fields(lambda obj: {"new": obj["x"]}) == {"new": "1"}
