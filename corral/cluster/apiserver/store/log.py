"""The log on disk: SQLite, one row a write, one fsync a batch."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from corral.cluster.apiserver.store.entries import DELETED, Event
from corral.cluster.apiserver.store.failures import StoreError


class Row(NamedTuple):
    """One write."""

    rv: int
    resource: str
    key: str
    deleted: int
    create_rv: int
    value: bytes


class Log:
    """The database of one data folder, which it locks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._undo = ExitStack()
        self.db: sqlite3.Connection

    def open(self) -> None:
        """Take the folder. Raises StoreError with what to do about it."""
        try:
            self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self._path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as err:
            raise StoreError(f"cannot use the data folder {self._path}: {err.strerror}") from err
        self._undo.callback(os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            self.close()
            raise StoreError(
                f"the data folder {self._path} is in use by another server; "
                "stop that one or choose another --data-dir"
            ) from err
        try:
            self._open_database()
        except sqlite3.Error as err:
            self.close()
            raise self.unreadable(err) from err

    def unreadable(self, err: Exception) -> StoreError:
        return StoreError(f"cannot read the database in {self._path}: {err}")

    def _open_database(self) -> None:
        self.db = sqlite3.connect(
            self._path / "corral.db", isolation_level=None, check_same_thread=False
        )
        self._undo.callback(self.db.close)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.execute("PRAGMA wal_autocheckpoint=4000")
        self.db.execute(
            "CREATE TABLE IF NOT EXISTS log (rv INTEGER PRIMARY KEY, resource TEXT NOT NULL, "
            "key TEXT NOT NULL, deleted INTEGER NOT NULL, create_rv INTEGER NOT NULL, "
            "value BLOB NOT NULL)"
        )
        self.db.execute("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER)")

    def close(self) -> None:
        self._undo.close()

    def meta(self) -> dict[str, int]:
        return dict(self.db.execute("SELECT key, value FROM meta"))

    def rows(self) -> Iterator[Row]:
        """Every write that is kept, oldest first."""
        found = self.db.execute(
            "SELECT rv, resource, key, deleted, create_rv, value FROM log ORDER BY rv"
        )
        return map(Row._make, found)

    def commit(self, events: Iterable[Event], garbage: list[int], meta: dict[str, int]) -> None:
        """Add events, forget revisions, note ``meta`` with them: all or nothing, durable."""
        db = self.db
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", map(_row, events))
            if garbage:
                db.executemany("DELETE FROM log WHERE rv = ?", [(rv,) for rv in garbage])
                db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())
            db.execute("COMMIT")
        except sqlite3.Error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def _row(event: Event) -> Row:
    entry = event.entry
    deleted = int(event.type == DELETED)
    return Row(entry.rv, entry.resource, entry.key, deleted, entry.create_rv, entry.value)
