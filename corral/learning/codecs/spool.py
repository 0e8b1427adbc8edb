"""Payloads that arrive in chunks: kept in memory while small, in a file when large.

`Spool` holds at most `limit` bytes in memory; a larger payload is a file without a name that is
mapped for decoding, so an update of any size passes through little memory, and is gone when the
last view on it is.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import AsyncIterable, Iterable
from pathlib import Path
from typing import IO

from corral.learning.codecs.base import Bytes, Codec
from corral.learning.errors import UpdateRejected
from corral.learning.tensors import Model

MEMORY_LIMIT = 8 << 20


class Spool:
    """Collects one payload; `size` is what was announced, None when nothing was."""

    def __init__(
        self, size: int | None = None, *, folder: Path | None = None, limit: int = MEMORY_LIMIT
    ) -> None:
        self._expected = size
        self._folder = folder
        self._limit = limit
        self._memory = bytearray()
        self._file: IO[bytes] | None = None
        self.received = 0

    def feed(self, chunk: Bytes) -> None:
        self.received += memoryview(chunk).nbytes
        if self._expected is not None and self.received > self._expected:
            raise UpdateRejected(f"more than the {self._expected} bytes that were announced")
        if self._file is None and self.received > self._limit:
            self._file = tempfile.TemporaryFile(dir=self._folder)
            self._file.write(self._memory)
            self._memory = bytearray()
        if self._file is not None:
            self._file.write(chunk)
        else:
            self._memory += chunk

    def finish(self) -> memoryview:
        """Everything that was received, as a read-only view."""
        if self._expected is not None and self.received != self._expected:
            raise UpdateRejected(f"{self.received} of {self._expected} bytes arrived")
        if self._file is None:
            return memoryview(bytes(self._memory))
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self.close()
        return memoryview(mapped)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def decode_chunks(codec: Codec, chunks: Iterable[Bytes], *, spool: Spool) -> Model:
    try:
        for chunk in chunks:
            spool.feed(chunk)
        return codec.decode(spool.finish())
    finally:
        spool.close()


async def decode_stream(codec: Codec, chunks: AsyncIterable[Bytes], *, spool: Spool) -> Model:
    """The model whose bytes come chunk by chunk."""
    try:
        async for chunk in chunks:
            spool.feed(chunk)
        return codec.decode(spool.finish())
    finally:
        spool.close()
