"""Data that goes on: what has come to a topic since the last update, as something to train on.

How far a client has read is said by its updates: what was sent was read, and nothing else was. So
after a crash nothing is left out, and nothing is taken again.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corral.podtools.kafka.client import Record
from corral.podtools.kafka.feeds import Feed
from corral.podtools.kafka.messages import ClientControl
from corral.podtools.kafka.ranges import Range, parse_ranges, ranges_text
from corral.podtools.kafka.records import RecordError, decoder

__all__ = ["MOST", "Stream", "read_so_far", "readable", "seconds"]

logger = logging.getLogger(__name__)

Array = NDArray[Any]
MOST: Final = 65_536
"""Records of one update; what is more waits for the next."""


class Stream(Feed):
    """The topic that one client reads its data from."""

    @property
    def reached(self) -> str:
        """How far it was read, as ranges from the first message on."""
        return ranges_text(
            Range(self.topic, n, 0, end) for n, end in sorted(self.positions.items())
        )

    def gather(self, *, least: int, silence: float, most: int = MOST) -> list[Record]:
        """What has come, when there is enough of it; nothing where the stream is over.

        Args:
            least: records that are waited for.
            silence: seconds without a record after which it is over; math.inf: never.
            most: records that are taken at once.

        Raises:
            KafkaError: it cannot be read.
        """
        found: list[Record] = []
        heard = time.monotonic()
        while len(found) < most:
            new = self.take(min(most - len(found), 1000), 0.0 if len(found) >= least else 0.5)
            found += new
            if new:
                heard = time.monotonic()
            elif len(found) >= least:
                break
            elif time.monotonic() - heard >= silence:
                if not self.behind():
                    break
                heard = time.monotonic()
        return found


def read_so_far(
    messages: Iterable[tuple[bytes | None, bytes | None]], key: bytes, topic: str
) -> dict[int, int]:
    """By partition, the first record that no update of a client was of.

    ``messages`` are those of all clients, each with its key; ``key`` is the client's.
    """
    out: dict[int, int] = {}
    for who, message in messages:
        if who != key:
            continue
        try:
            text = ClientControl.decode(message).data
            found = parse_ranges(text) if text else []
        except ValueError as error:
            logger.warning("an update says nothing of what it was of: %s", error)
            continue
        for part in found:
            if part.topic == topic:
                out[part.partition] = max(part.end, out.get(part.partition, 0))
    return out


def seconds(milliseconds: Any) -> float:
    """A time as settings say it: -1 is for ever."""
    value = float(milliseconds) if isinstance(milliseconds, int | float) else 60_000.0
    return math.inf if value < 0 else value / 1000


def readable(
    records: Iterable[Record], format_: str, config: Mapping[str, Any]
) -> tuple[Array, Array] | None:
    """Samples and labels of those that can be read; none where that is none of them."""
    read_data, read_label = decoder(format_, config, "data"), decoder(format_, config, "label")
    samples: list[Array] = []
    labels: list[Array] = []
    for record in records:
        try:
            if record.key is None or record.value is None:
                raise RecordError(f"it has no {'key' if record.key is None else 'value'}")
            sample, label = read_data(record.value), read_label(record.key)
            if samples and (sample.shape, label.shape) != (samples[0].shape, labels[0].shape):
                raise RecordError("its shape differs from the others'")
        except RecordError as error:
            logger.warning("record %d is left out: %s", record.offset, error)
            continue
        samples.append(sample)
        labels.append(label)
    return (np.stack(samples), np.stack(labels)) if samples else None
