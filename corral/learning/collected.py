"""Updates that a rule must see together: kept until the round ends, in bounded memory.

Updates stay where they are while all of them fit `memory`, or when they are files already (large
ones that were received through a `Spool`); the others are written to a file without a name. `rows`
gives one block of every update at a time, clients in the order of their names, so no rule can
depend on the order of arrival.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from corral.learning.exact.sums import Memory
from corral.learning.pages import owner
from corral.learning.tensors import Model, Vector

MEMORY = 512 << 20
BLOCK_BYTES = 2 << 20
"""The size of one block of all clients."""


@dataclass(frozen=True)
class Kept:
    """An update: its vectors, or where they begin in the file."""

    client: str
    vectors: list[Vector] | None
    offset: int


@dataclass(frozen=True)
class Span:
    """Some neighbouring elements of a tensor."""

    tensor: int
    start: int
    stop: int


class Collected:
    """Updates that all have the layout of one model."""

    def __init__(self, example: Model, *, memory: int = MEMORY, folder: Path | None = None) -> None:
        self.example = example
        self._sizes = [len(values) for values in example.vectors]
        self._types = [values.dtype for values in example.vectors]
        self._bytes = [values.nbytes for values in example.vectors]
        self._memory = memory
        self._folder = folder
        self._held = 0
        self._file: IO[bytes] | None = None
        self._end = 0
        self._kept: list[Kept] = []

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def clients(self) -> list[str]:
        return [kept.client for kept in self._kept]

    def add(self, client: str, model: Model) -> bool:
        """Keeps an update; False when it holds values that are not finite."""
        if not model.is_finite():
            return False
        size = sum(self._bytes)
        if _is_file(model) or self._held + size <= self._memory:
            self._held += 0 if _is_file(model) else size
            self._kept.append(Kept(client, model.vectors, 0))
        else:
            self._kept.append(Kept(client, None, self._write(model)))
        self._kept.sort(key=lambda kept: kept.client)
        return True

    def _write(self, model: Model) -> int:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)
        start = self._end
        for values in model.vectors:
            self._file.write(values.data.cast("B"))
            self._end += values.nbytes
        return start

    def spans(self) -> list[Span]:
        """The whole model in pieces whose rows, of all clients, fit the cache."""
        step = max(BLOCK_BYTES // (8 * max(len(self._kept), 1)), 256)
        return [
            Span(tensor, start, min(start + step, size))
            for tensor, size in enumerate(self._sizes)
            for start in range(0, size, step)
        ]

    def rows(self, span: Span) -> npt.NDArray[np.floating]:
        """One row per client: its elements of the span."""
        dtype = self._types[span.tensor]
        result = np.empty((len(self._kept), span.stop - span.start), dtype)
        skip = sum(self._bytes[: span.tensor]) + span.start * dtype.itemsize
        for row, kept in zip(result, self._kept, strict=True):
            if kept.vectors is not None:
                row[:] = kept.vectors[span.tensor][span.start : span.stop]
            else:
                assert self._file is not None
                os.preadv(self._file.fileno(), [row.data.cast("B")], kept.offset + skip)
        return result

    def model(self, client: int) -> Model:
        """One of the updates as it was given."""
        kept = self._kept[client]
        if kept.vectors is not None:
            return self.example.like(kept.vectors)
        assert self._file is not None
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        vectors: list[Vector] = []
        offset = kept.offset
        for size, dtype in zip(self._sizes, self._types, strict=True):
            values: Vector = np.frombuffer(mapped, dtype, size, offset)  # type: ignore[assignment]
            vectors.append(values)
            offset += size * dtype.itemsize
        return self.example.like(vectors)

    def empty(self) -> list[Vector]:
        """Uninitialised arrays for a result of the same layout."""
        return [np.empty(size, dtype) for size, dtype in zip(self._sizes, self._types, strict=True)]

    def close(self) -> None:
        self._kept = []
        if self._file is not None:
            self._file.close()
            self._file = None


def _is_file(model: Model) -> bool:
    owners = [owner(values) for values in model.vectors]
    return all(isinstance(one, mmap.mmap) and not isinstance(one, Memory) for one in owners)
