"""A broker of the chosen kind for all cases, and clients of it."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.list_offsets.v4.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

from tests.cluster.broker.broker_servers import ApacheKafka, OwnBroker, Server
from tests.cluster.broker.broker_wire import Wire
from tests.cluster.objects import eventually

REAL = os.environ.get("CORRAL_BACKEND", "embedded") == "real"
Kind = ApacheKafka if REAL else OwnBroker


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The broker that behaviour cases run on."""
    server = Kind(tmp_path_factory.mktemp("broker"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def scram_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One where everybody logs in."""
    server = Kind(tmp_path_factory.mktemp("scram"), scram=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnBroker]:
    """A broker of ours that the case may do anything to."""
    server = OwnBroker(tmp_path / "own")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def admin(kafka: Server) -> AdminClient:
    return AdminClient(kafka.client)


def led(server: Server, topic: str, partitions: int) -> bool:
    """Whether all partitions can be asked; that of a new topic may take a moment."""
    rows = tuple(ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(partitions))
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=(ListOffsetsTopic(name=topic, partitions=rows),),
    )
    with Wire(server.port) as wire:
        found = wire.ask(request).topics[0].partitions
    return all(row.error_code.name == "none" for row in found)


@pytest.fixture
def new_topic(kafka: Server, admin: AdminClient) -> Iterator[Callable[..., str]]:
    """Makes topics, and removes them after the case."""
    made: list[str] = []

    def make(partitions: int = 1, **config: str) -> str:
        name = f"case-{uuid.uuid4().hex[:10]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, partitions, 1, config=settings)
        admin.create_topics([topic])[name].result(30)
        made.append(name)
        eventually(lambda: led(kafka, name, partitions))
        return name

    yield make
    for name in made:
        try:
            admin.delete_topics([name])[name].result(30)
        except Exception as err:
            # the case may have deleted it
            assert "UNKNOWN_TOPIC" in str(err) or "Unknown topic" in str(err)


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic()


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:10]}"


def produce(server: Server, topic: str, values: list[bytes], **settings: Any) -> list[int]:
    """Send values and wait until each is acknowledged; their offsets, in the order sent."""
    offsets: dict[int, int] = {}
    errors: list[object] = []
    partition = settings.pop("partition", 0)
    producer = Producer({**server.client, **settings})

    def note(number: int) -> Callable[[Any, Message], None]:
        def delivered(error: Any, message: Message) -> None:
            if error is not None:
                errors.append(error)
            else:
                offsets[number] = message.offset()

        return delivered

    for number, value in enumerate(values):
        producer.produce(topic, value, partition=partition, on_delivery=note(number))
        producer.poll(0)
    assert producer.flush(30) == 0
    assert not errors, errors
    return [offsets[number] for number in range(len(values))]


def consume(consumer: Consumer, count: int, within: float = 30.0) -> list[Message]:
    """So many messages."""
    got: list[Message] = []
    deadline = time.monotonic() + within
    while len(got) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(got), 0.2):
            assert message.error() is None, message.error()
            got.append(message)
    assert len(got) == count, f"{len(got)} of {count} messages came"
    return got


@pytest.fixture
def consumer(kafka: Server, group: str) -> Iterator[Callable[..., Consumer]]:
    """Makes consumers of one group, closed after the case."""
    made: list[Consumer] = []

    def make(**settings: Any) -> Consumer:
        told = {
            **kafka.client,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        made.append(Consumer(told))
        return made[-1]

    yield make
    for one in made:
        one.close()
