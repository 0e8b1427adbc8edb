"""Kafka as the pods of this family use it: whole ranges are sent and read, topics are made.

Calls block: there is one thing at a time to do in these processes. Everything that cannot be done
within its time raises `KafkaError` with the broker and topic in words.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka import KafkaError as Cause
from confluent_kafka import KafkaException as Failure
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from corral.podtools.kafka.ranges import Range
from corral.podtools.kafka.weights import Array, Part, parts_of

__all__ = [
    "LOST",
    "PASSING",
    "SPARING",
    "Access",
    "Follower",
    "KafkaError",
    "Record",
    "Sender",
    "Topic",
    "TopicLost",
    "check",
    "ends",
    "ensure",
    "read",
    "record_of",
    "remove",
]

PATIENCE: Final = 300.0
"""Seconds for which a broker that does not answer is tried; it may be restarting."""
LARGEST: Final = 10_000_000
"""Bytes of a message of weights, as its topics are made."""
PART: Final = LARGEST - 100_000
"""Bytes of one message of weights, as they are sent."""
AHEAD: Final = 2 * LARGEST
"""Bytes that are fetched before they are asked for: the next message while this one is used."""
SPARING: Final = 4 << 20
"""The same where several models are in memory already."""
LOST_AFTER: Final = 5.0
"""Seconds for which a topic that was made is looked for; a broker that starts learns of it."""


class KafkaError(Exception):
    """What was to be sent or read could not be; one line that says why."""


class TopicLost(KafkaError):
    """A topic, or what it held, is not there any more: no patience brings it back."""


class NotOneRange(KafkaError):
    """Somebody else has written to a topic at the same time."""


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a Kafka cluster."""

    servers: str
    username: str = ""
    password: str = field(default="", repr=False)
    mechanism: str = "SCRAM-SHA-512"

    @classmethod
    def from_environment(
        cls, env: Mapping[str, str], servers: str, *, login: str = "KAFKA"
    ) -> Access:
        """``servers`` names the variable, ``login`` how those of the login begin.

        Where none begins so, they are those of `KAFKA_`. Raises KafkaError.
        """
        if f"{login}_USERNAME" not in env:
            login = "KAFKA"
        where = env.get(servers, "").strip()
        if not where:
            raise KafkaError(f"{servers} is not set: it names the brokers as host:port")
        return cls(
            where,
            env.get(f"{login}_USERNAME", ""),
            env.get(f"{login}_PASSWORD", ""),
            env.get(f"{login}_MECHANISM", "") or "SCRAM-SHA-512",
        )

    def settings(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "reconnect.backoff.max.ms": 2000,
            "log_level": 2,
        }
        if self.username:
            out |= {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        return out


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is made."""

    name: str
    max_bytes: int = 50_000
    partitions: int = 1


@dataclass(frozen=True, slots=True)
class Record:
    """A message that was read."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    time: float
    """Seconds since 1970, where the broker knows."""


def ensure(access: Access, topics: Sequence[Topic], *, patience: float = PATIENCE) -> None:
    """Make what is missing. Raises KafkaError."""
    admin = AdminClient(access.settings())
    wanted = {topic.name: topic for topic in topics}
    until = time.monotonic() + patience
    while wanted:
        made = [
            NewTopic(t.name, t.partitions, config={"max.message.bytes": str(t.max_bytes)})
            for t in wanted.values()
        ]
        why = ""
        for name, future in admin.create_topics(made, request_timeout=10).items():
            try:
                future.result()
                del wanted[name]
            except Failure as error:
                cause = error.args[0]
                if cause.code() == Cause.TOPIC_ALREADY_EXISTS:
                    del wanted[name]
                elif not cause.retriable() and cause.code() not in PASSING:
                    raise KafkaError(f"topic {name} cannot be made: {cause.str()}") from error
                else:
                    why = cause.str()
        if wanted:
            if time.monotonic() > until:
                raise KafkaError(f"topics cannot be made at {access.servers}: {why}")
            time.sleep(0.2)


def remove(access: Access, names: Sequence[str]) -> None:
    """Take topics away; those that are not there are no fault. Raises KafkaError."""
    if not names:
        return
    admin = AdminClient(access.settings())
    for name, future in admin.delete_topics(list(names), request_timeout=30).items():
        try:
            future.result()
        except Failure as error:
            if error.args[0].code() != Cause.UNKNOWN_TOPIC_OR_PART:
                why = error.args[0].str()
                raise KafkaError(f"topic {name} cannot be removed: {why}") from error


PASSING: Final = (
    Cause._TRANSPORT,
    Cause._ALL_BROKERS_DOWN,
    Cause._TIMED_OUT,
    Cause._RESOLVE,
    Cause.REQUEST_TIMED_OUT,
    Cause.NOT_CONTROLLER,
    Cause.LEADER_NOT_AVAILABLE,
    Cause.THROTTLING_QUOTA_EXCEEDED,
)
"""What may be over in a moment."""
LOST: Final = (
    Cause.UNKNOWN_TOPIC_OR_PART,
    Cause._UNKNOWN_TOPIC,
    Cause._UNKNOWN_PARTITION,
    Cause.UNKNOWN_TOPIC_ID,
    Cause.OFFSET_OUT_OF_RANGE,
    Cause._AUTO_OFFSET_RESET,
)
"""What no patience brings back."""
TRIES: Final = 5
"""How often weights are sent again where somebody else wrote between them."""


class Sender:
    """Sends messages that arrive once, in order, or not at all."""

    def __init__(self, access: Access, *, patience: float = PATIENCE) -> None:
        self._access = access
        self._producer = Producer(
            {
                **access.settings(),
                "enable.idempotence": True,
                "acks": "all",
                "message.max.bytes": LARGEST + 200_000,
                "message.timeout.ms": int(patience * 1000),
                "queue.buffering.max.kbytes": 32_768,
                "linger.ms": 2,
            }
        )
        self._patience = patience

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._producer.purge()
        self._producer.flush(5)

    def send(
        self, topic: str, value: bytes, *, key: bytes | None = None, partition: int = 0
    ) -> int:
        """Send one message and wait until it is stored; its offset. Raises KafkaError."""
        return self.send_all(topic, [Part(key or b"", value, ())], keyless=key is None,
                             partition=partition).start  # fmt: skip

    def send_all(
        self,
        topic: str,
        parts: Iterable[Part],
        *,
        keyless: bool = False,
        partition: int = 0,
    ) -> Range:
        """Send messages to one partition and wait until they are stored; where. Raises KafkaError.

        Messages of others in between are a fault: the range is only ours.
        """
        offsets: list[int] = []
        failed: list[Any] = []

        def stored(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)
            else:
                offsets.append(message.offset())

        count = 0
        for part in parts:
            count += 1
            self._put(topic, part, keyless, partition, stored, failed)
        until = time.monotonic() + self._patience
        while len(offsets) + len(failed) < count and not failed and time.monotonic() < until:
            self._producer.poll(0.2)
        if failed or len(offsets) < count:
            why = failed[0].str() if failed else "the broker did not confirm them in time"
            kind = TopicLost if failed and failed[0].code() in LOST else KafkaError
            raise kind(f"messages to {topic} were not stored: {why}")
        found = Range(topic, partition, min(offsets), max(offsets) + 1)
        if len(found) != count:
            raise NotOneRange(f"somebody else writes to {topic}: its messages are not one range")
        return found

    def send_weights(self, topic: str, arrays: Sequence[Array], *, limit: int = PART) -> Range:
        """Send arrays as one range, again where somebody else wrote in between.

        Raises KafkaError.
        """
        for left in reversed(range(TRIES)):
            try:
                return self.send_all(topic, parts_of(arrays, limit=limit))
            except NotOneRange:
                if not left:
                    raise
        raise AssertionError("the last try has returned or raised")

    def _put(
        self,
        topic: str,
        part: Part,
        keyless: bool,
        partition: int,
        stored: Any,
        failed: list[Any],
    ) -> None:
        until = time.monotonic() + self._patience
        while not failed:
            try:
                self._producer.produce(
                    topic,
                    value=part.value,
                    key=None if keyless else part.key,
                    partition=partition,
                    headers=list(part.headers) or None,
                    on_delivery=stored,
                )
                self._producer.poll(0)
                return
            except BufferError as error:
                if time.monotonic() > until:
                    raise KafkaError(f"messages to {topic} were not stored in time") from error
                self._producer.poll(0.2)
            except Failure as error:
                kind = TopicLost if error.args[0].code() in LOST else KafkaError
                raise kind(f"{topic} takes no message: {error.args[0].str()}") from error


class Follower:
    """Reads one partition from an offset on."""

    def __init__(
        self,
        access: Access,
        topic: str,
        *,
        start: int = OFFSET_BEGINNING,
        partition: int = 0,
        patience: float = PATIENCE,
        ahead: int = SPARING,
    ) -> None:
        self._access = access
        self._topic = topic
        self._patience = patience
        self._silent_since = math.inf
        self._lost_since = math.inf
        self._consumer = Consumer(
            {
                **access.settings(),
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.max.bytes": max(LARGEST, ahead),
                "max.partition.fetch.bytes": max(LARGEST, ahead),
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": ahead // 1024,
                "fetch.queue.backoff.ms": 5,
                "allow.auto.create.topics": False,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, start)])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def poll(self, seconds: float) -> Record | None:
        """The next message, or none within so many seconds. Raises KafkaError.

        A broker that cannot be reached is waited for, for as long as patience lasts.
        """
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 or not seconds:
            message = self._consumer.poll(max(min(left, 1.0), 0.0))
            if message is None:
                if not seconds:
                    return None
                continue
            error = message.error()
            if error is None:
                self._silent_since = self._lost_since = math.inf
                return record_of(message)
            self._judge(error)
            if not seconds:
                return None
        return None

    def lost(self, topics: Sequence[str]) -> list[str]:
        """Those of some topics that a broker does not have; none where it does not answer."""
        try:
            there = self._consumer.list_topics(timeout=2).topics
        except Failure as error:
            self._judge(error.args[0])
            return []
        return [topic for topic in topics if topic not in there]

    def _judge(self, error: Any) -> None:
        if error.code() in LOST:
            self._lost_since = min(self._lost_since, time.monotonic())
            ended = error.code() in (Cause.OFFSET_OUT_OF_RANGE, Cause._AUTO_OFFSET_RESET)
            if not ended and time.monotonic() - self._lost_since < LOST_AFTER:
                return
            raise TopicLost(f"{self._topic} has not what is to be read: {error.str()}")
        if error.code() in PASSING or error.retriable():
            self._silent_since = min(self._silent_since, time.monotonic())
            if time.monotonic() - self._silent_since < self._patience:
                return
        elif error.code() in (Cause._PARTITION_EOF,):
            return
        raise KafkaError(f"{self._topic} at {self._access.servers} cannot be read: {error.str()}")


