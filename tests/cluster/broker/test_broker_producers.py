"""Idempotent producers: no record twice, none missing, the old one fenced."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from kio.schema.init_producer_id.v3.request import InitProducerIdRequest

from tests.cluster.broker.broker_servers import Server
from tests.cluster.broker.broker_wire import Wire, batch, produce_request
from tests.cluster.broker.conftest import consume, produce
from tests.cluster.objects import eventually


def new_producer(wire: Wire) -> int:
    request = InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout=timedelta(seconds=60),
        producer_id=-1,
        producer_epoch=-1,
    )

    def given() -> Any:
        answer = wire.ask(request)
        # Apache Kafka may still be busy right after its start
        assert answer.error_code.name in ("none", "coordinator_load_in_progress")
        return answer if answer.error_code.name == "none" else None

    return int(eventually(given).producer_id)


class Numbered:
    """One producer that numbers its batches as the case says."""

    def __init__(self, wire: Wire, topic: str) -> None:
        self.wire, self.topic = wire, topic
        self.number = new_producer(wire)

    def send(self, sequence: int, *values: bytes, epoch: int = 0) -> Any:
        data = batch(*values, producer=self.number, epoch=epoch, sequence=sequence)
        return self.wire.produce(self.topic, data)


def test_numbers_are_given_once(kafka: Server) -> None:
    with Wire(kafka.port) as wire:
        numbers = [new_producer(wire) for _ in range(20)]
    assert len(set(numbers)) == 20


def test_a_duplicate_gets_the_same_offset(kafka: Server, topic: str) -> None:
    with Wire(kafka.port) as wire:
        producer = Numbered(wire, topic)
        first = producer.send(0, b"a", b"b")
        second = producer.send(2, b"c")
        again = producer.send(0, b"a", b"b")
        assert (first.base_offset, second.base_offset) == (0, 2)
        assert (again.error_code.name, again.base_offset) == ("none", 0)
        assert producer.send(3, b"d").base_offset == 3


def test_a_gap_is_refused(kafka: Server, topic: str) -> None:
    with Wire(kafka.port) as wire:
        producer = Numbered(wire, topic)
        producer.send(0, b"a")
        assert producer.send(5, b"f").error_code.name == "out_of_order_sequence_number"
        assert producer.send(1, b"b").base_offset == 1


def test_an_older_epoch_is_fenced(kafka: Server, topic: str) -> None:
    with Wire(kafka.port) as wire:
        producer = Numbered(wire, topic)
        producer.send(0, b"a")
        assert producer.send(7, b"x", epoch=1).error_code.name == "out_of_order_sequence_number"
        assert producer.send(0, b"b", epoch=1).base_offset == 1
        assert producer.send(1, b"old").error_code.name == "invalid_producer_epoch"
        assert producer.send(1, b"c", epoch=1).base_offset == 2


def test_only_the_last_five_are_remembered(kafka: Server, topic: str) -> None:
    with Wire(kafka.port) as wire:
        producer = Numbered(wire, topic)
        for number in range(8):
            assert producer.send(number, b"%d" % number).base_offset == number
        assert producer.send(3, b"3").base_offset == 3
        assert producer.send(1, b"1").error_code.name == "out_of_order_sequence_number"


def test_one_request_with_several_partitions(kafka: Server, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    with Wire(kafka.port) as wire:
        good = produce_request(topic, batch(b"a"))
        parts = (
            *good.topic_data[0].partition_data,
            type(good.topic_data[0].partition_data[0])(index=1, records=batch(b"b", b"c")),
            type(good.topic_data[0].partition_data[0])(index=9, records=batch(b"d")),
        )
        rows = type(good.topic_data[0])(name=topic, partition_data=parts)
        both = type(good)(acks=-1, timeout=good.timeout, topic_data=(rows,))
        answers = wire.ask(both).responses[0].partition_responses
    assert sorted((a.index, a.error_code.name) for a in answers) == [
        (0, "none"),
        (1, "none"),
        (9, "unknown_topic_or_partition"),
    ]


def test_librdkafka_idempotent(
    kafka: Server, topic: str, consumer: Callable[..., Consumer]
) -> None:
    values = [b"%d" % number for number in range(3000)]
    told = {"enable.idempotence": True, "batch.num.messages": 7}
    assert produce(kafka, topic, values, **told) == list(range(3000))
    reader = consumer()
    reader.assign([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in consume(reader, 3000)] == values
