"""Logging in: SCRAM and nothing else, and nothing without it."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.cluster.broker.broker_servers import PASSWORD, USER, Server
from tests.cluster.broker.broker_wire import Wire, batch
from tests.cluster.broker.conftest import produce
from tests.cluster.objects import eventually


def problem(server: Server, **changes: str) -> int:
    """What a client that says something else is told."""
    told: list[KafkaError] = []
    settings = {key.replace("_", "."): value for key, value in changes.items()}
    admin = AdminClient({**server.client, **settings, "error_cb": told.append})
    eventually(lambda: admin.poll(0.05) or told)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=0.5)
    return int(told[0].code())


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_who_knows_the_password_is_let_in(scram_kafka: Server, mechanism: str) -> None:
    told = {**scram_kafka.client, "sasl.mechanism": mechanism}
    admin = AdminClient(told)
    name = f"case-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    assert produce(scram_kafka, name, [b"x"], **{"sasl.mechanism": mechanism}) == [0]


def test_who_does_not_is_refused(scram_kafka: Server) -> None:
    refused = KafkaError._AUTHENTICATION
    assert problem(scram_kafka, sasl_password="guess") == refused
    assert problem(scram_kafka, sasl_username="mallory") == refused


def test_plain_is_off(scram_kafka: Server) -> None:
    code = problem(scram_kafka, sasl_mechanism="PLAIN")
    assert code in (KafkaError._AUTHENTICATION, KafkaError.UNSUPPORTED_SASL_MECHANISM)


def test_nothing_is_done_before_a_login(scram_kafka: Server) -> None:
    with Wire(scram_kafka.port) as wire, pytest.raises(ConnectionError):
        wire.produce("anything", batch(b"x"))


def test_users_are_added_and_used(scram_kafka: Server) -> None:
    admin = AdminClient(scram_kafka.client)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    change = UserScramCredentialUpsertion("bob", info, b"builder")
    admin.alter_user_scram_credentials([change])["bob"].result(30)
    found = admin.describe_user_scram_credentials(["bob"])["bob"].result(30)
    assert [(row.mechanism, row.iterations) for row in found.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 8192)
    ]

    def let_in() -> bool:
        told = {**scram_kafka.client, "sasl.username": "bob", "sasl.password": "builder"}
        try:
            return bool(AdminClient(told).list_topics(timeout=3).brokers)
        except KafkaException:
            return False

    eventually(let_in)


async def test_aiokafka_logs_in(scram_kafka: Server) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=scram_kafka.address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
    )
    async with asyncio.timeout(30), consumer:
        assert isinstance(await consumer.topics(), set)
