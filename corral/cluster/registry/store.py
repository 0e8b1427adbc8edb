"""Everything that a registry keeps, in one folder that one process uses at a time.

    FOLDER/catalog.db       who refers to what
    FOLDER/blobs/ab/abcd…   blobs by their SHA-256
    FOLDER/uploads/ID       uploads under way, as far as they are

A blob is written to ``uploads``, made safe on disk, moved to its place, and only then known to the
catalog. Methods block; they may be called from any thread.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from corral.cluster import locking
from corral.cluster.registry.catalog import ROW, Catalog, Collected, Row
from corral.cluster.registry.documents import read_document
from corral.cluster.registry.errors import Refused, digest_invalid, too_large, unknown_blob
from corral.cluster.registry.settings import StoreSettings
from corral.files.private import data_folder, private_folder
from corral.oci.manifest import digest_of
from corral.oci.reference import is_digest

__all__ = ["Store", "StoreInUse"]

logger = logging.getLogger(__name__)
_PAUSE: Final = 10
"""How many times as long as a count of a namespace takes the next one waits."""
_LOST: Final = "there is no such upload here: begin it anew"


class StoreInUse(Exception):
    """Another process uses the folder."""


class _Progress:
    """What is known of an upload since this process began to write it."""

    def __init__(self) -> None:
        self.hasher = hashlib.sha256()
        self.hashed = 0


class Store:
    """The content of one registry. Raises StoreInUse, OSError when it is made."""

    def __init__(
        self,
        folder: Path,
        settings: StoreSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings or StoreSettings()
        self._folder = folder
        self._clock = clock
        data_folder(folder)
        for name in ("blobs", "uploads"):
            private_folder(folder / name)
        try:
            self._claim = locking.take(folder / "registry.pid")
        except locking.Held as held:
            raise StoreInUse(
                f"another registry (process {held.holder}) uses {folder}: stop it first"
            ) from None
        self._catalog = Catalog(folder / "catalog.db")
        self._lock = threading.Lock()
        """Held for each use of the catalog, and whenever files change that it speaks of."""
        self._progress: dict[str, _Progress] = {}
        self._noted: dict[str, float] = {}
        """Upload → when it was last written down that it goes on."""
        self._callers: dict[str, str] = {}
        """Upload → who began it."""
        self._used: dict[str, int] = {}
        """Namespace → bytes of its own, counted anew now and then."""
        self._recount: dict[str, float] = {}
        """Namespace → when that may be next."""
        self._total = self._catalog.total()
        """Of all blobs."""

    def close(self) -> None:
        with self._lock:
            self._catalog.close()
            os.close(self._claim)

    # -- blobs -----------------------------------------------------------------------------------

    def blob(self, repository: str, digest: str) -> tuple[Path, int]:
        """File and size. Raises Refused."""
        with self._lock:
            size = self._catalog.size(repository, digest)
        if size is None:
            raise unknown_blob(digest)
        return self._place(digest), size

    def reserve_blob(self, repository: str, digest: str) -> int:
        """The size of a blob that somebody may refer to soon. Raises Refused."""
        with self._lock:
            size = self._catalog.size(repository, digest)
            if size is None:
                raise unknown_blob(digest)
            now = self._clock()
            self._catalog.touch(repository, digest, now=now, late=now - self.settings.grace / 4)
        return size

    def mount(self, source: str, repository: str, digest: str) -> bool:
        """Let a repository have a blob of another; whether that worked. Raises Refused."""
        namespace = _namespace(repository)
        with self._lock:
            self._count(namespace)
            self._check_quota(namespace, ROW)
            mounted = self._catalog.mount(source, repository, digest, now=self._clock())
            self._add(namespace, ROW if mounted else 0)
        return mounted

    def delete_blob(self, repository: str, digest: str) -> None:
        """Take a blob from a repository. Raises Refused."""
        with self._lock:
            if self._catalog.is_referred(repository, digest):
                raise Refused(405, "UNSUPPORTED", "a manifest refers to it: delete that one first")
            if not self._catalog.unlink(repository, digest):
                raise unknown_blob(digest)

    # -- uploads -----------------------------------------------------------------------------------

    def begin(self, repository: str, caller: str = "") -> str:
        """A new upload. Raises Refused."""
        self._room(0)
        namespace = _namespace(repository)
        upload = secrets.token_hex(16)
        with self._lock:
            if self._crowded(namespace, caller):
                self._end_idle()
                crowd = self._crowded(namespace, caller)
                if crowd:
                    words = f"too many uploads {crowd} are under way: try again later"
                    raise Refused(429, "TOOMANYREQUESTS", words, {"Retry-After": "5"})
            self._count(namespace)
            self._check_quota(namespace, 0)
            self._callers[upload] = caller
            self._upload(upload).touch(mode=0o600, exist_ok=False)
            self._catalog.begin(upload, repository, now=self._clock())
        self._progress[upload] = _Progress()
        self._noted[upload] = self._clock()
        return upload

    def _crowded(self, namespace: str, caller: str) -> str:
        """Whose uploads are too many; empty where nobody's are."""
        settings, own = self.settings, self._catalog.uploads_of(namespace)
        mine = sum(self._callers.get(upload) == caller for upload in own) if caller else 0
        if mine >= settings.max_caller_uploads:
            return f"of {caller}"
        if len(own) >= settings.max_namespace_uploads:
            return f"to repositories of {namespace}"
        return "in all" if self._catalog.count_uploads() >= settings.max_uploads else ""

    def _end_idle(self) -> None:
        for upload in self._catalog.end_idle(self._clock() - self.settings.upload_idle):
            self._upload(upload).unlink(missing_ok=True)
            self._forget(upload)

    def _count(self, namespace: str) -> None:
        """Count what a namespace has, unless that was done just now: others wait meanwhile."""
        began = time.monotonic()
        if began < self._recount.get(namespace, 0.0):
            return
        uploads = sum(
            self._upload(upload).stat().st_size
            for upload in self._catalog.uploads_of(namespace)
            if self._upload(upload).exists()
        )
        self._used[namespace] = self._catalog.used(namespace) + uploads
        ended = time.monotonic()
        self._recount[namespace] = ended + _PAUSE * (ended - began)

    def _add(self, namespace: str, size: int) -> None:
        self._used[namespace] = self._used.get(namespace, 0) + size

    def _check_quota(self, namespace: str, more: int) -> None:
        """Whether a namespace may have so many bytes more. Raises Refused."""
        limit, used = self.settings.max_namespace, self._used.get(namespace, 0)
        if not limit:
            disk = os.statvfs(self._folder)
            all_of_it = self._total + disk.f_bavail * disk.f_frsize
            limit = (self.settings.max_total or all_of_it) // 2
        if used + more > limit:
            words = f"the repositories of {namespace} have {used} bytes of at most {limit}"
            raise Refused(507, "DENIED", f"{words}: delete artifacts of them")

    def offset(self, repository: str, upload: str) -> int:
        """How many bytes of an upload are here. Raises Refused."""
        with self._lock:
            if not upload.isalnum() or self._catalog.repository_of(upload) != repository:
                raise Refused(404, "BLOB_UPLOAD_UNKNOWN", _LOST)
        try:
            return self._upload(upload).stat().st_size
        except FileNotFoundError:
            raise Refused(404, "BLOB_UPLOAD_UNKNOWN", _LOST) from None

    def append(self, upload: str, pieces: Sequence[bytes]) -> int:
        """Write more bytes; gives how many there are. Raises Refused, OSError."""
        more = sum(map(len, pieces))
        with self._upload(upload).open("r+b", buffering=0) as file:
            there = file.seek(0, os.SEEK_END)
            self._room(there + more, written=there)
            with self._lock:
                namespace = _namespace(self._catalog.repository_of(upload))
                self._check_quota(namespace, more)
                self._add(namespace, more)
            if there + more > self.settings.max_blob:
                raise too_large(f"a blob may have {self.settings.max_blob} bytes at most")
            progress = self._progress.get(upload)
            for piece in pieces:
                _write(file.fileno(), piece)
                if progress is not None and progress.hashed == there:
                    progress.hasher.update(piece)
                    progress.hashed += len(piece)
                there += len(piece)
        self._note(upload)
        return there

    def _note(self, upload: str) -> None:
        """That an upload goes on; written now and then, since that takes its time."""
        now = self._clock()
        if now - self._noted.get(upload, 0.0) > self.settings.upload_idle / 100:
            with self._lock:
                self._catalog.went_on(upload, now=now)
            self._noted[upload] = now

    def finish(self, repository: str, upload: str, digest: str) -> int:
        """The blob is complete: verify it and put it in its place. Raises Refused, OSError."""
        if not is_digest(digest):
            raise digest_invalid("give the digest as sha256: and 64 hexadecimal digits")
        path = self._upload(upload)
        found, size = self._digest(upload, path)
        if found != digest:
            self.abort(upload)
            raise digest_invalid(f"the bytes that were sent have {found}, and not {digest}")
        _sync(path)
        place = self._place(digest)
        with self._lock:
            if self._catalog.known(digest):
                path.unlink()
            else:
                self._room(size, written=size)
                self._make_home(place.parent)
                os.replace(path, place)
                _sync(place.parent)
                self._total += size
            self._catalog.add_blob(
                repository,
                digest,
                size,
                upload=upload,
                now=self._clock(),
                grace=self.settings.grace,
            )
            self._add(_namespace(repository), ROW)
        self._forget(upload)
        return size

    def abort(self, upload: str) -> None:
        """Forget an upload."""
        with self._lock:
            self._catalog.end(upload)
            self._upload(upload).unlink(missing_ok=True)
        self._forget(upload)

    def _forget(self, upload: str) -> None:
        self._callers.pop(upload, None)
        self._progress.pop(upload, None)
        self._noted.pop(upload, None)

    def _digest(self, upload: str, path: Path) -> tuple[str, int]:
        """Of what an upload has: known, or read again after a restart or a write that failed."""
        size = path.stat().st_size
        progress = self._progress.get(upload)
        if progress is not None and progress.hashed == size:
            return f"sha256:{progress.hasher.hexdigest()}", size
        with path.open("rb", buffering=0) as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}", size

    def _room(self, size: int, *, written: int = 0) -> None:
        """Whether there is room for so many bytes, of which some are written. Raises Refused."""
        disk = os.statvfs(self._folder)
        left = disk.f_bavail * disk.f_frsize - (size - written)
        limit = self.settings.max_total
        if left < self.settings.reserve or (limit and self._total + size > limit):
            words = "the registry is full: delete artifacts, or give it more room"
            raise Refused(507, "DENIED", words)

    # -- manifests ---------------------------------------------------------------------------------

    def put_manifest(
        self, repository: str, target: str, content: bytes, content_type: str
    ) -> tuple[str, str]:
        """Keep a manifest under a tag or its digest; gives digest and subject. Raises Refused."""
        digest = digest_of(content)
        if ":" in target and target != digest:
            raise digest_invalid(f"the manifest has {digest}, and not {target}")
        document = read_document(content, content_type)
        namespace = _namespace(repository)
        rows = 2 + len(document.blobs) + len(document.manifests)  # itself, and its tag
        size = len(content) + len(document.annotations) + rows * ROW
        self._room(size)
        with self._lock:
            self._count(namespace)
            self._check_quota(namespace, size)
            missing = self._catalog.put_manifest(
                repository,
                digest,
                content,
                document,
                tag="" if ":" in target else target,
                now=self._clock(),
            )
            self._add(namespace, 0 if missing else size)
        if missing:
            raise Refused(
                400,
                "MANIFEST_BLOB_UNKNOWN",
                f"the manifest refers to {missing[0]}, which this repository lacks: push it first",
            )
        return digest, document.subject

    def manifest(self, repository: str, target: str) -> Row:
        """By tag or digest. Raises Refused."""
        with self._lock:
            now = self._clock()
            late = now - self.settings.expire_after / 100
            found = self._catalog.manifest(repository, target, now=now, late=late)
        if found is None:
            words = f"{repository} has no manifest {target}: push it first"
            raise Refused(404, "MANIFEST_UNKNOWN", words)
        if digest_of(found.content) != found.digest:
            raise Refused(500, "UNKNOWN", f"the manifest {found.digest} is damaged: push it again")
        return found

    def referrers(
        self, repository: str, subject: str, *, kind: str, after: str, most: int
    ) -> tuple[list[tuple[Row, int]], bool]:
        """A page of what is about a manifest, with sizes; and whether there is more."""
        with self._lock:
            return self._catalog.referrers(repository, subject, kind=kind, after=after, most=most)

    def delete_manifest(self, repository: str, target: str) -> None:
        """By digest with its tags, or one tag alone. Raises Refused."""
        with self._lock:
            if ":" in target:
                there = self._catalog.delete_manifest(repository, target, now=self._clock())
            else:
                there = self._catalog.delete_tag(repository, target)
        if not there:
            raise Refused(404, "MANIFEST_UNKNOWN", f"{repository} has no manifest {target}")

    def tags(self, repository: str, *, after: str, most: int) -> list[str] | None:
        """In order; None where there is no such repository."""
        with self._lock:
            if not self._catalog.has(repository):
                return None
            return self._catalog.tags(repository, after=after, most=most)

    def repositories(self, *, after: str, most: int) -> list[str]:
        with self._lock:
            return self._catalog.repositories(after=after, most=most)

    # -- collection --------------------------------------------------------------------------------

    def collect(self) -> Collected:
        """Remove what nobody needs any more."""
        settings, now = self.settings, self._clock()
        with self._lock:
            found = self._catalog.collect(
                now=now,
                grace=settings.grace,
                upload_idle=settings.upload_idle,
                expiring=settings.expiring,
                expire_after=settings.expire_after,
            )
            for digest in found.blobs:
                self._place(digest).unlink(missing_ok=True)
            for upload in found.uploads:
                self._upload(upload).unlink(missing_ok=True)
                self._forget(upload)
            self._total = self._catalog.total()
        self._sweep(now - max(settings.grace, 60.0))
        if found.blobs or found.manifests:
            logger.info("collected %d blobs, %d manifests", len(found.blobs), found.manifests)
        return found

    def _sweep(self, before: float) -> None:
        """Remove files that the catalog does not know: a process died before it could say so."""
        for path in (self._folder / "uploads").iterdir():
            with self._lock:
                known = bool(self._catalog.repository_of(path.name))
                if not known and _older(path, before):
                    path.unlink(missing_ok=True)
        for home in (self._folder / "blobs").iterdir():
            for path in home.iterdir():
                with self._lock:
                    if not self._catalog.known(f"sha256:{path.name}") and _older(path, before):
                        path.unlink(missing_ok=True)

    # -- places ------------------------------------------------------------------------------------

    def _place(self, digest: str) -> Path:
        name = digest.removeprefix("sha256:")
        return self._folder / "blobs" / name[:2] / name

    def _upload(self, upload: str) -> Path:
        return self._folder / "uploads" / upload

    def _make_home(self, home: Path) -> None:
        if not home.is_dir():
            home.mkdir(exist_ok=True, mode=0o700)
            _sync(home.parent)


def _namespace(repository: str) -> str:
    return repository.partition("/")[0]


def _write(file: int, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(file, view) :]


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _older(path: Path, before: float) -> bool:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime < before
    return False
