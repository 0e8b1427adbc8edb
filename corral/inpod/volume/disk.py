"""Files that are there whole or not at all, and digests of what a user saved.

Small records are written under a temporary name, synced, and get their final name in one step:
by hard link where they must be new, by rename otherwise; then the folder is synced.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat as modes
from functools import partial
from typing import TYPE_CHECKING

from ..errors import CheckpointError, Damaged, Finding, InvalidPath
from . import parallel
from .manifest import FileEntry
from .names import TEMPORARY, check_data_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO

BUFFER = 4 << 20
"""Bytes read at a time: large, so that hashing runs outside the interpreter lock."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)


def create_new(path: str, data: bytes) -> None:
    """Writes a file that must not be there yet.

    Raises:
        FileExistsError: if it is; the file that is there is whole.
    """
    with _filled(path, data) as temporary:
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # Without hard links the name is taken first; a crash may then leave a torn file,
            # which its own digest gives away.
            _write_exclusive(path, data)
    sync_folder(os.path.dirname(path))


def replace(path: str, data: bytes) -> None:
    """Writes a file, whether it is there or not."""
    with _filled(path, data) as temporary:
        os.replace(temporary, path)
    sync_folder(os.path.dirname(path))


def read(path: str, limit: int) -> bytes:
    """A small file that must be a regular one: who fills a volume is not who reads it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not modes.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError(errno.ENOENT, "not a regular file", path)
        return file.read(limit + 1)


def entries(folder: str) -> list[os.DirEntry[str]]:
    """What lies in a folder; the listing is over before anything is done with it."""
    with os.scandir(folder) as found:
        return list(found)


def sync_folder(folder: str) -> None:
    """Makes the names in a folder survive a power cut."""
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def measure(
    folder: str, *, prefix: str = "", shard: int | None = None, durable: bool = True
) -> list[FileEntry]:
    """Digests and syncs all files below a folder, several at a time, and the folders too.

    Args:
        folder: what the user's save filled.
        prefix: put before the names in the result.
        shard: the writer, in the result.
        durable: False where the folder is only a stop on the way: then nothing is synced.

    Raises:
        CheckpointError: if there is nothing, or something that a checkpoint cannot hold.
    """
    paths = sorted(_regular_files(folder))
    if not paths:
        raise CheckpointError("save() wrote no file, so there is no checkpoint to keep")
    for path in paths:
        check_data_path(prefix + path)
        if path.rpartition("/")[2].startswith(TEMPORARY):
            raise InvalidPath(f"{path!r}: names that begin with {TEMPORARY!r} are not kept")
    # Syncing goes on while other threads still hash: the disk and the cores work together.
    syncs = [partial(_sync_file, os.path.join(folder, path)) for path in paths if durable]
    digests = [partial(digest_file, os.path.join(folder, path)) for path in paths]
    found = parallel.run([*syncs, *digests])[len(syncs) :]
    for below, _, _ in os.walk(folder):
        if durable:
            sync_folder(below)
    return [
        FileEntry(prefix + path, size, digest, shard=shard)
        for path, (size, digest) in zip(paths, found)  # noqa: B905 (strict= needs Python 3.10)
    ]


def digest_file(path: str) -> tuple[int, str]:
    """Size and SHA-256.

    Raises:
        CheckpointError: if the file changes its size meanwhile.
    """
    with open(path, "rb", buffering=0) as file:
        expected = os.fstat(file.fileno()).st_size
        size, digest = _hash(file, expected)
    if size != expected:
        raise CheckpointError(f"{path} changed while it was saved; save() must finish first")
    return size, digest


def verify(folder: str, entry: FileEntry) -> None:
    """Compares one file of a checkpoint with its manifest.

    Raises:
        Damaged: if it is missing, shorter or longer, or has other bytes.
    """
    name = os.path.basename(folder)
    path = os.path.join(folder, entry.path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        found = Finding(name, Finding.MISSING, f"{entry.path} is missing", entry.path)
        raise Damaged(found) from error
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not modes.S_ISREG(status.st_mode) or not _is_below(folder, path):
            message = f"{entry.path} is not a regular file of this checkpoint"
            raise Damaged(Finding(name, Finding.MISSING, message, entry.path))
        if status.st_size != entry.size:
            message = f"{entry.path} has {status.st_size} bytes instead of {entry.size}"
            raise Damaged(Finding(name, Finding.TRUNCATED, message, entry.path))
        _, digest = _hash(file, entry.size)
    check_digest(name, entry, digest)


def check_digest(checkpoint: str, entry: FileEntry, actual: str) -> None:
    """Raises `Damaged` if the digest is not the manifest's."""
    if actual != entry.sha256:
        message = f"{entry.path} has sha256 {actual[:12]}... instead of {entry.sha256[:12]}..."
        raise Damaged(Finding(checkpoint, Finding.CORRUPT, message, entry.path))


def _hash(file: FileIO, size: int) -> tuple[int, str]:
    hasher, done = hashlib.sha256(), 0
    scratch = memoryview(bytearray(min(BUFFER, max(size, 1))))
    while True:
        count = file.readinto(scratch)
        if not count:
            return done, hasher.hexdigest()
        hasher.update(scratch[:count])
        done += count


def _is_below(folder: str, path: str) -> bool:
    parent = os.path.realpath(os.path.dirname(path))
    top = os.path.realpath(folder)
    return parent == top or parent.startswith(top + os.sep)


def _regular_files(folder: str) -> Iterator[str]:
    for below, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(below, name)
            relative = os.path.relpath(path, folder).replace(os.sep, "/")
            status = os.stat(path, follow_symlinks=False)
            if modes.S_ISLNK(status.st_mode):
                _dereference(path, relative)
                yield relative
            elif modes.S_ISREG(status.st_mode):
                yield relative
            elif not modes.S_ISDIR(status.st_mode):
                raise CheckpointError(f"{relative} is neither a file nor a folder")


def _dereference(path: str, relative: str) -> None:
    """Puts a copy of the file in the place of a symbolic link, which would not survive a move."""
    if not os.path.isfile(path):
        raise CheckpointError(f"{relative} is a symbolic link that leads to no file")
    temporary = os.path.join(os.path.dirname(path), TEMPORARY + os.urandom(8).hex())
    shutil.copyfile(path, temporary)
    os.replace(temporary, path)


def _sync_file(path: str) -> tuple[int, str]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Files copied with an old date must not look abandoned to those who clean up.
        with contextlib.suppress(PermissionError):
            os.utime(descriptor)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return 0, ""


@contextlib.contextmanager
def _filled(path: str, data: bytes) -> Iterator[str]:
    temporary = os.path.join(os.path.dirname(path), TEMPORARY + os.urandom(8).hex())
    try:
        _write_exclusive(temporary, data)
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _write_exclusive(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
