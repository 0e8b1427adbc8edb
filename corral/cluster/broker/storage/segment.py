"""One segment of a partition: batches in a row, and where they are."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from corral.cluster.broker.storage import batches
from corral.cluster.broker.storage.batches import HEADER, Batch
from corral.cluster.broker.storage.files import FileSlice, OpenFile, replace_file, sync_folder
from corral.cluster.broker.storage.index import Index, State, pack_state, unpack_state
from corral.cluster.broker.storage.producers import Producers

__all__ = ["Segment"]

_BLOCK: Final = 2**20
_SCAN: Final = 16 * 2**10
_NO_TIME: Final = -1


class Segment:
    """Its size, end and index are always those of whole batches."""

    def __init__(self, folder: Path, base: int) -> None:
        self.base = base
        self.path = folder / f"{base:020d}.log"
        self.state_path = self.path.with_suffix(".state")
        self.size = 0
        self.next_offset = base
        self.max_timestamp = _NO_TIME
        self.made = time.time()
        """When its first batch came, as far as this process knows."""
        self.synced = 0
        """Bytes that would survive a loss of power."""
        self.kept = 0
        """Bytes that the state on disk knows of."""
        self.sealed: list[Any] | None = None
        """What producers had sent when it was full; None: it is being written, or was loaded."""
        self._index: Index | None = Index()
        self._file: OpenFile | None = None
        self.used = 0.0

    # -- opening ---------------------------------------------------------------------------------

    @classmethod
    def opened(cls, folder: Path, base: int) -> tuple[Segment, State | None]:
        """A segment on disk, as far as its state knows it; `recover` does the rest."""
        segment = cls(folder, base)
        try:
            state = unpack_state(segment.state_path.read_bytes())
        except FileNotFoundError:
            state = None
        length = segment.path.stat().st_size
        if state is None or not 0 <= state.size <= length or state.next_offset < base:
            return segment, None
        segment.size = segment.synced = segment.kept = state.size
        segment.next_offset = state.next_offset
        segment.max_timestamp = state.max_timestamp
        segment._index = state.index
        return segment, state

    def recover(self, producers: Producers) -> int:
        """Read what is behind the known part; cut off what is not whole. Says how many bytes."""
        length = self.path.stat().st_size
        now = time.time()
        place, data = self.size, b""
        while place < length:
            batch = batches.parse(data)
            if batch is None or batch.size > len(data):
                wanted = max(_BLOCK, batch.size if batch else 0)
                more = os.pread(self.file.fd, min(wanted, length - place), place)
                if len(more) <= len(data):
                    break
                data = more
                continue
            if batch.base_offset != self.next_offset or not batches.is_whole(data, batch):
                break
            producers.note(batch, batch.base_offset, now)
            self._note(batch, batch.base_offset)
            place += batch.size
            data = data[batch.size :]
        cut = length - self.size
        if cut:
            os.ftruncate(self.file.fd, self.size)
            os.fsync(self.file.fd)
        return cut

    @property
    def file(self) -> OpenFile:
        self.used = time.monotonic()
        if self._file is None:
            self._file = OpenFile(self.path)
        return self._file

    @property
    def index(self) -> Index:
        if self._index is None:
            self._index = self._index_again()
        return self._index

    def _index_again(self) -> Index:
        """As it was kept; made anew where somebody took that away."""
        try:
            state = unpack_state(self.state_path.read_bytes())
        except FileNotFoundError:
            state = None
        if state is not None and state.size == self.size:
            return state.index
        index, latest = Index(), _NO_TIME
        for place, batch in self.headers(0):
            index.add(batch.base_offset, place, latest)
            latest = max(latest, batch.max_timestamp)
        return index

    def rest(self, before: float) -> None:
        """Let go of the file, and of an index that is on disk, when not used since."""
        if self.used < before:
            self._file = None
            if 0 < self.kept == self.size:
                self._index = None

    # -- writing ---------------------------------------------------------------------------------

    def append(self, data: bytes, batch: Batch, offset: int) -> None:
        """Write one batch at the end. Raises OSError, and then nothing has been written."""
        fd = self.file.fd
        front = batches.prefix(data, offset)
        parts = [memoryview(front), memoryview(data)[len(front) :]]
        place = self.size
        try:
            while parts:
                written = os.pwritev(fd, parts, place)
                place += written
                while parts and written >= len(parts[0]):
                    written -= len(parts.pop(0))
                if parts:
                    parts[0] = parts[0][written:]
        except OSError:
            os.ftruncate(fd, self.size)
            raise
        self._note(batch, offset)

    def _note(self, batch: Batch, offset: int) -> None:
        self.index.add(offset, self.size, self.max_timestamp)
        self.size += batch.size
        self.next_offset = offset + batch.last_delta + 1
        self.max_timestamp = max(self.max_timestamp, batch.max_timestamp)

    def sync(self, file: OpenFile, size: int) -> None:
        """Have its first bytes survive a loss of power. May run in another thread."""
        os.fdatasync(file.fd)
        if not self.synced:
            # its name, and those of the partition's and the topic's folders
            for folder in tuple(self.path.parents)[:3]:
                sync_folder(folder)
        self.synced = max(self.synced, size)

    def state(self, producers: Producers) -> bytes:
        """What `keep` writes, once the bytes it speaks of are synced."""
        sent = producers.to_json() if self.sealed is None else self.sealed
        return pack_state(State(self.size, self.next_offset, self.max_timestamp, self.index, sent))

    def keep(self, packed: bytes, size: int) -> None:
        """Write the state. May run in another thread."""
        replace_file(self.state_path, packed, sync=False)
        self.kept = size

    def remove(self) -> None:
        """Unlink it; slices of it can be read on."""
        self._file = None
        self.path.unlink(missing_ok=True)
        self.state_path.unlink(missing_ok=True)

    # -- reading ---------------------------------------------------------------------------------

    def find(self, offset: int) -> tuple[int, int] | None:
        """Place and size of the batch with an offset, or of the first one after it."""
        for place, batch in self.headers(self.index.place_of(offset)):
            if batch.next_offset > offset:
                return place, batch.size
        return None

    def at_time(self, timestamp: int) -> tuple[int, int] | None:
        """Offset and time of the first record at or after a time."""
        if self.max_timestamp < timestamp:
            return None
        for place, batch in self.headers(self.index.place_at(timestamp)):
            if batch.max_timestamp >= timestamp:
                data = self.slice(place, batch.size).read()
                return batches.first_at(data, batch, timestamp)
        return None

    def headers(self, place: int) -> Iterator[tuple[int, Batch]]:
        """The batches from a place on."""
        block, data = place, b""
        while place < self.size:
            if place - block + HEADER > len(data):
                # one header first: where batches are large, the next is far away
                length = _SCAN if data else HEADER
                block, data = place, os.pread(self.file.fd, min(length, self.size - place), place)
            batch = batches.parse(data, place - block)
            if batch is None:
                raise OSError(f"{self.path}: no batch at {place}")
            yield place, batch
            place += batch.size

    def slice(self, place: int, size: int) -> FileSlice:
        return FileSlice(self.file, place, size)
