"""Where in a segment an offset or a time is: one entry for every few kilobytes."""

from __future__ import annotations

import sys
import zlib
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

__all__ = ["INTERVAL", "Index", "State", "pack_state", "unpack_state"]

INTERVAL: Final = 16 * 2**10
"""Bytes of batches without an entry, at most (a batch is never cut)."""


def _numbers() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Index:
    """Entries: the first offset of a batch, its place, and the largest time before it."""

    offsets: array[int] = field(default_factory=_numbers)
    places: array[int] = field(default_factory=_numbers)
    times: array[int] = field(default_factory=_numbers)

    def add(self, offset: int, place: int, time_before: int) -> None:
        """Note a batch, if the last one noted is far enough behind."""
        if not self.places or place - self.places[-1] >= INTERVAL:
            self.offsets.append(offset)
            self.places.append(place)
            self.times.append(time_before)

    def place_of(self, offset: int) -> int:
        """From where to look for the batch with an offset."""
        number = bisect_right(self.offsets, offset) - 1
        return self.places[number] if number >= 0 else 0

    def place_at(self, timestamp: int) -> int:
        """From where to look for the first record at or after a time."""
        number = bisect_left(self.times, timestamp) - 1
        return self.places[number] if number >= 0 else 0


@dataclass(slots=True)
class State:
    """How far a segment is known to be whole, and what is known about that part."""

    size: int
    next_offset: int
    max_timestamp: int
    index: Index
    producers: list[Any]


def pack_state(state: State) -> bytes:
    arrays = [state.index.offsets, state.index.places, state.index.times]
    head = orjson.dumps(
        {
            "size": state.size,
            "next": state.next_offset,
            "time": state.max_timestamp,
            "entries": len(arrays[0]),
            "order": sys.byteorder,
            "producers": state.producers,
        }
    )
    body = head + b"\n" + b"".join(numbers.tobytes() for numbers in arrays)
    return b"%08x\n" % zlib.crc32(body) + body


def unpack_state(data: bytes) -> State | None:
    """None where it is damaged, or not ours."""
    try:
        crc, body = data.split(b"\n", 1)
        if int(crc, 16) != zlib.crc32(body):
            return None
        text, packed = body.split(b"\n", 1)
        head = orjson.loads(text)
        entries = int(head["entries"])
        if head["order"] != sys.byteorder or len(packed) != entries * 24:
            return None
        arrays = [_numbers(), _numbers(), _numbers()]
        for number, numbers in enumerate(arrays):
            numbers.frombytes(packed[number * entries * 8 : (number + 1) * entries * 8])
        return State(head["size"], head["next"], head["time"], Index(*arrays), head["producers"])
    except (ValueError, KeyError, TypeError):
        return None
