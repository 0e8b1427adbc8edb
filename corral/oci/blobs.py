"""Bytes to be stored, in memory or in a file: their digest, and any part of them in pieces."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.oci.errors import DigestMismatch
from corral.oci.manifest import digest_of

__all__ = ["Blob"]

_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes with their digest; a file is never in memory as a whole."""

    source: bytes | Path
    digest: str
    size: int
    stamp: tuple[int, ...] = ()
    """Of a file when it was measured."""

    @classmethod
    async def of(cls, source: bytes | Path) -> Blob:
        """Measure it. Raises OSError where a file cannot be read."""
        if isinstance(source, bytes):
            return cls(source, digest_of(source), len(source))
        return await asyncio.to_thread(_measure, source)

    async def check(self) -> None:
        """Whether a file is still as it was measured. Raises DigestMismatch, OSError."""
        if isinstance(self.source, Path):
            stamp = _stamp(await asyncio.to_thread(os.stat, self.source))
            if stamp != self.stamp:
                raise self._changed()

    async def pieces(self, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes from ``start`` up to ``end``.

        Raises:
            DigestMismatch: the file has become shorter.
        """
        if isinstance(self.source, bytes):
            for place in range(start, end, _PIECE):
                yield self.source[place : min(place + _PIECE, end)]
            return
        file = await asyncio.to_thread(os.open, self.source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while start < end:
                piece = await asyncio.to_thread(os.pread, file, min(_PIECE, end - start), start)
                if not piece:
                    raise self._changed()
                start += len(piece)
                yield piece
        finally:
            os.close(file)

    def _changed(self) -> DigestMismatch:
        return DigestMismatch(
            f"{self.source!s} changed while it was sent: send a file that nobody writes to"
        )


def _measure(path: Path) -> Blob:
    with path.open("rb", buffering=0) as file:
        stamp = _stamp(os.fstat(file.fileno()))
        digest = hashlib.file_digest(file, "sha256")
        return Blob(path, f"sha256:{digest.hexdigest()}", file.tell(), stamp)


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns
