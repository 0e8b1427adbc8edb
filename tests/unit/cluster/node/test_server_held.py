"""A log that is rotated faster than it is read: its followers lose nothing."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from corral.cluster.node.container import logs
from corral.cluster.node.container.logs import Cursor, LogOptions
from corral.cluster.node.server import changes as changes_module
from corral.cluster.node.server import held
from corral.cluster.node.server.changes import Changes
from corral.cluster.node.server.held import HeldFiles
from corral.cluster.node.shim.journal import Journal


class Rotating:
    """A journal of small files, of which three are kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._journal = Journal(str(path), max_bytes=400, max_files=3)
        self.count = 0

    def write(self, lines: int) -> None:
        for _ in range(lines):
            self._journal.write("stdout", b"%d\n" % self.count)
            self.count += 1

    def close(self) -> None:
        self._journal.close()


@pytest.fixture
def rotating(tmp_path: Path) -> Rotating:
    return Rotating(tmp_path / "logs" / "0.log")


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_files_stay_while_they_are_held(rotating: Rotating) -> None:
    files = HeldFiles(rotating.path)
    for _ in range(30):
        rotating.write(9)
        files.note()
    rotating.close()
    assert len(logs.files_of(rotating.path)) == 3 < len(files)
    cursor = Cursor(rotating.path, opened=files.opened)
    entries = [entry for block in cursor.available() for entry in block]
    cursor.close()
    files.close()
    assert [entry.rpartition(b" ")[2] for entry in entries] == numbers(rotating.count)


def test_there_is_a_limit(rotating: Rotating, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "MAX_HELD", 5)
    files = HeldFiles(rotating.path)
    for _ in range(30):
        rotating.write(9)
        files.note()
    assert len(files) == 5
    files.close()
    rotating.close()
    assert len(files) == 0


async def test_a_slow_follower_is_not_outrun(rotating: Rotating) -> None:
    """It stands still while the log is rotated many times, leaves, and another one comes."""
    changes = Changes()
    rotating.write(1)
    with changes.following(rotating.path) as log:
        options = LogOptions(follow=True)
        found = logs.follow(
            rotating.path, options, ended=lambda: True, sleep=log.sleep, opened=log.opened
        )
        async with aclosing(found), asyncio.timeout(60):
            assert await anext(found) == b"0\n"
            for _ in range(40):
                rotating.write(5)  # not so many that two rotations pass for one
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            rest = b"".join([piece async for piece in found])
    assert rest.split() == numbers(rotating.count)[1:]
    with changes.following(rotating.path) as log:
        found = logs.follow(
            rotating.path, LogOptions(), ended=lambda: True, sleep=log.sleep, opened=log.opened
        )
        async with aclosing(found):
            assert b"".join([piece async for piece in found]).split() == numbers(rotating.count)
    rotating.close()
    changes.close()
    assert changes._holdings == {}


async def test_files_are_given_up_after_a_while(
    rotating: Rotating, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_module, "GRACE", 0.01)
    changes = Changes()
    rotating.write(1)
    with changes.following(rotating.path):
        assert len(changes._holdings) == 1
    async with asyncio.timeout(60):
        while changes._holdings:  # noqa: ASYNC110 - a timer of the loop, which nobody tells of
            await asyncio.sleep(0.01)
    with changes.following(rotating.path, once=True):
        assert changes._holdings == {}  # who reads once keeps nothing
    rotating.close()
    changes.close()
