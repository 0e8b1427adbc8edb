"""The same broker for aiokafka, which has an implementation of the protocol of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as NewAioTopic
from aiokafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError

from tests.cluster.broker.broker_servers import Server

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize("idempotent", [False, True])
async def test_written_and_read(kafka: Server, topic: str, idempotent: bool) -> None:
    async with asyncio.timeout(60):
        producer = AIOKafkaProducer(
            bootstrap_servers=kafka.address, enable_idempotence=idempotent, linger_ms=5
        )
        async with producer:
            sent = [await producer.send(topic, b"%d" % n, key=b"k", headers=[("n", b"%d" % n)])
                    for n in range(200)]  # fmt: skip
            assert [(await one).offset for one in sent] == list(range(200))
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=kafka.address, auto_offset_reset="earliest", group_id=None
        )
        async with consumer:
            got = [await consumer.getone() for _ in range(200)]
    assert [message.value for message in got] == [b"%d" % number for number in range(200)]
    assert got[7].headers == (("n", b"7"),)


async def test_a_group_shares_and_goes_on(
    kafka: Server, new_topic: Callable[..., str], group: str
) -> None:
    topic = new_topic(2)

    def member() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=kafka.address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=300,
        )

    async with asyncio.timeout(60):
        async with AIOKafkaProducer(bootstrap_servers=kafka.address) as producer:
            for number in range(20):
                await producer.send_and_wait(topic, b"%d" % number, partition=number % 2)
        async with member() as first, member() as second:
            # the library has no event for it
            while not (len(first.assignment()) == len(second.assignment()) == 1):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            got = {(await first.getone()).value for _ in range(10)}
            got |= {(await second.getone()).value for _ in range(10)}
            await first.commit()
            await second.commit()
        assert got == {b"%d" % number for number in range(20)}
        async with member() as third:
            places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
            assert [await third.committed(place) for place in places] == [10, 10]


async def test_refusals_have_their_names(kafka: Server, new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes="2000")
    async with asyncio.timeout(60):
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka.address)
        await admin.start()
        try:
            answer = await admin.create_topics([NewAioTopic(topic, 1, 1)])
            assert answer.topic_errors[0][1] == TopicAlreadyExistsError.errno
        finally:
            await admin.close()
        producer = AIOKafkaProducer(bootstrap_servers=kafka.address)
        async with producer:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * 3000)
