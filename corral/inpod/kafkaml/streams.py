"""Data that goes on: what has come to a topic since the last update, as something to train on.

How far a client has read is kept by the broker, and told to it when an update is sent: after a
crash nothing is left out, and no more than the records of one update are taken again.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corral.inpod.kafkaml.feeds import Feed
from corral.inpod.kafkaml.kafka import Record
from corral.inpod.kafkaml.records import RecordError, decoder

__all__ = ["MOST", "Stream", "readable", "seconds"]

logger = logging.getLogger(__name__)

Array = NDArray[Any]
MOST: Final = 65_536
"""Records of one update; what is more waits for the next."""


class Stream(Feed):
    """One client's topic."""

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
