"""Checkpoints in a folder: a disk of this machine or a mounted volume.

Every object is written under a temporary name in its own folder, synced, and given its final
name in one step: by hard link where it must be new, by rename otherwise; then the folder is
synced. So after a crash at any instant an object is there whole or not at all, and what remains
are temporary files, which `sweep` removes. Symbolic links below the root are not followed, because
the pods that fill a volume are not those that read it: every folder on the way is opened by its
name in the one before, and objects are reached from there only.
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
from corral.checkpoints.store import CHUNK, Blob, Chunk, Stat

_TEMPORARY = ".tmp-"
_DEEPEST = 450
"""Folders in one path: those of the longest there can be, of one letter each."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
_TRANSIENT = (errno.ESTALE, errno.EIO, errno.ETIMEDOUT, errno.EAGAIN)


class LocalStore:
    """A folder as a store."""

    def __init__(
        self, root: str | Path, *, durable: bool = True, base: str | Path | None = None
    ) -> None:
        """Opens a folder, which need not exist yet.

        Args:
            root: the folder.
            durable: sync files and folders; False only where a power cut may cost checkpoints.
            base: a folder above, whose own path is trusted: below it no symbolic link is followed.
                None: the folder itself.

        Raises:
            InvalidPath: the folder is not below the base.
        """
        self._base = Path(os.path.realpath(root if base is None else base))
        self._top: tuple[str, ...] = ()
        if base is not None:
            try:
                self._top = Path(root).relative_to(base).parts
            except ValueError:
                raise InvalidPath(f"{root} is not below {base}") from None
            if ".." in self._top:
                raise InvalidPath(f"{root} leads out of {base}")
        self.root = self._base.joinpath(*self._top)
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
        with _mapped(path), self._parent(path) as (folder, name):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not modes.S_ISREG(found.st_mode):
            raise NotFound(f"{path} is not a regular file")
        return Stat(path, found.st_size, found.st_mtime)

    def walk(self, prefix: str) -> Iterator[Stat]:
        for where, names, folder in self._folders(prefix):
            for name in names:
                if name.startswith(_TEMPORARY):
                    continue
                with contextlib.suppress(FileNotFoundError):  # deleted since the folder was read
                    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if modes.S_ISREG(found.st_mode):
                        yield Stat("/".join((*where, name)), found.st_size, found.st_mtime)

    def entries(self, prefix: str) -> tuple[list[str], list[str]]:
        folders, objects = [], []
        with (
            contextlib.suppress(FileNotFoundError),
            _mapped(prefix, absent_is_error=False),
            self._folder(_parts(prefix)) as folder,
        ):
            for entry in os.scandir(folder):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif not entry.name.startswith(_TEMPORARY):
                    objects.append(entry.name)
        return sorted(folders), sorted(objects)

    def delete(self, paths: Sequence[str]) -> None:
        folders = set()
        for path in paths:
            with _mapped(path, absent_is_error=False):
                with self._parent(path) as (folder, name):
                    os.unlink(name, dir_fd=folder)
            folders.add(_parts(path)[:-1])
        for parts in folders:
            with contextlib.suppress(FileNotFoundError), self._folder(parts) as folder:
                self._sync(folder)
            self._prune(parts)

    def sweep(self, prefix: str, *, before: float) -> int:
        """Removes temporary files that are older than that time."""
        count, old = 0, []
        for where, names, folder in self._folders(prefix):
            # Taken first, since deleting renews it. A young folder may just be about to be
            # filled.
            if os.fstat(folder).st_mtime < before:
                old.append(where)
            for name in names:
                if name.startswith(_TEMPORARY):
                    count += _sweep_file(folder, name, before)
        for where in reversed(old):
            self._prune(where)
        return count

    # --- one step at a time, so that nothing leads elsewhere -------------------------------------

    @contextlib.contextmanager
    def _folder(self, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
        """A folder below the root, open; no symbolic link on the way to it is followed.

        Raises:
            InvalidPath: there is one.
            OSError: there is no such folder.
        """
        if make:
            self._base.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._base, _DIRECTORY)
        try:
            for part in (*self._top, *parts):
                deeper = self._enter(descriptor, part, make=make)
                os.close(descriptor)
                descriptor = deeper
            yield descriptor
        finally:
            os.close(descriptor)

    def _enter(self, folder: int, name: str, *, make: bool) -> int:
        try:
            return os.open(name, _DIRECTORY, dir_fd=folder)
        except FileNotFoundError:
            if not make:
                raise
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            self._sync(folder)
            return os.open(name, _DIRECTORY, dir_fd=folder)
        except NotADirectoryError:
            if modes.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise InvalidPath(f"{name} in {self.root} is a symbolic link") from None
            raise

    @contextlib.contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The folder of an object, open, and the object's name in it."""
        *parts, name = check_relative(path).split("/")
        with self._folder(parts, make=make) as folder:
            yield folder, name

    def _folders(self, prefix: str) -> Iterator[tuple[tuple[str, ...], list[str], int]]:
        """Every folder below, from above, with the names of what is no folder, and open.

        However deep others have made them, one or two are open at a time.

        Raises:
            InvalidPath: the first one is a link, or one is deeper than any object can be.
        """
        start = _parts(prefix)
        left: list[tuple[tuple[str, ...], list[str]]] = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._folder(start) as top:
            below, names = _listed(top)
            yield start, names, top
            left.append((start, below))
        while left:
            above, waiting = left[-1]
            if not waiting:
                left.pop()
                continue
            where = (*above, waiting.pop())
            if len(where) > _DEEPEST:
                raise InvalidPath(f"{'/'.join(where[:3])}/... in {self.root}: folders are too deep")
            # what cannot be entered, or is no folder any more, is left out
            with contextlib.suppress(OSError, InvalidPath), self._folder(where) as folder:
                below, names = _listed(folder)
                yield where, names, folder
                left.append((where, below))

    def _open(self, path: str) -> int:
        with self._parent(path) as (folder, name):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            descriptor = os.open(name, flags, dir_fd=folder)
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
        with self._parent(path, make=True) as (folder, name):
            temporary = f"{_TEMPORARY}{secrets.token_hex(8)}"
            try:
                self._fill_new(folder, temporary, chunks)
                if replace:
                    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                else:
                    _link_new(folder, temporary, name)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)
            self._sync(folder)

    def _fill_new(self, folder: int, name: str, chunks: Iterable[Chunk]) -> None:
        descriptor = _new(folder, name)
        try:
            for chunk in chunks:
                _write_all(descriptor, chunk)
            if self._durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _sync(self, folder: int) -> None:
        if self._durable:
            os.fsync(folder)

    def _prune(self, parts: Sequence[str]) -> None:
        """Removes folders that became empty, never the root."""
        left = list(parts)
        while left:
            name = left.pop()
            try:
                with self._folder(left) as folder:
                    os.rmdir(name, dir_fd=folder)
            except (OSError, InvalidPath):  # not empty, or another's by now: both end the walk
                return


def _parts(path: str) -> tuple[str, ...]:
    return tuple(check_relative(path).split("/")) if path else ()


def _listed(folder: int) -> tuple[list[str], list[str]]:
    """Folders, the last one first; and what is none."""
    folders: list[str] = []
    others: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            (folders if entry.is_dir(follow_symlinks=False) else others).append(entry.name)
    return sorted(folders, reverse=True), sorted(others)


def _new(folder: int, name: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.open(name, flags, 0o640, dir_fd=folder)


def _sweep_file(folder: int, name: str, before: float) -> int:
    with contextlib.suppress(FileNotFoundError):
        if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < before:
            os.unlink(name, dir_fd=folder)
            return 1
    return 0


def _link_new(folder: int, temporary: str, name: str) -> None:
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _copy_new(folder, temporary, name)


def _copy_new(folder: int, temporary: str, name: str) -> None:
    """For file systems without hard links.

    The name is taken first, so a crash may leave a torn file; its digest gives it away.
    """
    source = os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(source, "rb") as file:
        descriptor = _new(folder, name)
        try:
            while chunk := file.read(CHUNK):
                _write_all(descriptor, chunk)
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
