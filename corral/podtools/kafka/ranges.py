"""Messages of topics as texts: ``topic:partition:start:end[,…]``; the end is exclusive."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["Range", "parse_ranges", "ranges_text"]

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PARTITIONS: Final = 1 << 31
_OFFSETS: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Range:
    """Messages of one partition; ``end`` is the first that is not meant."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.start}:{self.end}"

    def __len__(self) -> int:
        return self.end - self.start


def parse_ranges(text: str) -> list[Range]:
    """Raises ValueError that says what is wrong."""
    out = []
    for part in text.split(","):
        words = part.strip().split(":")
        if len(words) != 4 or not all(word.isdecimal() for word in words[1:]):
            raise ValueError(f"{part!r} is not topic:partition:start:end")
        topic, partition, start, end = words[0], *map(int, words[1:])
        if not _TOPIC.fullmatch(topic):
            raise ValueError(f"{topic!r} is no name of a topic")
        if partition >= _PARTITIONS or end >= _OFFSETS:
            raise ValueError(f"{part[:200]!r} names messages that no topic can have")
        if end < start:
            raise ValueError(f"{part!r} ends before it starts")
        out.append(Range(topic, partition, start, end))
    return out


def ranges_text(ranges: Iterable[Range]) -> str:
    return ",".join(map(str, ranges))
