"""The small interface behind which all stores look alike.

What every store guarantees:

- an object appears whole or not at all, under its final name, when `write`, `create` or
  `replace` returns; then it survives the end of this process (and, for a local folder opened
  `durable`, a power cut);
- `create` succeeds for exactly one of any number of concurrent callers;
- `write` and `read_into` hold a bounded number of parts in memory, whatever the object's size;
- transient errors were retried with jitter before `StoreUnavailable` is raised.

Stores are used from threads; every method may be called concurrently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Chunk: TypeAlias = bytes | bytearray | memoryview

CHUNK = 8 << 20
"""Bytes moved at a time."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What a listing says of one object."""

    path: str
    size: int
    modified: float
    """When it was last modified, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A small object, and the tag that a conditional `replace` needs."""

    data: bytes
    etag: str | None


class Store(Protocol):
    """Where the objects are. Paths are relative to the address it was opened with."""

    @property
    def url(self) -> str:
        """The address of the store, without credentials."""
        ...

    @property
    def part_size(self) -> int | None:
        """Bytes a part in multipart uploads; None where objects are written in one piece."""
        ...

    def write(self, path: str, chunks: Iterable[Chunk]) -> None:
        """Writes or overwrites an object of any size."""
        ...

    def create(self, path: str, data: bytes) -> None:
        """Writes a small object that must not be there yet.

        Raises:
            AlreadyExists: if it is.
        """
        ...

    def replace(self, path: str, data: bytes, *, etag: str | None) -> None:
        """Writes a small object; with an etag, only if it is still the one that was read.

        Raises:
            Conflict: if it is not.
        """
        ...

    def read(self, path: str, *, limit: int = 64 << 20) -> Blob:
        """A small object.

        Raises:
            NotFound: if there is none.
        """
        ...

    def read_into(self, path: str, buffer: memoryview, *, start: int = 0) -> int:
        """Fills the buffer from that offset on; returns how many bytes there were."""
        ...

    def stat(self, path: str) -> Stat:
        """Size and time of one object.

        Raises:
            NotFound: if there is none.
        """
        ...

    def walk(self, prefix: str) -> Iterator[Stat]:
        """All objects below a folder, in no particular order."""
        ...

    def entries(self, prefix: str) -> tuple[list[str], list[str]]:
        """Names directly in a folder: (folders, objects), sorted."""
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """Removes objects; those that are gone already are no error."""
        ...

    def sweep(self, prefix: str, *, before: float) -> int:
        """Removes what interrupted writers left outside the objects; returns how many."""
        ...
