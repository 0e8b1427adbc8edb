"""Moving bytes with their digest taken on the way, many files at a time.

hashlib, the system's reads and writes, and the object stores all release the interpreter lock,
so plain threads use all cores. No more than one chunk a worker (or the parts in flight of an
upload) is in memory besides what the caller holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TypeVar

from corral.checkpoints.errors import CheckpointError, NotFound
from corral.checkpoints.findings import Damaged, Finding, Reason
from corral.checkpoints.manifest import FileEntry
from corral.checkpoints.store import CHUNK, Chunk, Store

T = TypeVar("T")

WORKERS = min(8, (os.cpu_count() or 1) + 2)
"""Files in flight: a few more than cores, since some of them wait for the disk."""


def in_parallel(tasks: Sequence[Callable[[], T]], *, workers: int = WORKERS) -> list[T]:
    """Runs all tasks; on the first failure those not yet begun are dropped."""
    if len(tasks) <= 1 or workers <= 1:
        return [task() for task in tasks]
    with ThreadPoolExecutor(min(workers, len(tasks)), "checkpoint") as pool:
        futures = [pool.submit(task) for task in tasks]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        if any(future.exception() for future in done):
            pool.shutdown(cancel_futures=True)
            raise next(error for future in done if (error := future.exception()))
        return [future.result() for future in futures]


def pieces(view: memoryview) -> Iterator[memoryview]:
    """A buffer in chunks, without a copy."""
    flat = view.cast("B")
    for start in range(0, len(flat), CHUNK):
        yield flat[start : start + CHUNK]


def file_chunks(source: Path) -> Iterator[bytes]:
    """A file in chunks; fails if it changes its size meanwhile."""
    with source.open("rb", buffering=0) as file:
        expected, done = os.fstat(file.fileno()).st_size, 0
        while chunk := file.read(CHUNK):
            done += len(chunk)
            yield chunk
    if done != expected:
        raise CheckpointError(f"{source} changed while it was saved; save it again")


def write(store: Store, path: str, chunks: Iterable[Chunk]) -> tuple[int, str]:
    """Stores an object and returns its size and SHA-256."""
    hasher, size = hashlib.sha256(), 0

    def measured() -> Iterator[Chunk]:
        nonlocal size
        for chunk in chunks:
            hasher.update(chunk)
            size += len(chunk)
            yield chunk

    store.write(path, measured())
    return size, hasher.hexdigest()


def read_verified(
    store: Store, folder: str, entry: FileEntry, sink: Callable[[int, memoryview], None] | None
) -> None:
    """Reads one file of a checkpoint, handing each chunk on, and compares its digest.

    The sink may have seen wrong bytes when this raises.

    Raises:
        Damaged: if the file is missing, too short or too long, or has other bytes.
    """
    hasher, offset = hashlib.sha256(), 0
    scratch = memoryview(bytearray(min(CHUNK, max(entry.size, 1))))
    with _damage(folder, entry):
        while offset < entry.size:
            chunk = scratch[: min(CHUNK, entry.size - offset)]
            _fill(store, folder, entry, chunk, offset)
            hasher.update(chunk)
            if sink is not None:
                sink(offset, chunk)
            offset += len(chunk)
        _check_end(store, folder, entry)
    _check_digest(folder, entry, hasher.hexdigest())


def load_verified(store: Store, folder: str, entry: FileEntry, target: memoryview) -> None:
    """Reads one file of a checkpoint straight into memory of its size.

    Raises:
        Damaged: as `read_verified`; then the memory's contents are worthless.
    """
    hasher = hashlib.sha256()
    with _damage(folder, entry):
        for start in range(0, entry.size, CHUNK):
            chunk = target[start : min(start + CHUNK, entry.size)]
            _fill(store, folder, entry, chunk, start)
            hasher.update(chunk)
        _check_end(store, folder, entry)
    _check_digest(folder, entry, hasher.hexdigest())


def _fill(store: Store, folder: str, entry: FileEntry, chunk: memoryview, start: int) -> None:
    count = store.read_into(f"{folder}/{entry.path}", chunk, start=start)
    if count < len(chunk):
        message = f"{entry.path} ends after {start + count} of {entry.size} bytes"
        raise Damaged(Finding(_name(folder), Reason.TRUNCATED, message, entry.path))


def _check_end(store: Store, folder: str, entry: FileEntry) -> None:
    actual = store.stat(f"{folder}/{entry.path}").size
    if actual != entry.size:
        message = f"{entry.path} has {actual} bytes instead of {entry.size}"
        raise Damaged(Finding(_name(folder), Reason.TRUNCATED, message, entry.path))


def _check_digest(folder: str, entry: FileEntry, actual: str) -> None:
    if actual != entry.sha256:
        message = f"{entry.path} has sha256 {actual[:12]}... instead of {entry.sha256[:12]}..."
        raise Damaged(Finding(_name(folder), Reason.CORRUPT, message, entry.path))


@contextlib.contextmanager
def _damage(folder: str, entry: FileEntry) -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        finding = Finding(_name(folder), Reason.MISSING, f"{entry.path} is missing", entry.path)
        raise Damaged(finding) from error


def _name(folder: str) -> str:
    return folder.rpartition("/")[2]
