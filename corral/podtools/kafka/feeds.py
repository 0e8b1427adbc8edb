"""A topic that goes on: all of its partitions, from where somebody has read them before.

Where that is, is kept by whoever reads (`positions`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import KafkaError as Cause

from corral.podtools.kafka.client import (
    LOST,
    LOST_AFTER,
    PASSING,
    PATIENCE,
    Access,
    KafkaError,
    Record,
    TopicLost,
    ends,
    record_of,
)

__all__ = ["Feed"]


class Feed:
    """What has come to a topic since it was read last, and what comes."""

    def __init__(
        self,
        access: Access,
        topic: str,
        *,
        positions: Mapping[int, int] | None = None,
        patience: float = PATIENCE,
        absent: float | None = None,
    ) -> None:
        """Asks the broker what there is.

        Args:
            access: the cluster.
            topic: its name.
            positions: by partition, the first message that was not read yet.
            patience: seconds for which the broker is tried.
            absent: seconds for which a topic that is not there is waited for; as patience without.

        Raises:
            KafkaError: the broker does not say.
            TopicLost: there is no such topic.
        """
        self.topic = topic
        self._access = access
        self._patience = patience
        self._lost_since = math.inf
        there = ends(access, topic, patience=patience, absent=absent)
        self._consumer = Consumer(
            {
                **access.settings(),
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": 16_384,
                "allow.auto.create.topics": False,
            }
        )
        known = positions or {}
        self.positions = {
            # a topic that was made anew is read from its beginning
            part.partition: start if part.start <= start <= part.end else part.start
            for part in there
            for start in (known.get(part.partition, part.start),)
        }
        self._consumer.assign(
            [TopicPartition(topic, *place) for place in sorted(self.positions.items())]
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def take(self, most: int, seconds: float = 0.0) -> list[Record]:
        """What has come, at most so many; waits for the first, and not at all for 0 seconds.

        Raises:
            KafkaError: it cannot be read. A broker that is away for a while is no fault.
            TopicLost: the topic is gone.
        """
        out = []
        for message in self._consumer.consume(most, timeout=seconds):
            raw: Any = message
            error = raw.error()
            if error is None:
                self._lost_since = math.inf
                self.positions[raw.partition()] = raw.offset() + 1
                out.append(record_of(message))
            else:
                self._judge(error)
        return out

    def _judge(self, error: Any) -> None:
        if error.code() in LOST:
            # a broker that starts learns of its topics one by one
            self._lost_since = min(self._lost_since, time.monotonic())
            if time.monotonic() - self._lost_since > LOST_AFTER:
                raise TopicLost(f"{self.topic} is not at {self._access.servers}: {error.str()}")
        elif error.code() not in (*PASSING, Cause._PARTITION_EOF) and not error.retriable():
            why = f"{self.topic} at {self._access.servers} cannot be read: {error.str()}"
            raise KafkaError(why)

    def behind(self) -> bool:
        """Whether there is more than was taken; waits for a broker that is away.

        Raises:
            KafkaError: it does not come back.
            TopicLost: the topic is gone.
        """
        there = ends(self._access, self.topic, patience=self._patience)
        return any(part.end > self.positions.get(part.partition, part.start) for part in there)
