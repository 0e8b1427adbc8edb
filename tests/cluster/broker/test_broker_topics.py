"""Topics, partitions and settings."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.cluster.broker.broker_servers import Server
from tests.cluster.broker.conftest import produce
from tests.cluster.objects import eventually


def code(error: pytest.ExceptionInfo[KafkaException]) -> int:
    return int(error.value.args[0].code())


def settings(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(30)
    return {name: entry.value for name, entry in entries.items()}


def test_topic_is_made_listed_and_deleted(admin: AdminClient, topic: str) -> None:
    found = admin.list_topics(timeout=30).topics[topic]
    assert list(found.partitions) == [0]
    assert found.partitions[0].leader == found.partitions[0].replicas[0]

    admin.delete_topics([topic])[topic].result(30)

    eventually(lambda: topic not in admin.list_topics(timeout=30).topics)
    with pytest.raises(KafkaException) as error:
        admin.delete_topics([topic])[topic].result(30)
    assert code(error) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "config", "wanted"),
    [
        ("a/b", 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("zero-partitions", 0, 1, {}, KafkaError.INVALID_PARTITIONS),
        ("two-replicas", 1, 2, {}, KafkaError.INVALID_REPLICATION_FACTOR),
        ("odd-setting", 1, 1, {"no.such.setting": "1"}, KafkaError.INVALID_CONFIG),
        ("odd-value", 1, 1, {"retention.ms": "soon"}, KafkaError.INVALID_CONFIG),
        ("odd-policy", 1, 1, {"cleanup.policy": "burn"}, KafkaError.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_is_refused(
    admin: AdminClient,
    name: str,
    partitions: int,
    replicas: int,
    config: dict[str, str],
    wanted: int,
) -> None:
    with pytest.raises(KafkaException) as error:
        admin.create_topics([NewTopic(name, partitions, replicas, config=config)])[name].result(30)
    assert code(error) == wanted
    assert name not in admin.list_topics(timeout=30).topics


def test_the_same_topic_twice(admin: AdminClient, topic: str) -> None:
    with pytest.raises(KafkaException) as error:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    assert code(error) == KafkaError.TOPIC_ALREADY_EXISTS


def test_trying_makes_nothing(admin: AdminClient) -> None:
    name = "case-only-tried"
    admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)[name].result(30)
    assert name not in admin.list_topics(timeout=30).topics


def test_partitions_are_added_and_never_removed(
    kafka: Server, admin: AdminClient, topic: str
) -> None:
    produce(kafka, topic, [b"before"])
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    eventually(lambda: len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == 3)
    assert produce(kafka, topic, [b"there"], partition=2) == [0]

    with pytest.raises(KafkaException) as error:
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    assert code(error) == KafkaError.INVALID_PARTITIONS


def test_settings_are_read_and_changed(admin: AdminClient, new_topic: Callable[..., str]) -> None:
    topic = new_topic(retention_ms="60000")
    before = settings(admin, topic)
    assert before["retention.ms"] == "60000"
    assert before["cleanup.policy"] == "delete"

    change = ConfigEntry("max.message.bytes", "5000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(30)
    eventually(lambda: settings(admin, topic)["max.message.bytes"] == "5000")
    assert settings(admin, topic)["retention.ms"] == "60000"

    undo = ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[undo])
    admin.incremental_alter_configs([resource])[resource].result(30)
    eventually(lambda: settings(admin, topic)["retention.ms"] == "604800000")


def test_a_wrong_setting_changes_nothing(admin: AdminClient, topic: str) -> None:
    change = ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    with pytest.raises(KafkaException) as error:
        admin.incremental_alter_configs([resource])[resource].result(30)
    assert code(error) == KafkaError.INVALID_CONFIG
    assert settings(admin, topic)["retention.ms"] == "604800000"


def test_the_cluster_is_one_broker(kafka: Server, admin: AdminClient) -> None:
    found = admin.describe_cluster().result(30)
    assert [(node.host, node.port) for node in found.nodes] == [("127.0.0.1", kafka.port)]
    assert found.cluster_id


def test_a_topic_made_again_is_empty(
    kafka: Server, admin: AdminClient, new_topic: Callable[..., str]
) -> None:
    name = new_topic()
    assert produce(kafka, name, [b"a", b"b"]) == [0, 1]
    admin.delete_topics([name])[name].result(30)

    def again() -> bool:
        try:
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
        except KafkaException:
            return False
        return True

    eventually(again)
    assert produce(kafka, name, [b"c"]) == [0]
