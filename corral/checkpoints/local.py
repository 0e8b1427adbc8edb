"""Checkpoints in a folder: a disk of this machine or a mounted volume.

Every object is written under a temporary name in its own folder, synced, and given its final
name in one step: by hard link where it must be new, by rename otherwise; then the folder is
synced. So after a crash at any instant an object is there whole or not at all, and what remains
are temporary files, which `sweep` removes. Symbolic links that lead out of the root are refused,
because the pods that fill a volume are not those that read it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat as modes
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from corral.checkpoints.errors import (
    AlreadyExists,
    Conflict,
    InvalidPath,
    NotFound,
    PermissionDenied,
    StoreError,
    StoreUnavailable,
)
from corral.checkpoints.paths import check_relative
from corral.checkpoints.store import Blob, Chunk, Stat

_TEMPORARY = ".tmp-"
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
_TRANSIENT = (errno.ESTALE, errno.EIO, errno.ETIMEDOUT, errno.EAGAIN)


class LocalStore:
    """A folder as a store."""

    def __init__(self, root: str | Path, *, durable: bool = True) -> None:
        """Opens a folder, which need not exist yet.

        Args:
            root: the folder.
            durable: sync files and folders; False only where a power cut may cost checkpoints.
        """
        self.root = Path(os.path.realpath(root))
        self._durable = durable

    @property
    def url(self) -> str:
        return self.root.as_uri()

    @property
    def part_size(self) -> int | None:
        return None

    def write(self, path: str, chunks: Iterable[Chunk]) -> None:
        with _mapped(path):
            self._publish(path, chunks, replace=True)

    def create(self, path: str, data: bytes) -> None:
        self.create_from(path, (data,))

    def create_from(self, path: str, chunks: Iterable[Chunk]) -> None:
        """As `create`, for an object of any size."""
        with _mapped(path):
            self._publish(path, chunks, replace=False)

    def replace(self, path: str, data: bytes, *, etag: str | None) -> None:
        # Good enough for hints: a folder offers no compare-and-swap between the two steps.
        if etag is not None and self._etag(path) != etag:
            raise Conflict(f"{path} changed since it was read; read it again")
        self.write(path, (data,))

    def read(self, path: str, *, limit: int = 64 << 20) -> Blob:
        with _mapped(path):
            descriptor = self._open(path)
            with os.fdopen(descriptor, "rb") as file:
                data = file.read(limit + 1)
        if len(data) > limit:
            raise StoreError(f"{path} is larger than {limit} bytes")
        return Blob(data, hashlib.sha256(data).hexdigest())

    def read_into(self, path: str, buffer: memoryview, *, start: int = 0) -> int:
        with _mapped(path):
            descriptor = self._open(path)
            try:
                return _fill(descriptor, buffer, start)
            finally:
                os.close(descriptor)

    def stat(self, path: str) -> Stat:
        with _mapped(path):
            found = os.stat(self._inside(path), follow_symlinks=False)
        if not modes.S_ISREG(found.st_mode):
            raise NotFound(f"{path} is not a regular file")
        return Stat(path, found.st_size, found.st_mtime)

    def walk(self, prefix: str) -> Iterator[Stat]:
        top = self._inside(prefix) if prefix else self.root
        for folder, _, names in os.walk(top):
            for name in names:
                path = Path(folder, name).relative_to(self.root).as_posix()
                if not name.startswith(_TEMPORARY):
                    with contextlib.suppress(NotFound):  # deleted since the folder was read
                        yield self.stat(path)

    def entries(self, prefix: str) -> tuple[list[str], list[str]]:
        folders, objects = [], []
        with contextlib.suppress(FileNotFoundError), _mapped(prefix, absent_is_error=False):
            for entry in os.scandir(self._inside(prefix) if prefix else self.root):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif not entry.name.startswith(_TEMPORARY):
                    objects.append(entry.name)
        return sorted(folders), sorted(objects)

    def delete(self, paths: Sequence[str]) -> None:
        folders = set()
        for path in paths:
            with _mapped(path):
                target = self._inside(path)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(target)
                folders.add(target.parent)
        for folder in folders:
            self._sync_folder(folder)
            self._prune(folder)

    def sweep(self, prefix: str, *, before: float) -> int:
        """Removes temporary files that are older than that time."""
        count = 0
        for folder, _, names in os.walk(self._inside(prefix) if prefix else self.root):
            with contextlib.suppress(FileNotFoundError):
                # Taken first, since deleting renews it. A young folder may just be about to be
                # filled.
                young = os.stat(folder).st_mtime >= before
                for name in names:
                    if name.startswith(_TEMPORARY):
                        count += self._sweep_file(Path(folder, name), before)
                if not young:
                    self._prune(Path(folder))
        return count

    def _sweep_file(self, target: Path, before: float) -> int:
        with contextlib.suppress(FileNotFoundError):
            if target.stat(follow_symlinks=False).st_mtime < before:
                target.unlink()
                return 1
        return 0

    def _inside(self, path: str) -> Path:
        target = self.root / check_relative(path)
        if not Path(os.path.realpath(target.parent)).is_relative_to(self.root):
            raise InvalidPath(f"{path} leads out of {self.root} through a symbolic link")
        return target

    def _open(self, path: str) -> int:
        descriptor = os.open(
            self._inside(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        )
        if not modes.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotFound(f"{path} is not a regular file")
        return descriptor

    def _etag(self, path: str) -> str | None:
        try:
            return self.read(path).etag
        except NotFound:
            return None

    def _publish(self, path: str, chunks: Iterable[Chunk], *, replace: bool) -> None:
        target = self._inside(path)
        self._make_folders(target.parent)
        temporary = target.parent / f"{_TEMPORARY}{secrets.token_hex(8)}"
        try:
            self._fill_new(temporary, chunks)
            if replace:
                os.replace(temporary, target)
            else:
                _link_new(temporary, target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        self._sync_folder(target.parent)

    def _fill_new(self, target: Path, chunks: Iterable[Chunk]) -> None:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        try:
            for chunk in chunks:
                _write_all(descriptor, chunk)
            if self._durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _make_folders(self, folder: Path) -> None:
        missing = []
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for child in reversed(missing):
            with contextlib.suppress(FileExistsError):
                child.mkdir()
            self._sync_folder(child.parent)

    def _sync_folder(self, folder: Path) -> None:
        if not self._durable:
            return
        with contextlib.suppress(FileNotFoundError):  # somebody removed the empty folder
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _prune(self, folder: Path) -> None:
        """Removes folders that became empty, never the root."""
        while folder != self.root and folder.is_relative_to(self.root):
            try:
                folder.rmdir()
            except OSError:  # not empty, or removed by somebody else: both end the walk
                return
            folder = folder.parent


def _link_new(temporary: Path, target: Path) -> None:
    try:
        os.link(temporary, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _copy_new(temporary, target)


def _copy_new(temporary: Path, target: Path) -> None:
    """For file systems without hard links.

    The name is taken first, so a crash may leave a torn file; its digest gives it away.
    """
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    try:
        _write_all(descriptor, temporary.read_bytes())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, chunk: Chunk) -> None:
    view = memoryview(chunk).cast("B")
    while view:
        view = view[os.write(descriptor, view) :]


def _fill(descriptor: int, buffer: memoryview, start: int) -> int:
    view, done = buffer.cast("B"), 0
    while done < len(view):
        count = os.preadv(descriptor, [view[done:]], start + done)
        if count == 0:
            break
        done += count
    return done


@contextlib.contextmanager
def _mapped(path: str, *, absent_is_error: bool = True) -> Iterator[None]:
    """Errors of the system as errors of this package."""
    try:
        yield
    except FileExistsError as error:
        raise AlreadyExists(f"{path} is there already") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        if not absent_is_error:
            return
        raise NotFound(f"no object {path}") from error
    except PermissionError as error:
        raise PermissionDenied(
            f"{path}: {error.strerror}; check the owner and mode of the folder (fsGroup of the pod)"
        ) from error
    except OSError as error:
        raise _other(path, error) from error


def _other(path: str, error: OSError) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(f"{path}: no space left; enlarge the volume or keep fewer checkpoints")
    if error.errno == errno.ELOOP:
        return NotFound(f"{path} is a symbolic link, which is not followed")
    if error.errno in _TRANSIENT:
        return StoreUnavailable(f"{path}: {error.strerror}; is the volume still mounted?")
    return StoreError(f"{path}: {error.strerror}")