def read(
    access: Access,
    ranges: Sequence[Range],
    *,
    patience: float = PATIENCE,
    ahead: int = AHEAD,
) -> Iterator[Record]:
    """All messages of ranges, in order. Raises TopicLost where one is missing."""
    for wanted in ranges:
        if not len(wanted):
            continue
        follower = Follower(
            access,
            wanted.topic,
            start=wanted.start,
            partition=wanted.partition,
            patience=patience,
            ahead=ahead,
        )
        with follower:
            position = wanted.start
            until = time.monotonic() + patience
            while position < wanted.end:
                record = follower.poll(1.0)
                if record is None:
                    if time.monotonic() > until:
                        raise TopicLost(f"{wanted} ends at {position}: messages are missing")
                    continue
                if record.offset >= wanted.end:
                    raise TopicLost(f"{wanted} has no message {position} any more")
                until = time.monotonic() + patience
                position = record.offset + 1
                yield record


def check(access: Access, ranges: Sequence[Range], *, patience: float = PATIENCE) -> None:
    """That all of some ranges is stored. Raises TopicLost where it is not, else KafkaError."""
    for topic in sorted({wanted.topic for wanted in ranges}):
        found_ends = ends(access, topic, patience=patience, absent=LOST_AFTER)
        there = {found.partition: found for found in found_ends}
        for wanted in ranges:
            found = there.get(wanted.partition)
            if wanted.topic != topic or not len(wanted):
                continue
            if found is None or wanted.start < found.start or wanted.end > found.end:
                raise TopicLost(f"{wanted} is not stored: there is {found or 'no such partition'}")


