"""Record batches (magic 2) as bytes: headers, checks, the offset they get; never re-encoded."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from crc32c import crc32c

from corral.cluster.broker.errors import BrokerError, ErrorCode

__all__ = ["HEADER", "PREFIX", "Batch", "accepted", "batches_in", "first_at", "parse", "prefix"]

_HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER: Final = _HEADER.size
PREFIX: Final = 12
"""Bytes before those that a batch's length counts."""
_CRC_FROM: Final = 21
_CODEC: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_CODECS: Final = 5
_GZIP: Final = 1
_FRONT: Final = Struct(">qii")


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of a batch."""

    base_offset: int
    size: int
    """All its bytes."""
    crc: int
    attributes: int
    last_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences go round after the largest number."""
        return (self.base_sequence + self.last_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC


def parse(data: bytes | memoryview, at: int = 0) -> Batch | None:
    """The header at a place; None where there is none, or not the whole of it."""
    if len(data) - at < HEADER:
        return None
    base, length, _epoch, magic, crc, *rest = _HEADER.unpack_from(data, at)
    if magic != 2 or length + PREFIX < HEADER or base < 0:
        return None
    batch = Batch(base, length + PREFIX, crc, *rest)
    return batch if batch.last_delta >= 0 and batch.count >= 0 else None


def is_whole(data: bytes | memoryview, batch: Batch, at: int = 0) -> bool:
    """Whether all its bytes are there and are those that were sent."""
    end = at + batch.size
    return end <= len(data) and crc32c(memoryview(data)[at + _CRC_FROM : end]) == batch.crc


def batches_in(data: bytes | memoryview) -> Iterator[tuple[int, Batch]]:
    """The headers in a run of batches, with their places; stops where one is cut off."""
    at = 0
    while (batch := parse(data, at)) is not None:
        yield at, batch
        at += batch.size


def accepted(data: bytes, *, max_bytes: int) -> Batch:
    """The one batch that a producer sent. Raises BrokerError."""
    if len(data) > max_bytes:
        raise BrokerError(
            ErrorCode.message_too_large,
            f"the batch has {len(data)} bytes, and max.message.bytes of the topic is {max_bytes}",
        )
    batch = parse(data)
    if batch is None:
        if len(data) > 16 and data[16] in (0, 1):
            raise BrokerError(
                ErrorCode.unsupported_for_message_format, "only record batches of magic 2 are kept"
            )
        raise BrokerError(ErrorCode.corrupt_message, "this is no record batch")
    if batch.size != len(data):
        raise BrokerError(ErrorCode.invalid_record, "exactly one batch for each partition")
    if not is_whole(data, batch):
        raise BrokerError(ErrorCode.corrupt_message, "the checksum of the batch is another one")
    _check(batch)
    return batch


def _check(batch: Batch) -> None:
    if batch.count < 1 or batch.last_delta != batch.count - 1 or batch.base_offset != 0:
        raise BrokerError(ErrorCode.invalid_record, "the offsets in the batch are no row from 0")
    if batch.attributes & (_TRANSACTIONAL | _CONTROL):
        raise BrokerError(ErrorCode.invalid_record, "this broker has no transactions")
    if batch.attributes & _LOG_APPEND_TIME:
        raise BrokerError(ErrorCode.invalid_timestamp, "producers set the time of creation only")
    if batch.codec == 0 and batch.count * _SHORTEST > batch.size - HEADER:
        raise BrokerError(ErrorCode.invalid_record, "the batch has fewer records than it says")
    if batch.codec >= _CODECS:
        raise BrokerError(ErrorCode.unsupported_compression_type)
    if batch.producer_id >= 0 and (batch.producer_epoch < 0 or batch.base_sequence < 0):
        raise BrokerError(ErrorCode.invalid_record, "an idempotent batch without a sequence")


def prefix(data: bytes | memoryview, base_offset: int) -> bytes:
    """What stands before the checksummed part, with the offset the batch gets."""
    return _FRONT.pack(base_offset, len(data) - PREFIX, 0)


def first_at(data: bytes, batch: Batch, timestamp: int) -> tuple[int, int]:
    """The first record of a whole batch at or after a time, as offset and time.

    Batches compressed by what this process cannot undo, and long ones, are answered by their first
    record: who reads from there misses nothing.
    """
    records = _records(data, batch)
    if records is None:
        return batch.base_offset, batch.base_timestamp
    at = 0
    for _ in range(min(batch.count, _LOOKED_AT)):
        if at >= len(records):
            break
        length, at = _varint(records, at)
        if length < 0:
            break
        end = at + length
        time_delta, at = _varint(records, at + 1)
        offset_delta, at = _varint(records, at)
        if batch.base_timestamp + time_delta >= timestamp:
            return batch.base_offset + offset_delta, batch.base_timestamp + time_delta
        at = end
    return batch.base_offset, batch.base_timestamp


_UNPACKED: Final = 4 * 2**20
"""Bytes that a batch is unpacked to; a longer one is not looked through."""
_LOOKED_AT: Final = 50_000
"""Records of one batch."""
_SHORTEST: Final = 7
"""Bytes of a record that is not compressed."""


def _records(data: bytes, batch: Batch) -> bytes | None:
    packed = data[HEADER : batch.size]
    if batch.codec == 0:
        return packed
    if batch.codec != _GZIP:
        return None
    unpack = zlib.decompressobj(wbits=31)
    try:
        records = unpack.decompress(packed, _UNPACKED)
    except (zlib.error, gzip.BadGzipFile):
        return None
    return None if unpack.unconsumed_tail else records


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A signed number and the place behind it. What is cut off is 0, at the end."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return (value >> 1) ^ -(value & 1), at
