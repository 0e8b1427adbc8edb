"""A partition: a row of segments, read from anywhere and written at the end.

All of it runs in the event loop, but for `flush` and `checkpoint`, whose slow parts run in threads.
Writes go to the operating system before they are acknowledged, so they survive the process; when
they go to the disk is said by ``flush.messages`` and ``flush.ms``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from corral.cluster.broker.errors import BrokerError, ErrorCode
from corral.cluster.broker.settings import Limits
from corral.cluster.broker.storage import batches
from corral.cluster.broker.storage.files import FileSlice, OpenFile, replace_file
from corral.cluster.broker.storage.producers import Producers
from corral.cluster.broker.storage.segment import Segment
from corral.cluster.broker.storage.usage import Usage
from corral.cluster.broker.topicconfig import TopicConfig

__all__ = ["Appended", "PartitionLog"]

logger = logging.getLogger(__name__)

_RESTS: Final = 60.0
"""Seconds after which a file that nobody reads is closed."""


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a batch is."""

    base_offset: int
    duplicate: bool = False


class PartitionLog:
    """Offsets from `start` to `end`, the latter not included."""

    def __init__(
        self, folder: Path, config: TopicConfig, limits: Limits, usage: Usage | None = None
    ) -> None:
        self.folder = folder
        self._usage = usage or Usage(2**63)
        """Bytes that it has together with others."""
        self.config = config
        self._limits = limits
        self._producers = Producers(limits.producers, self._usage)
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._waiters: set[Callable[[], None]] = set()
        self._unflushed = 0
        self._flushed_at = time.monotonic()
        self._flushing: asyncio.Task[None] | None = None
        self._deleted = False
        self._closing = False
        self.start = 0
        self._open()
        self._usage.size += self.size

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        bases = sorted(int(path.stem) for path in self.folder.glob("*.log"))
        for base in bases:
            segment, state = Segment.opened(self.folder, base)
            if state is not None:
                try:
                    held = Producers.from_json(state.producers, self._limits.producers, self._usage)
                    self._producers.clear()
                    self._producers = held
                except (ValueError, TypeError):
                    segment = Segment(self.folder, base)
            if self._segments and self._segments[-1].next_offset != base:
                self._drop_from(base, bases)
                break
            cut = segment.recover(self._producers)
            if cut:
                logger.warning("%s: cut off %d bytes that were not whole", segment.path, cut)
            self._add(segment)
        if not self._segments:
            self._add(Segment(self.folder, self._kept_start()))
        self.start = min(max(self._kept_start(), self._bases[0]), self.end)

    def _drop_from(self, base: int, bases: list[int]) -> None:
        """What comes after a gap was never acknowledged as a row: it cannot be kept."""
        lost = [other for other in bases if other >= base]
        logger.error("%s: a gap before %d; set aside %d segments", self.folder, base, len(lost))
        for other in lost:
            path = self.folder / f"{other:020d}.log"
            path.rename(path.with_suffix(".lost"))

    def _add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base)

    @property
    def end(self) -> int:
        return self._segments[-1].next_offset

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    # -- writing ---------------------------------------------------------------------------------

    def _check_disk(self, more: int) -> None:
        """Raises BrokerError, after which clients try again, where too little is free."""
        disk = os.statvfs(self.folder)
        left = disk.f_bavail * disk.f_frsize - more
        if left < min(self._limits.disk_reserve, disk.f_blocks * disk.f_frsize // 20):
            raise BrokerError(
                ErrorCode.kafka_storage_error,
                f"the broker's disk is almost full ({max(left, 0) >> 20} MiB are left): free some, "
                "delete topics, or have records kept for less long (retention.ms)",
            )

    def append(self, data: bytes) -> Appended:
        """Write a batch, if it is not there already.

        Raises:
            BrokerError: it is refused, or cannot be written; nothing has been.
        """
        if self._deleted:
            raise BrokerError(ErrorCode.unknown_topic_or_partition)
        batch = batches.accepted(data, max_bytes=self.config.max_message_bytes)
        earlier = self._producers.check(batch)
        if earlier is not None:
            return Appended(earlier.base_offset, duplicate=True)
        self._usage.check(batch.size)
        self._check_disk(batch.size)
        offset = self.end
        try:
            self._active(batch.size).append(data, batch, offset)
        except OSError as err:
            logger.error("%s: cannot write: %s", self.folder, err)
            raise BrokerError(ErrorCode.kafka_storage_error, f"cannot write: {err}") from err
        self._usage.size += batch.size
        self._producers.note(batch, offset, time.time())
        self._unflushed += batch.count
        for wake in tuple(self._waiters):
            wake()
        return Appended(offset)

    def _active(self, size: int) -> Segment:
        active = self._segments[-1]
        old = time.time() - active.made > self.config.segment_ms / 1000
        if active.size and (active.size + size > self.config.segment_bytes or old):
            active.sealed = self._producers.to_json()
            active = Segment(self.folder, active.next_offset)
            self._add(active)
        return active

    @property
    def must_flush(self) -> bool:
        """Whether what was written has to be on disk before it is acknowledged."""
        return self._unflushed >= self.config.flush_messages

    async def flush(self) -> None:
        """Have what is written now survive a loss of power. Raises BrokerError."""
        try:
            while self._flushing is not None:
                await asyncio.shield(self._flushing)
            if self._unflushed:
                self._flushing = asyncio.create_task(self._flush())
                await asyncio.shield(self._flushing)
        except OSError as err:
            raise BrokerError(ErrorCode.kafka_storage_error, f"cannot flush: {err}") from err

    async def _flush(self) -> None:
        """Also notes how far the segments are known to be whole."""
        behind, self._unflushed = self._unflushed, 0
        try:
            for segment in [s for s in self._segments if s.kept < s.size]:
                packed = segment.state(self._producers) if self._keeps(segment) else None
                await asyncio.to_thread(_sync, segment, segment.file, segment.size, packed)
        except OSError:
            if self._deleted:
                return  # its folder is gone
            self._unflushed += behind
            raise
        finally:
            self._flushing = None
        self._flushed_at = time.monotonic()

    def _keeps(self, segment: Segment) -> bool:
        """A state is as long as the segment: not one for every few messages."""
        far = segment.size - segment.kept >= self.config.segment_bytes // 8
        return far or segment.sealed is not None or self._closing

    # -- reading ---------------------------------------------------------------------------------

    def read(self, offset: int, limit: int, *, whole_first: bool) -> FileSlice | None:
        """Batches from the one with an offset on; None when there are none.

        The last one may be cut, as the protocol has it; the first is whole where asked for,
        whatever the limit. Raises BrokerError when the offset is out of range.
        """
        if not self.start <= offset <= self.end:
            raise BrokerError(
                ErrorCode.offset_out_of_range,
                f"offset {offset} is not in {self.start}..{self.end}",
            )
        number = bisect_right(self._bases, offset) - 1
        segment = self._segments[number]
        found = segment.find(offset)
        if found is None:
            return None
        place, first = found
        if first > limit:
            return segment.slice(place, first) if whole_first else None
        return segment.slice(place, min(limit, segment.size - place))

    def offset_at(self, timestamp: int) -> tuple[int, int] | None:
        """Offset and time of the first record at or after a time."""
        for segment in self._segments:
            found = segment.at_time(timestamp)
            if found is not None and found[0] >= self.start:
                return found
            if found is not None and segment.next_offset > self.start:
                return self.start, found[1]
        return None

    def latest_time(self) -> tuple[int, int] | None:
        """Offset and time of the record with the largest time."""
        latest = max(self._segments, key=lambda segment: segment.max_timestamp)
        return latest.at_time(latest.max_timestamp) if latest.size else None

    def on_change(self, wake: Callable[[], None]) -> None:
        """Call something after every batch, until `forget`, and when the partition goes."""
        self._waiters.add(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        self._waiters.discard(wake)

    # -- removing --------------------------------------------------------------------------------

    def delete_before(self, offset: int) -> int:
        """Forget records before an offset (-1: all); says where the log starts now."""
        wanted = self.end if offset == -1 else offset
        if not 0 <= wanted <= self.end:
            raise BrokerError(
                ErrorCode.offset_out_of_range, f"there is no record before {offset} to delete"
            )
        if wanted > self.start:
            self._keep_start(wanted)
        return self.start

    def retain(self, now: float) -> None:
        """Remove segments that are too old, or too many bytes ago. ``now`` is a Unix time."""
        oldest = (now * 1000) - self.config.retention_ms if self.config.retention_ms >= 0 else None
        excess = self.size - self.config.retention_bytes if self.config.retention_bytes >= 0 else 0
        start = self.start
        for segment in self._segments:
            expired = oldest is not None and 0 <= segment.max_timestamp < oldest
            too_many = excess >= segment.size > 0 and segment is not self._segments[-1]
            if not segment.size or not (expired or too_many):
                break
            excess -= segment.size
            start = segment.next_offset
        if start > self.start:
            self._keep_start(start)

    def _keep_start(self, offset: int) -> None:
        replace_file(self.folder / "start.json", orjson.dumps({"start": offset}))
        self.start = offset
        if self._segments[-1].size and self.start == self.end:
            self._add(Segment(self.folder, self.end))
            _ = self._segments[-1].file  # its name keeps the end, when all before it is gone
        while len(self._segments) > 1 and self._segments[0].next_offset <= self.start:
            self._bases.pop(0)
            old = self._segments.pop(0)
            self._usage.size -= old.size
            old.remove()

    def _kept_start(self) -> int:
        try:
            return int(orjson.loads((self.folder / "start.json").read_bytes())["start"])
        except FileNotFoundError:
            return 0

    def delete(self) -> None:
        """The topic goes: who waits is woken, nothing is written any more."""
        if not self._deleted:
            self._usage.size -= self.size
            self._producers.clear()
        self._deleted = True
        for wake in tuple(self._waiters):
            wake()

    @property
    def deleted(self) -> bool:
        return self._deleted

    # -- upkeep ----------------------------------------------------------------------------------

    async def checkpoint(self) -> None:
        """Flush what is due; forget producers and files that nobody used for long."""
        if time.monotonic() - self._flushed_at >= self.config.flush_ms / 1000:
            await self.flush()
        self._producers.forget_before(time.time() - self._limits.producer_age)
        for segment in self._segments:
            segment.rest(time.monotonic() - _RESTS)

    async def close(self) -> None:
        """Flush everything, so that the next start has nothing to check."""
        self._closing = True
        self._unflushed += any(segment.kept < segment.size for segment in self._segments)
        await self.flush()


def _sync(segment: Segment, file: OpenFile, size: int, packed: bytes | None) -> None:
    segment.sync(file, size)
    if packed is not None:
        segment.keep(packed, size)
