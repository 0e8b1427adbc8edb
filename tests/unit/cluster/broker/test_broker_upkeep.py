"""A broker whose upkeep never rests, while clients write, read and delete."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from corral.cluster.broker.server import Broker
from corral.cluster.broker.settings import BrokerSettings
from corral.cluster.broker.storage import log as module
from tests.cluster.objects import eventually

MESSAGES = 400


def play(address: str) -> None:
    told = {"bootstrap.servers": address, "log_level": 0}
    admin = AdminClient(told)
    settings = {"segment.bytes": str(2**20), "flush.ms": "0"}
    admin.create_topics([NewTopic("t", 2, 1, config=settings)])["t"].result(30)
    producer = Producer({**told, "enable.idempotence": True, "batch.num.messages": 10})
    failed: list[object] = []
    for number in range(MESSAGES):
        producer.produce(
            "t", b"%d " % number + b"x" * 10_000, partition=0,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )  # fmt: skip
        producer.poll(0.001)
    assert producer.flush(60) == 0
    assert not failed
    reader = Consumer({**told, "group.id": "g", "enable.auto.commit": False})
    try:
        reader.assign([TopicPartition("t", 0, 0), TopicPartition("t", 1, 0)])
        got: list[int] = []
        while len(got) < MESSAGES:
            message = reader.poll(30)
            assert message is not None
            assert message.error() is None
            value = message.value()
            assert value is not None
            got.append(int(value.split()[0]))
        assert got == list(range(MESSAGES))
        reader.commit(offsets=[TopicPartition("t", 0, 7)], asynchronous=False)
    finally:
        reader.close()
    where = TopicPartition("t", 0, 300)
    assert admin.delete_records([where])[where].result(30).low_watermark == 300
    admin.delete_topics(["t"])["t"].result(30)


async def test_upkeep_gets_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_RESTS", 0.0)
    broker = Broker(BrokerSettings(data_dir=tmp_path / "b", port=0, upkeep=0.005))
    await broker.start()
    try:
        async with asyncio.timeout(90):
            await asyncio.to_thread(play, broker.addresses[0])
    finally:
        await broker.stop()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
    # a thread that was removing it may have a moment to go
    await asyncio.to_thread(eventually, lambda: not list((tmp_path / "b" / "topics").iterdir()))