def ends(
    access: Access, topic: str, *, patience: float = PATIENCE, absent: float | None = None
) -> list[Range]:
    """All that a topic has now.

    Args:
        access: the cluster.
        topic: its name.
        patience: seconds for which a broker is tried.
        absent: seconds for which a topic that is not there is waited for; as patience without it.

    Raises:
        KafkaError: the broker does not say.
        TopicLost: there is no such topic.
    """
    consumer = Consumer(
        {**access.settings(), "group.id": "unused", "allow.auto.create.topics": False}
    )
    begun = time.monotonic()
    until = time.monotonic() + patience
    try:
        while True:
            try:
                found = consumer.list_topics(topic, timeout=10).topics[topic]
                if found.error is None:
                    return [
                        Range(topic, number, *consumer.get_watermark_offsets(
                            TopicPartition(topic, number), timeout=10))
                        for number in sorted(found.partitions)
                    ]  # fmt: skip
                cause = found.error
            except Failure as error:
                cause = error.args[0]
            why, spent = cause.str(), time.monotonic() - begun
            if cause.code() in LOST and spent > (patience if absent is None else absent):
                raise TopicLost(f"{topic} is not at {access.servers}: {why}")
            if time.monotonic() > until:
                raise KafkaError(f"{topic} at {access.servers} cannot be read: {why}")
            time.sleep(0.5)
    finally:
        consumer.close()


def record_of(message: Message) -> Record:
    """A message without an error."""
    raw: Any = message
    headers = tuple((name, value or b"") for name, value in raw.headers() or ())
    return Record(raw.offset(), raw.key(), raw.value(), headers, raw.timestamp()[1] / 1000)
