"""Fetching: waiting for records, and how much at once."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

from confluent_kafka.admin import AdminClient
from kio.schema.fetch.v11.request import FetchPartition, FetchRequest, FetchTopic

from tests.cluster.broker.broker_servers import Server
from tests.cluster.broker.broker_wire import Wire, batch


def wish(
    topic: str,
    *offsets: int,
    wait: float = 30.0,
    least: int = 1,
    most: int = 2**20,
    each: int = 2**20,
    session: tuple[int, int] = (0, -1),
) -> FetchRequest:
    parts = tuple(
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=each)
        for number, offset in enumerate(offsets)
    )
    return FetchRequest(
        max_wait=timedelta(seconds=wait),
        min_bytes=least,
        max_bytes=most,
        session_id=session[0],
        session_epoch=session[1],
        topics=(FetchTopic(topic=topic, partitions=parts),),
        forgotten_topics_data=(),
    )


def parts(answer: Any) -> list[Any]:
    return [part for topic in answer.responses for part in topic.partitions]


def test_a_fetch_waits_for_the_record(kafka: Server, topic: str) -> None:
    with Wire(kafka.port) as reader, Wire(kafka.port) as writer:
        asked = wish(topic, 0)
        reader.send(asked)
        thread = threading.Timer(0.2, lambda: writer.produce(topic, batch(b"late")))
        thread.start()
        (part,) = parts(reader.receive(asked))
        thread.join()
    assert part.error_code.name == "none"
    assert part.high_watermark == 1
    assert b"late" in part.records


def test_a_fetch_waits_until_there_is_enough(kafka: Server, topic: str) -> None:
    one = batch(b"x" * 1000)
    with Wire(kafka.port) as reader, Wire(kafka.port) as writer:
        writer.produce(topic, one)
        asked = wish(topic, 0, least=3 * len(one))
        reader.send(asked)
        for _ in range(2):
            writer.produce(topic, one)
        (part,) = parts(reader.receive(asked))
    assert len(part.records) == 3 * len(one)


def test_a_fetch_ends_empty_when_its_time_is_up(kafka: Server, topic: str) -> None:
    with Wire(kafka.port) as reader:
        (part,) = parts(reader.ask(wish(topic, 0, wait=0.1)))
    assert (part.error_code.name, part.high_watermark, part.records or b"") == ("none", 0, b"")


def test_the_first_batch_is_whole_and_the_rest_within_the_limit(kafka: Server, topic: str) -> None:
    one = batch(b"x" * 5000)
    with Wire(kafka.port) as wire:
        for _ in range(4):
            wire.produce(topic, one)
        (small,) = parts(wire.ask(wish(topic, 1, each=100, most=100)))
        assert len(small.records) == len(one)
        (two,) = parts(wire.ask(wish(topic, 0, each=2 * len(one), most=10 * len(one))))
        assert len(two.records) == 2 * len(one)


def test_the_limit_of_the_whole_answer(kafka: Server, new_topic: Any) -> None:
    topic = new_topic(3)
    one = batch(b"x" * 5000)
    with Wire(kafka.port) as wire:
        for partition in range(3):
            wire.produce(topic, one, partition=partition)
        found = parts(wire.ask(wish(topic, 0, 0, 0, most=len(one) + 100)))
    assert sum(len(part.records or b"") for part in found) < 2 * len(one)
    assert sorted(part.high_watermark for part in found) == [1, 1, 1]


def test_an_offset_out_of_range_is_answered_at_once(kafka: Server, topic: str) -> None:
    with Wire(kafka.port) as wire:
        wire.produce(topic, batch(b"only"))
        (part,) = parts(wire.ask(wish(topic, 9)))
    assert part.error_code.name == "offset_out_of_range"


def test_whoever_waits_is_told_when_the_topic_goes(
    kafka: Server, admin: AdminClient, topic: str
) -> None:
    gone = {"unknown_topic_or_partition", "not_leader_or_follower", "unknown_topic_id"}
    with Wire(kafka.port) as reader:
        asked = wish(topic, 0)
        reader.send(asked)
        admin.delete_topics([topic])[topic].result(30)
        (part,) = parts(reader.receive(asked))
        assert part.error_code.name in gone
        assert reader.produce(topic, batch(b"late")).error_code.name in gone


def test_a_session_that_nobody_knows(kafka: Server, topic: str) -> None:
    with Wire(kafka.port) as wire:
        answer = wire.ask(wish(topic, 0, session=(123456, 7)))
    assert answer.error_code.name == "fetch_session_id_not_found"
