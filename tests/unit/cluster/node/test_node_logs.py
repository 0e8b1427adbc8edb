from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from corral.cluster.node.container.logs import (
    Cursor,
    LogOptions,
    follow,
    read,
    remove,
    since_seconds,
    since_time,
    tail_text,
)  # fmt: skip
from corral.cluster.node.shim.journal import Journal
from tests.support.matrix import seeds

ENTRIES = (
    "2026-01-02T03:04:05.000000001Z stdout F one\n"
    "2026-01-02T03:04:06.000000000Z stderr F two\r\n"
    "2026-01-02T03:04:07.000000000Z stdout P thr\n"
    "2026-01-02T03:04:07.000000000Z stdout F ee\n"
    "2026-01-02T03:04:08.500000000Z stdout P four\n"
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    path.write_text(ENTRIES)
    return path


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        pytest.param(LogOptions(), b"one\ntwo\r\nthree\nfour", id="all"),
        pytest.param(LogOptions(tail_lines=0), b"", id="tail none"),
        pytest.param(LogOptions(tail_lines=1), b"four", id="tail"),
        pytest.param(LogOptions(tail_lines=99), b"one\ntwo\r\nthree\nfour", id="tail more"),
        pytest.param(LogOptions(limit_bytes=5), b"one\nt", id="limit"),
        pytest.param(LogOptions(stream="stderr"), b"two\r\n", id="one stream"),
        pytest.param(
            LogOptions(since=since_time("2026-01-02T04:04:07+01:00")), b"three\nfour", id="since"
        ),
        pytest.param(
            LogOptions(timestamps=True, since=since_time("2026-01-02T03:04:07Z")),
            b"2026-01-02T03:04:07.000000000Z three\n2026-01-02T03:04:08.500000000Z four",
            id="timestamps only where a line begins",
        ),
    ],
)
def test_read(log: Path, options: LogOptions, shown: bytes) -> None:
    assert b"".join(read(log, options)) == shown


def test_since_seconds() -> None:
    now = datetime(2026, 1, 2, 3, 4, 10, 500_000, tzinfo=UTC)
    assert since_seconds(5, now=now) == "2026-01-02T03:04:05.500000000Z"


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read(tmp_path / "none", LogOptions()))
    assert tail_text(tmp_path / "none", lines=80, limit=2048) == ""


def test_tail_text(log: Path) -> None:
    assert tail_text(log, lines=2, limit=2048) == "ee\nfour"
    assert tail_text(log, lines=80, limit=3) == "our"


def rotated(tmp_path: Path, count: int) -> Path:
    path = tmp_path / "logs" / "0.log"
    journal = Journal(str(path), max_bytes=20_000, max_files=5)
    for number in range(count):
        journal.write("stdout", f"{number:05d}\n".encode())
    journal.close()
    return path


@pytest.mark.parametrize("tail", [1, 7, 500, 900, 1500])
def test_tail_over_rotated_files(tmp_path: Path, tail: int) -> None:
    path = rotated(tmp_path, 1500)
    shown = b"".join(read(path, LogOptions(tail_lines=tail))).split()
    assert shown == [f"{number:05d}".encode() for number in range(1500 - tail, 1500)]


def test_remove(tmp_path: Path) -> None:
    path = rotated(tmp_path, 3000)
    assert len(list(path.parent.iterdir())) == 5
    remove(path)
    assert list(path.parent.iterdir()) == []


async def test_follow_through_rotations(tmp_path: Path) -> None:
    """Everything once and in order, however often the file is rotated while it is read."""
    path = tmp_path / "0.log"
    journal = Journal(str(path), max_bytes=2_000, max_files=5)
    journal.write("stdout", b"0\n")
    count = 1

    async def sleep(seconds: float) -> None:
        nonlocal count
        for _ in range(100):
            journal.write("stdout", b"%d\n" % count)
            count += 1

    shown = [
        piece
        async for piece in follow(
            path, LogOptions(follow=True), ended=lambda: count > 2000, sleep=sleep
        )
    ]
    journal.close()
    assert b"".join(shown).split() == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("turn", seeds(20, always=5))
async def test_follow_while_files_are_renamed(tmp_path: Path, turn: int) -> None:
    """A rotation in the middle of a look costs nothing that is still there."""
    path = tmp_path / "0.log"
    journal = Journal(str(path), max_bytes=2_000, max_files=20)
    journal.write("stdout", b"0\n")

    def write() -> None:
        for number in range(1, 600):
            journal.write("stdout", b"%d\n" % number)

    writing = asyncio.create_task(asyncio.to_thread(write))
    options = LogOptions(follow=True)
    shown = [
        piece
        async for piece in follow(
            path, options, ended=writing.done, sleep=lambda _: asyncio.sleep(0)
        )
    ]
    await writing
    journal.close()
    assert b"".join(shown).split() == [b"%d" % number for number in range(600)]


async def test_follow_waits_for_whole_entries(log: Path) -> None:
    turns = iter(["2026-01-02T03:04:09.000000000Z stdout F fi", "ve\n", ""])
    ended = False

    async def sleep(seconds: float) -> None:
        nonlocal ended
        piece = next(turns)
        ended = not piece
        with log.open("a") as file:
            file.write(piece)

    options = LogOptions(follow=True, tail_lines=1)
    shown = [piece async for piece in follow(log, options, ended=lambda: ended, sleep=sleep)]
    assert shown == [b"four", b"five\n"]


async def test_follow_stops_at_the_limit(log: Path) -> None:
    options = LogOptions(follow=True, limit_bytes=4)
    assert [p async for p in follow(log, options, ended=lambda: False)] == [b"one\n"]


def test_cursor_closes(log: Path) -> None:
    cursor = Cursor(log)
    cursor.close()
    assert cursor._files == []
