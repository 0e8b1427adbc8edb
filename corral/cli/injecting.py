"""Puts samples into topics, at a rate, and says which messages they became."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from corral.cli.samples import Samples, Shard
from corral.podtools.kafka.client import Access, Sender, Topic, ensure
from corral.podtools.kafka.ranges import Range
from corral.podtools.kafka.records import raw_bytes
from corral.podtools.kafka.weights import Part

__all__ = ["inject", "joined", "topic_of"]

_BATCH: Final = 500
_ROOM: Final = 100_000
"""Bytes of a message beyond its sample."""


def topic_of(template: str, number: int) -> str:
    """``{shard}`` is the number of the shard; without it all shards are in one topic."""
    return template.replace("{shard}", str(number))


def inject(
    access: Access,
    template: str,
    samples: Samples,
    shard: Shard,
    *,
    rate: float,
    patience: float,
    sent: Callable[[int], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Range]:
    """Send a shard and wait until it is stored. Raises KafkaError.

    ``rate``: messages a second; as fast as it goes if 0. ``sent`` is told how many are stored.
    """
    topic = topic_of(template, shard.number)
    largest = samples.x[0].nbytes + samples.y[:1].nbytes + _ROOM
    ensure(access, [Topic(topic, max(largest, 1_000_000))], patience=patience)
    size = max(1, min(_BATCH, int(rate / 10))) if rate else _BATCH
    ranges: list[Range] = []
    begun, count = clock(), 0
    with Sender(access, patience=patience) as sender:
        for batch in _batches(samples, shard, size):
            if rate and (wait := begun + count / rate - clock()) > 0:
                sleep(wait)
            ranges.append(sender.send_all(topic, batch))
            count += len(batch)
            sent(len(batch))
    return joined(ranges)


def _batches(samples: Samples, shard: Shard, size: int) -> Iterator[list[Part]]:
    for start in range(0, len(shard.rows), size):
        rows = shard.rows[start : start + size]
        yield [Part(raw_bytes(samples.y[n]), raw_bytes(samples.x[n]), ()) for n in rows]


def joined(ranges: list[Range]) -> list[Range]:
    """Ranges that follow each other as one."""
    out: list[Range] = []
    for found in ranges:
        last = out[-1] if out else None
        if last and (last.topic, last.partition, last.end) == (
            found.topic,
            found.partition,
            found.start,
        ):
            out[-1] = Range(last.topic, last.partition, last.start, found.end)
        else:
            out.append(found)
    return out
