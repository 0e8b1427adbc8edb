"""Who refers to what: repositories, tags, manifests and the blobs they need, in one database.

Every change is one transaction. Blobs themselves are files; a row is written when its file is
safe, and gone before its file is.

A link says that a repository has a blob. While no manifest has referred to it yet it is *fresh*:
part of a push that may still go on, and kept as long as the push may.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from corral.cluster.registry.documents import Document

__all__ = ["ROW", "Catalog", "Collected", "Row"]

_SCHEMA: Final = """
create table if not exists blobs (digest text primary key, size integer not null);
create table if not exists links (
    repository text, digest text, at real not null, fresh integer not null,
    primary key (repository, digest)) without rowid;
create index if not exists links_by_digest on links (digest);
create table if not exists manifests (
    repository text, digest text, media_type text not null, artifact_type text not null,
    annotations text not null, subject text not null, content blob not null, used real not null,
    primary key (repository, digest));
drop index if exists manifests_by_subject;
create index if not exists manifests_about on manifests (
    repository, subject, digest, artifact_type);
create table if not exists refs (
    repository text, manifest text, digest text,
    primary key (repository, manifest, digest)) without rowid;
create index if not exists refs_by_digest on refs (repository, digest);
create table if not exists tags (
    repository text, tag text, digest text not null, primary key (repository, tag)) without rowid;
create index if not exists tags_by_digest on tags (repository, digest);
create table if not exists uploads (
    id text primary key, repository text not null, began real not null, at real not null);
"""

ROW: Final = 1024
"""Bytes that a row of the database counts for, with its place in the indexes."""
_TABLES: Final = ("links", "manifests", "refs", "tags")
_PAGE_BYTES: Final = 1 << 20
"""Of annotations in one list."""
_OF: Final = "(repository = ? or (repository >= ? and repository < ?))"
"""Of a namespace's repositories."""


