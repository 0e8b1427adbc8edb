"""SIGKILL under an idempotent producer: nothing that was acknowledged is lost, nothing is twice."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.broker.broker_servers import Server
from tests.cluster.broker.conftest import Kind, consume

SEED = int(os.environ.get("CRASH_SEED", "20261116"))
PARTITIONS = 3


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Server]:
    """A broker that the case kills."""
    server = Kind(tmp_path / "mortal")
    server.start()
    yield server
    server.kill()


class Writer(threading.Thread):
    """Sends numbered values of all sizes until told to stop, and notes what was acknowledged."""

    def __init__(self, server: Server, topic: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._topic = topic
        self._rng = random.Random(seed)
        self.sent = 0
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failed: list[KafkaError] = []
        self.stopping = threading.Event()
        self._producer = Producer(
            {
                **server.client,
                "enable.idempotence": True,
                "linger.ms": 2,
                "delivery.timeout.ms": 240_000,
                "queue.buffering.max.messages": 2000,
            }
        )

    def run(self) -> None:
        while not self.stopping.is_set():
            self._send()
        self._producer.flush(240)

    def _send(self) -> None:
        number = self.sent
        size = self._rng.choice((0, 10, 1000, 30_000))

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failed.append(error)
            else:
                self.acknowledged[number] = (message.partition(), message.offset())

        value = b"%d " % number + b"x" * size
        try:
            self._producer.produce(
                self._topic, value, partition=number % PARTITIONS, on_delivery=delivered
            )
            self.sent += 1
        except BufferError:
            self._producer.poll(0.05)
        self._producer.poll(0)


def read_all(server: Server, topic: str) -> dict[tuple[int, int], int]:
    """Every record there is: the number in it, by place."""
    reader = Consumer({**server.client, "group.id": "auditor", "enable.auto.commit": False})
    found: dict[tuple[int, int], int] = {}
    try:
        for partition in range(PARTITIONS):
            place = TopicPartition(topic, partition, 0)
            low, high = reader.get_watermark_offsets(place, timeout=60)
            assert low == 0
            reader.assign([place])
            for message in consume(reader, high, within=120):
                value: Any = message.value()
                found[partition, message.offset()] = int(value.split()[0])
    finally:
        reader.close()
    return found


def play(server: Server, kills: int) -> None:
    rng = random.Random(SEED)
    topic = "numbers"
    admin = AdminClient(server.client)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
    writer = Writer(server, topic, SEED)
    writer.start()
    for _ in range(kills):
        more = len(writer.acknowledged) + rng.randrange(20, 1500)
        deadline = time.monotonic() + 60
        while len(writer.acknowledged) < more:
            assert time.monotonic() < deadline, "nothing is acknowledged any more"
            assert not writer.failed, writer.failed
            time.sleep(0.002)
        server.kill()
        server.start()
    writer.stopping.set()
    writer.join(250)
    assert not writer.is_alive()
    assert not writer.failed, writer.failed
    assert len(writer.acknowledged) == writer.sent

    found = read_all(server, topic)
    assert len(found) == writer.sent, "records are lost, or there twice"
    for number, place in writer.acknowledged.items():
        assert found[place] == number


@pytest.mark.skipif(Kind.__name__ != "OwnBroker", reason="it would test Apache Kafka")
def test_nothing_is_lost_or_twice_after_a_few_kills(mortal: Server) -> None:
    play(mortal, 4)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_nothing_is_lost_or_twice_after_sixty_kills(mortal: Server) -> None:
    play(mortal, 60)


def test_groups_settings_and_records_survive(mortal: Server) -> None:
    admin = AdminClient(mortal.client)
    topic = NewTopic("kept", 2, 1, config={"retention.ms": "123456789"})
    admin.create_topics([topic])["kept"].result(60)
    producer = Producer(mortal.client)
    for number in range(100):
        producer.produce("kept", b"%d" % number, partition=number % 2)
    assert producer.flush(60) == 0
    told = {**mortal.client, "group.id": "readers", "enable.auto.commit": False}
    reader = Consumer(told)
    reader.commit(
        offsets=[TopicPartition("kept", 0, 17), TopicPartition("kept", 1, 33)], asynchronous=False
    )
    reader.close()

    mortal.kill()
    mortal.start()

    reader = Consumer(told)
    try:
        places = [TopicPartition("kept", 0), TopicPartition("kept", 1)]
        assert [p.offset for p in reader.committed(places, timeout=60)] == [17, 33]
        assert reader.get_watermark_offsets(places[0], timeout=60) == (0, 50)
        reader.assign([TopicPartition("kept", 1, 33)])
        assert consume(reader, 17, within=60)[0].value() == b"67"
    finally:
        reader.close()
