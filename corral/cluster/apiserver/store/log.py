"""The log on disk: SQLite, one row a write, one fsync a batch."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

from corral.cluster.apiserver.store.entries import DELETED, Event
from corral.cluster.apiserver.store.failures import DiskFull, StoreError
from corral.files.private import NotPrivate, private_folder


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

    def __init__(self, path: Path, *, witness: Path | None = None) -> None:
        """``witness`` is a file that there is only where the database has been in use."""
        self._path, self._witness = path, witness
        self._undo = ExitStack()
        self.db: sqlite3.Connection

    def open(self) -> None:
        """Take the folder. Raises StoreError with what to do about it."""
        try:
            private_folder(self._path)
            lock = os.open(self._path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except NotPrivate as err:
            raise StoreError(f"cannot use the data folder: {err}") from err
        except OSError as err:
            raise StoreError(f"cannot use the data folder {self._path}: {err.strerror}") from err
        self._lock = lock
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
            self._refuse_loss()
            self._open_database()
            self._note_use()
        except sqlite3.Error as err:
            self.close()
            raise self.unreadable(err) from err
        except StoreError:
            self.close()
            raise

    def _refuse_loss(self) -> None:
        """A database that was in use and has lost everything must not become an empty cluster."""
        used = os.fstat(self._lock).st_size > 0 or (self._witness and self._witness.exists())
        file = self._path / "corral.db"
        if used and (not file.exists() or file.stat().st_size == 0):
            what = "is empty" if file.exists() else "is missing"
            raise StoreError(
                f"the database {file} {what}, though a cluster was kept in it: bring it back from "
                f"a backup (corral.db and corral.db-wal), or begin anew with another --data-dir; "
                f"to begin anew here, move {self._path.parent} away"
            )

    def _note_use(self) -> None:
        """The database is made: from now on it is a loss when it is empty."""
        if os.fstat(self._lock).st_size == 0:
            with suppress(OSError):  # a full disk: the next start notes it
                os.pwrite(self._lock, b"in use\n", 0)
                os.fsync(self._lock)

    def unreadable(self, err: Exception) -> StoreError:
        if _is_disk(err):
            return StoreError(
                f"cannot use the database in {self._path}: {err}; "
                "is its disk full or read-only? What is stored is not touched"
            )
        return StoreError(
            f"cannot read the database in {self._path}: {err}; it is damaged: bring it back from a "
            "backup (corral.db and corral.db-wal), or begin anew with another --data-dir"
        )

    def refused(self, err: Exception) -> StoreError:
        """Why a write could not be made durable."""
        if isinstance(err, sqlite3.Error) and _code(err) == sqlite3.SQLITE_FULL:
            return DiskFull(
                f"there is no room on the disk of {self._path}: nothing can be written until "
                "there is, what is stored can be read"
            )
        if isinstance(err, sqlite3.Error) and _code(err) == sqlite3.SQLITE_READONLY:
            return StoreError(
                f"the disk of {self._path} is read-only: nothing can be written until it is not, "
                "what is stored can be read"
            )
        return StoreError(f"the write could not be stored: {err}")

    def _close_to_others(self) -> None:
        """The database is for us alone; whatever SQLite makes beside it later gets its mode."""
        for file in self._path.glob("corral.db*"):
            file.chmod(0o600)

    def _open_database(self) -> None:
        self.db = sqlite3.connect(
            self._path / "corral.db", isolation_level=None, check_same_thread=False
        )
        self._undo.callback(self.db.close)
        # nobody else reads it, so the index of the WAL needs no file that could find no room
        self.db.execute("PRAGMA locking_mode=EXCLUSIVE")
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.execute("PRAGMA wal_autocheckpoint=4000")
        self.db.execute(
            "CREATE TABLE IF NOT EXISTS log (rv INTEGER PRIMARY KEY, resource TEXT NOT NULL, "
            "key TEXT NOT NULL, deleted INTEGER NOT NULL, create_rv INTEGER NOT NULL, "
            "value BLOB NOT NULL)"
        )
        self.db.execute("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER)")
        self._close_to_others()

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


_DISK: Final = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
)


def _code(err: sqlite3.Error) -> int:
    return (getattr(err, "sqlite_errorcode", 0) or 0) & 0xFF


def _is_disk(err: Exception) -> bool:
    """Whether the disk is the cause, and not what is stored on it."""
    return isinstance(err, sqlite3.Error) and _code(err) in _DISK


def _row(event: Event) -> Row:
    entry = event.entry
    deleted = int(event.type == DELETED)
    return Row(entry.rv, entry.resource, entry.key, deleted, entry.create_rv, entry.value)
