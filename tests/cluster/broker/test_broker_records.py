"""Records written, and read again as they were."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.cluster.broker.broker_servers import Server
from tests.cluster.broker.broker_wire import Wire, batch
from tests.cluster.broker.conftest import consume, produce
from tests.cluster.objects import eventually


def test_a_record_comes_back_whole(
    kafka: Server, topic: str, consumer: Callable[..., Consumer]
) -> None:
    sent: list[object] = []
    producer = Producer(kafka.client)
    headers = [("kind", b"\x00\xff"), ("kind", b"again"), ("none", None)]
    producer.produce(
        topic, b"value", b"key", headers=headers, timestamp=1_700_000_000_123,
        on_delivery=lambda error, message: sent.append(error or message.offset()),
    )  # fmt: skip
    producer.produce(topic, None, b"gone", on_delivery=lambda error, _: sent.append(error))
    assert producer.flush(30) == 0
    assert sent == [0, None]

    reader = consumer()
    reader.subscribe([topic])
    first, second = consume(reader, 2)
    assert (first.key(), first.value(), first.headers()) == (b"key", b"value", headers)
    assert first.timestamp() == (TIMESTAMP_CREATE_TIME, 1_700_000_000_123)
    assert (second.key(), second.value(), second.offset()) == (b"gone", None, 1)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_each_kind_of_acknowledgement(
    kafka: Server, topic: str, consumer: Callable[..., Consumer], acks: str
) -> None:
    values = [b"%d" % number for number in range(500)]
    produce(kafka, topic, values, acks=acks)
    reader = consumer()
    reader.assign([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in consume(reader, 500)] == values


def test_a_topic_that_is_flushed_at_every_message(
    kafka: Server, new_topic: Callable[..., str], consumer: Callable[..., Consumer]
) -> None:
    topic = new_topic(flush_messages="1")
    values = [b"%d" % number for number in range(200)]
    assert produce(kafka, topic, values, **{"batch.num.messages": 10}) == list(range(200))
    reader = consumer()
    reader.assign([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in consume(reader, 200)] == values


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_each_compression(
    kafka: Server, topic: str, consumer: Callable[..., Consumer], codec: str
) -> None:
    values = [b"much the same %d" % number for number in range(300)]
    offsets = produce(kafka, topic, values, **{"compression.type": codec, "linger.ms": 20})
    assert offsets == list(range(300))
    reader = consumer()
    reader.assign([TopicPartition(topic, 0, 123)])
    assert [message.value() for message in consume(reader, 177)] == values[123:]


def test_a_batch_over_the_limit_of_its_topic(
    kafka: Server, new_topic: Callable[..., str], consumer: Callable[..., Consumer]
) -> None:
    topic = new_topic(max_message_bytes="5000")
    refused: list[KafkaError] = []
    producer = Producer(kafka.client)
    producer.produce(topic, b"x" * 6000, on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(30) == 0
    assert refused[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert produce(kafka, topic, [b"x" * 4000]) == [0]


def test_a_message_of_many_megabytes(
    kafka: Server, new_topic: Callable[..., str], consumer: Callable[..., Consumer]
) -> None:
    topic = new_topic(max_message_bytes="10000000")
    large = bytes(range(256)) * 35000
    produce(kafka, topic, [b"before", large, b"after"], **{"message.max.bytes": 10_000_000})
    # whatever a client wants at most, it gets the first batch whole
    reader = consumer(fetch_message_max_bytes=1000, max_partition_fetch_bytes=1000)
    reader.assign([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in consume(reader, 3)] == [b"before", large, b"after"]


def test_a_topic_that_is_not_there(kafka: Server, topic: str) -> None:
    with Wire(kafka.port) as wire:
        answer = wire.produce("case-nowhere", batch(b"x"))
        assert answer.error_code.name == "unknown_topic_or_partition"
        answer = wire.produce(topic, batch(b"x"), partition=7)
        assert answer.error_code.name == "unknown_topic_or_partition"


def test_a_damaged_batch_is_refused(kafka: Server, topic: str) -> None:
    good = batch(b"payload")
    bad = good[:-3] + bytes([good[-3] ^ 1]) + good[-2:]
    with Wire(kafka.port) as wire:
        assert wire.produce(topic, bad).error_code.name == "corrupt_message"
        assert wire.produce(topic, good).base_offset == 0


def test_offsets_by_time(kafka: Server, topic: str, consumer: Callable[..., Consumer]) -> None:
    producer = Producer({**kafka.client, "linger.ms": 0})
    for number in range(20):
        producer.produce(topic, b"%d" % number, timestamp=1_700_000_000_000 + number * 1000)
        assert producer.flush(30) == 0
    reader = consumer()

    def at(timestamp: int) -> int:
        asked = [TopicPartition(topic, 0, timestamp)]
        return int(reader.offsets_for_times(asked, timeout=30)[0].offset)

    assert at(1_700_000_000_000) == 0
    assert at(1_700_000_006_500) == 7
    assert at(1_700_000_019_000) == 19
    assert at(1_700_000_020_000) == -1  # the end
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=30) == (0, 20)


def test_offset_by_time_inside_a_batch(kafka: Server, topic: str) -> None:
    producer = Producer({**kafka.client, "linger.ms": 500, "compression.type": "gzip"})
    for number in range(20):
        producer.produce(topic, b"%d" % number, timestamp=1_700_000_000_000 + number * 1000)
    assert producer.flush(30) == 0
    reader = Consumer({**kafka.client, "group.id": "nobody"})
    asked = [TopicPartition(topic, 0, 1_700_000_006_500)]
    assert reader.offsets_for_times(asked, timeout=30)[0].offset == 7
    reader.close()


def test_deleted_records_are_gone(
    kafka: Server, admin: AdminClient, topic: str, consumer: Callable[..., Consumer]
) -> None:
    produce(kafka, topic, [b"%d" % number for number in range(10)])
    where = TopicPartition(topic, 0, 6)
    assert admin.delete_records([where])[where].result(30).low_watermark == 6
    reader = consumer()
    eventually(lambda: reader.get_watermark_offsets(TopicPartition(topic, 0)) == (6, 10))
    reader.assign([TopicPartition(topic, 0, 6)])
    assert [message.value() for message in consume(reader, 4)] == [b"6", b"7", b"8", b"9"]

    beyond = TopicPartition(topic, 0, 11)
    with pytest.raises(KafkaException) as error:
        admin.delete_records([beyond])[beyond].result(30)
    assert error.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE

    everything = TopicPartition(topic, 0, -1)
    admin.delete_records([everything])[everything].result(30)
    assert produce(kafka, topic, [b"next"]) == [10]


def test_an_offset_out_of_range(
    kafka: Server, topic: str, consumer: Callable[..., Consumer]
) -> None:
    produce(kafka, topic, [b"only"])
    reader = consumer(auto_offset_reset="error")
    reader.assign([TopicPartition(topic, 0, 5)])
    deadline = time.monotonic() + 30
    while (message := reader.poll(0.5)) is None:
        assert time.monotonic() < deadline
    assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
