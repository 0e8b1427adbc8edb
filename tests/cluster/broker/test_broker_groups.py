"""Consumer groups: who reads what, and how far they have come."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cluster.broker.broker_servers import Server
from tests.cluster.broker.conftest import consume, produce
from tests.cluster.objects import eventually

Consumers = Callable[..., Consumer]


def assigned(one: Consumer, *others: Consumer) -> list[set[int]]:
    """What each reads, while all are polled."""
    for member in (one, *others):
        member.poll(0.05)
    return [{place.partition for place in member.assignment()} for member in (one, *others)]


def test_members_share_the_partitions(
    kafka: Server, new_topic: Callable[..., str], consumer: Consumers
) -> None:
    topic = new_topic(4)
    first, second = consumer(), consumer()
    first.subscribe([topic])
    eventually(lambda: assigned(first) == [{0, 1, 2, 3}])
    second.subscribe([topic])

    def shared() -> bool:
        mine, theirs = assigned(first, second)
        return len(mine) == len(theirs) == 2 and mine | theirs == {0, 1, 2, 3}

    eventually(shared)
    second.unsubscribe()
    eventually(lambda: assigned(first, second)[0] == {0, 1, 2, 3})


def test_a_silent_member_loses_its_partitions(
    kafka: Server, new_topic: Callable[..., str], consumer: Consumers
) -> None:
    topic = new_topic(2)
    first = consumer()
    # one that does not poll for so long has left, says its library
    second = consumer(max_poll_interval_ms=6000)
    for member in (first, second):
        member.subscribe([topic])
    eventually(lambda: [len(mine) for mine in assigned(first, second)] == [1, 1])
    eventually(lambda: assigned(first)[0] == {0, 1})


def test_a_group_goes_on_from_what_it_committed(
    kafka: Server, topic: str, consumer: Consumers
) -> None:
    produce(kafka, topic, [b"%d" % number for number in range(10)])
    first = consumer()
    first.subscribe([topic])
    got = consume(first, 4)
    first.commit(
        offsets=[TopicPartition(topic, 0, got[-1].offset() + 1, "note")], asynchronous=False
    )
    first.close()

    second = consumer()
    second.subscribe([topic])
    assert [message.value() for message in consume(second, 6)] == [b"%d" % n for n in range(4, 10)]
    place = second.committed([TopicPartition(topic, 0)], timeout=30)[0]
    assert (place.offset, place.metadata) == (4, "note")


def test_whoever_was_replaced_cannot_commit(
    kafka: Server, new_topic: Callable[..., str], consumer: Consumers
) -> None:
    topic = new_topic(1)
    first, second = consumer(), consumer()
    first.subscribe([topic])
    eventually(lambda: assigned(first) == [{0}])
    other = consumer()
    other.assign([TopicPartition(topic, 0, 0)])
    with pytest.raises(KafkaException) as error:
        other.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    assert error.value.args[0].name() in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
    second.close()


def test_groups_are_listed_described_and_deleted(
    kafka: Server, admin: AdminClient, topic: str, group: str, consumer: Consumers
) -> None:
    produce(kafka, topic, [b"x"])
    member = consumer()
    member.subscribe([topic])
    consume(member, 1)
    member.commit(asynchronous=False)
    assert group in [row.group_id for row in admin.list_consumer_groups().result(30).valid]
    found = admin.describe_consumer_groups([group])[group].result(30)
    assert found.state.name == "STABLE"
    assert [
        (place.topic, place.partition)
        for row in found.members
        for place in row.assignment.topic_partitions
    ] == [(topic, 0)]
    with pytest.raises(KafkaException) as error:
        admin.delete_consumer_groups([group])[group].result(30)
    assert error.value.args[0].name() == "NON_EMPTY_GROUP"

    member.close()

    wanted = [ConsumerGroupTopicPartitions(group)]
    held = admin.list_consumer_group_offsets(wanted)[group].result(30).topic_partitions
    assert [(place.topic, place.offset) for place in held] == [(topic, 1)]
    assert admin.describe_consumer_groups([group])[group].result(30).state.name == "EMPTY"
    admin.delete_consumer_groups([group])[group].result(30)
    assert group not in [row.group_id for row in admin.list_consumer_groups().result(30).valid]


def test_offsets_of_an_idle_group_can_be_set(
    kafka: Server, admin: AdminClient, topic: str, group: str, consumer: Consumers
) -> None:
    produce(kafka, topic, [b"%d" % number for number in range(5)])
    wanted = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])]
    admin.alter_consumer_group_offsets(wanted)[group].result(30)
    member = consumer()
    member.subscribe([topic])
    assert [message.value() for message in consume(member, 2)] == [b"3", b"4"]


def commit(member: Consumer) -> None:
    """What was read; nothing where it belongs to another by now, who reads it again."""
    try:
        member.commit(asynchronous=False)
    except KafkaException as error:
        names = ("_NO_OFFSET", "REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID")
        assert error.args[0].name() in names


def test_every_record_is_read_while_members_come_and_go(
    kafka: Server, new_topic: Callable[..., str], consumer: Consumers
) -> None:
    topic = new_topic(4)
    sent = {b"%d-%d" % (partition, n) for partition in range(4) for n in range(200)}
    for partition in range(4):
        values = [b"%d-%d" % (partition, number) for number in range(200)]
        produce(kafka, topic, values, partition=partition)
    got: list[bytes] = []
    lock = threading.Lock()

    def read(member: Consumer, most: int) -> None:
        member.subscribe([topic])
        mine = 0
        while mine < most and len(set(got)) < len(sent):
            for message in member.consume(25, 0.1):
                with lock:
                    got.append(message.value())
                mine += 1
            if member.assignment():
                commit(member)
        member.close()

    threads = [
        threading.Thread(target=read, args=(consumer(), most), daemon=True)
        for most in (150, 300, 10_000)
    ]
    for thread in threads:
        thread.start()
    eventually(lambda: set(got) == sent, seconds=60)
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