@dataclass(frozen=True, slots=True)
class Row:
    """A manifest that is kept."""

    digest: str
    media_type: str
    content: bytes
    artifact_type: str = ""
    annotations: str = ""


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection found to be of no use."""

    blobs: Sequence[str]
    """Their rows are gone; their files may go."""
    uploads: Sequence[str]
    manifests: int


class Catalog:
    """One database; calls come one at a time."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = full")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("begin immediate")
        try:
            yield self._db
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")

    # -- blobs -----------------------------------------------------------------------------------

    def total(self) -> int:
        """Bytes of all blobs."""
        found: int = self._db.execute("select coalesce(sum(size), 0) from blobs").fetchone()[0]
        return found

    def known(self, digest: str) -> bool:
        return bool(self._db.execute("select 1 from blobs where digest = ?", (digest,)).fetchone())

    def size(self, repository: str, digest: str) -> int | None:
        """Of a blob of a repository; None where it has none such."""
        found = self._db.execute(
            "select size from blobs join links using (digest) where repository = ? and digest = ?",
            (repository, digest),
        ).fetchone()
        return found[0] if found else None

    def add_blob(
        self, repository: str, digest: str, size: int, *, upload: str, now: float, grace: float
    ) -> None:
        """A blob whose file is safe; the upload it came by is over.

        Other blobs of the same push stay as long as this one.
        """
        with self._change() as db:
            began = db.execute("select began from uploads where id = ?", (upload,)).fetchone()
            if began:
                db.execute(
                    "update links set at = ? where repository = ? and fresh and at >= ?",
                    (now, repository, began[0] - grace),
                )
            db.execute("insert or ignore into blobs values (?, ?)", (digest, size))
            db.execute(
                "insert or replace into links values (?, ?, ?, 1)", (repository, digest, now)
            )
            db.execute("delete from uploads where id = ?", (upload,))

    def mount(self, source: str, repository: str, digest: str, *, now: float) -> bool:
        """Let a repository have a blob of another; whether that one has it."""
        with self._change() as db:
            if self.size(source, digest) is None:
                return False
            db.execute(
                "insert or replace into links values (?, ?, ?, 1)", (repository, digest, now)
            )
        return True

    def touch(self, repository: str, digest: str, *, now: float, late: float) -> None:
        """Somebody who was told that the blob is there may refer to it soon.

        That is written where the last note of it is from before ``late``.
        """
        found = self._db.execute(
            "select 1 from links where repository = ? and digest = ? and (at < ? or not fresh)",
            (repository, digest, late),
        ).fetchone()
        if found:
            self._db.execute(
                "update links set at = ?, fresh = 1 where repository = ? and digest = ?",
                (now, repository, digest),
            )

    def is_referred(self, repository: str, digest: str) -> bool:
        return bool(
            self._db.execute(
                "select 1 from refs where repository = ? and digest = ?", (repository, digest)
            ).fetchone()
        )

    def unlink(self, repository: str, digest: str) -> bool:
        """Take a blob from a repository; whether it had it."""
        gone = self._db.execute(
            "delete from links where repository = ? and digest = ?", (repository, digest)
        )
        return gone.rowcount > 0

    # -- manifests ---------------------------------------------------------------------------------

    def put_manifest(
        self,
        repository: str,
        digest: str,
        content: bytes,
        document: Document,
        *,
        tag: str,
        now: float,
    ) -> list[str]:
        """Keep a manifest; gives the blobs that are missing, and then nothing was kept."""
        with self._change() as db:
            missing = [one for one in document.blobs if self.size(repository, one) is None]
            if missing:
                return missing
            row = (
                *(repository, digest, document.media_type, document.artifact_type),
                *(document.annotations, document.subject, content, now),
            )
            db.execute("insert or replace into manifests values (?, ?, ?, ?, ?, ?, ?, ?)", row)
            needs = {*document.blobs, *document.manifests}
            db.executemany(
                "insert or ignore into refs values (?, ?, ?)",
                [(repository, digest, one) for one in needs],
            )
            db.executemany(
                "update links set fresh = 0 where repository = ? and digest = ?",
                [(repository, one) for one in document.blobs],
            )
            if tag:
                db.execute(
                    "insert or replace into tags values (?, ?, ?)", (repository, tag, digest)
                )
        return []

    def manifest(self, repository: str, target: str, *, now: float, late: float) -> Row | None:
        """By tag or digest; that is a use, written where the last one was before ``late``."""
        digest = target if ":" in target else self._tagged(repository, target)
        found = self._db.execute(
            "select digest, media_type, content, artifact_type, annotations, used from manifests "
            "where repository = ? and digest = ?",
            (repository, digest),
        ).fetchone()
        if found is None:
            return None
        if found[5] < late:
            self._db.execute(
                "update manifests set used = ? where repository = ? and digest = ?",
                (now, repository, digest),
            )
        return Row(*found[:5])

    def _tagged(self, repository: str, tag: str) -> str:
        found = self._db.execute(
            "select digest from tags where repository = ? and tag = ?", (repository, tag)
        ).fetchone()
        return found[0] if found else ""

    def referrers(
        self, repository: str, subject: str, *, kind: str, after: str, most: int
    ) -> tuple[list[tuple[Row, int]], bool]:
        """A page of the manifests about another, each with its size; and whether there are more.

        ``kind``: their artifact type; empty: all. Of annotations there are few bytes more than
        `_PAGE_BYTES`.
        """
        digests = self._db.execute(
            "select digest from manifests where repository = ? and subject = ? and digest > ? "
            "and (? = '' or artifact_type = ?) order by digest limit ?",
            (repository, subject, after, kind, kind, most + 1),
        ).fetchall()
        found: list[tuple[Row, int]] = []
        room = _PAGE_BYTES
        for (digest,) in digests[:most]:
            one = self._db.execute(
                "select media_type, length(content), artifact_type, annotations from manifests "
                "where repository = ? and digest = ?",
                (repository, digest),
            ).fetchone()
            found.append((Row(digest, one[0], b"", one[2], one[3]), one[1]))
            room -= len(one[3])
            if room <= 0:
                break
        return found, len(found) < len(digests)

    def delete_manifest(self, repository: str, digest: str, *, now: float) -> bool:
        """With its tags; what it referred to is kept for the grace. Whether it was there."""
        with self._change() as db:
            return self._drop(db, repository, digest, now)

    def _drop(self, db: sqlite3.Connection, repository: str, digest: str, now: float) -> bool:
        key = (repository, digest)
        db.execute(
            "update links set at = ?, fresh = 0 where repository = ? and digest in "
            "(select digest from refs where repository = ? and manifest = ?)",
            (now, repository, *key),
        )
        db.execute("delete from refs where repository = ? and manifest = ?", key)
        db.execute("delete from tags where repository = ? and digest = ?", key)
        gone = db.execute("delete from manifests where repository = ? and digest = ?", key)
        return gone.rowcount > 0

    def delete_tag(self, repository: str, tag: str) -> bool:
        gone = self._db.execute(
            "delete from tags where repository = ? and tag = ?", (repository, tag)
        )
        return gone.rowcount > 0

    # -- lists -------------------------------------------------------------------------------------

    def has(self, repository: str) -> bool:
        """Whether anything was ever pushed there that is still kept."""
        return any(
            self._db.execute(
                f"select 1 from {table} where repository = ? limit 1", (repository,)
            ).fetchone()
            for table in ("manifests", "links")
        )

    def tags(self, repository: str, *, after: str, most: int) -> list[str]:
        found = self._db.execute(
            "select tag from tags where repository = ? and tag > ? order by tag limit ?",
            (repository, after, most),
        )
        return [one[0] for one in found]

    def repositories(self, *, after: str, most: int) -> list[str]:
        found = self._db.execute(
            "select distinct repository from manifests where repository > ? "
            "order by repository limit ?",
            (after, most),
        )
        return [one[0] for one in found]

    # -- uploads -----------------------------------------------------------------------------------

    def begin(self, upload: str, repository: str, *, now: float) -> None:
        self._db.execute("insert into uploads values (?, ?, ?, ?)", (upload, repository, now, now))

    def count_uploads(self) -> int:
        found: int = self._db.execute("select count(*) from uploads").fetchone()[0]
        return found

    def uploads_of(self, namespace: str) -> list[str]:
        """The uploads to repositories of a namespace."""
        found = self._db.execute(f"select id from uploads where {_OF}", _range(namespace))
        return [row[0] for row in found]

    def used(self, namespace: str) -> int:
        """Bytes of the blobs and manifests of a namespace, each blob once, and of their rows."""
        measured = (
            f"select sum(size) from blobs where digest in (select digest from links where {_OF})",
            f"select sum(length(content) + length(annotations)) from manifests where {_OF}",
            *(f"select {ROW} * count(*) from {name} where {_OF}" for name in _TABLES),
        )
        found = (self._db.execute(each, _range(namespace)).fetchone()[0] for each in measured)
        return sum(each or 0 for each in found)

    def repository_of(self, upload: str) -> str:
        """Where an upload goes; empty where there is no such upload."""
        found = self._db.execute(
            "select repository from uploads where id = ?", (upload,)
        ).fetchone()
        return found[0] if found else ""

    def went_on(self, upload: str, *, now: float) -> None:
        self._db.execute("update uploads set at = ? where id = ?", (now, upload))

    def end_idle(self, before: float) -> list[str]:
        """Forget the uploads that nobody has gone on with since then."""
        with self._change() as db:
            idle = db.execute("select id from uploads where at < ?", (before,)).fetchall()
            db.executemany("delete from uploads where id = ?", idle)
        return [row[0] for row in idle]

    def end(self, upload: str) -> None:
        self._db.execute("delete from uploads where id = ?", (upload,))

    # -- collection --------------------------------------------------------------------------------

    def collect(
        self,
        *,
        now: float,
        grace: float,
        upload_idle: float,
        expiring: Iterable[str],
        expire_after: float,
    ) -> Collected:
        """Forget what nobody needs any more."""
        patterns = tuple(expiring)
        with self._change() as db:
            old = db.execute(
                "select repository, digest from manifests as m where used < ? and not exists "
                "(select 1 from refs where repository = m.repository and digest = m.digest)",
                (now - expire_after,),
            ).fetchall()
            expired = [
                one for one in old if any(fnmatchcase(one[0], pattern) for pattern in patterns)
            ]
            for repository, digest in expired:
                self._drop(db, repository, digest, now)
            idle = db.execute(
                "select id from uploads where at < ?", (now - upload_idle,)
            ).fetchall()
            db.executemany("delete from uploads where id = ?", idle)
            db.execute(
                "delete from links where at < ? and not exists (select 1 from refs where "
                "refs.repository = links.repository and refs.digest = links.digest) and not (fresh "
                "and exists (select 1 from uploads where uploads.repository = links.repository))",
                (now - grace,),
            )
            unused = db.execute(
                "select digest from blobs where not exists "
                "(select 1 from links where links.digest = blobs.digest)"
            ).fetchall()
            db.executemany("delete from blobs where digest = ?", unused)
        return Collected([one[0] for one in unused], [one[0] for one in idle], len(expired))


def _range(namespace: str) -> tuple[str, str, str]:
    """What `_OF` is asked with: the namespace's own name is a repository of it too."""
    return namespace, f"{namespace}/", f"{namespace}0"  # 0 comes after /
