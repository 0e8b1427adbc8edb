"""Our broker against Apache Kafka: messages of 1 kB and 1 MB, written and read.

Both run on this machine with an empty folder each, Kafka with the compiler and the memory it comes
with; both are warmed up. The same librdkafka client writes with acks=all and idempotence until the
last message is acknowledged, then reads everything from the start; the brokers take turns. Figures
are medians of MB/s. ``ratio`` is the smallest of ours by theirs.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from common import arguments, median, memory_mb, report
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.broker.broker_servers import JARS, ApacheKafka, OwnBroker, Server

SIZES = {"1kB": 1000, "1MB": 1_000_000}


class PlainKafka(ApacheKafka):
    """With Java's own choice of compiler and collector, and the heap of Kafka's start script."""

    def command(self) -> list[str]:
        super().command()
        program = ["kafka.Kafka", str(self.folder / "server.properties")]
        level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return ["java", "-Xmx1G", "-Xms1G", level, "-cp", f"{JARS}/*", *program]


def new_topic(server: Server) -> str:
    name = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(server.client)
    topic = NewTopic(name, 1, 1, config={"max.message.bytes": "2000000"})
    admin.create_topics([topic])[name].result(60)
    return name


def write(server: Server, topic: str, size: int, count: int) -> float:
    """Seconds until the last message is acknowledged."""
    failed: list[object] = []
    producer = Producer(
        {
            **server.client,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.max.bytes": 2_000_000,
            "queue.buffering.max.kbytes": 65536,
        }
    )
    producer.list_topics(topic, timeout=30)
    value = bytes(range(256)) * (size // 256) + b"x" * (size % 256)

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    begin = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    left = producer.flush(120)
    spent = time.perf_counter() - begin
    assert not left and not failed, (left, failed[:3])
    return spent


def read(server: Server, topic: str, size: int, count: int) -> float:
    """Seconds until the last message is there."""
    consumer = Consumer(
        {**server.client, "group.id": "bench", "enable.auto.commit": False, "check.crcs": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    begin = time.perf_counter()
    got = 0
    while got < count:
        for message in consumer.consume(1000, 1.0):
            assert message.error() is None and len(message.value()) == size
            got += 1
        assert time.perf_counter() - begin < 120
    spent = time.perf_counter() - begin
    consumer.close()
    return spent


def turn(server: Server, counts: dict[str, int], note: Callable[[str, float], None]) -> None:
    for label, count in counts.items():
        size = SIZES[label]
        topic = new_topic(server)
        megabytes = size * count / 1e6
        note(f"write {label}", megabytes / write(server, topic, size, count))
        note(f"read {label}", megabytes / read(server, topic, size, count))
        admin = AdminClient(server.client)
        admin.delete_topics([topic])[topic].result(60)


def main() -> None:
    args = arguments(__doc__ or "")
    counts = {"1kB": 50_000, "1MB": 150} if args.quick else {"1kB": 200_000, "1MB": 500}
    repeats = args.repeats or (3 if args.quick else 5)
    with tempfile.TemporaryDirectory() as folder:
        servers: dict[str, Server] = {
            "ours": OwnBroker(Path(folder) / "ours"),
            "kafka": PlainKafka(Path(folder) / "kafka"),
        }
        figures: dict[str, dict[str, list[float]]] = {name: {} for name in servers}
        memory: dict[str, float] = {}
        try:
            for server in servers.values():
                server.start()
            for number in range(-1, repeats):
                for name, server in servers.items():

                    def note(what: str, value: float, name: str = name, n: int = number) -> None:
                        if n >= 0:
                            figures[name].setdefault(what, []).append(value)

                    turn(server, counts, note)
            for name, server in servers.items():
                assert server.process is not None
                memory[name] = round(memory_mb(server.process.pid))
        finally:
            for server in servers.values():
                server.stop()
    medians = {
        name: {what: round(median(values), 1) for what, values in rows.items()}
        for name, rows in figures.items()
    }
    ratios = {
        what: round(value / medians["kafka"][what], 3) for what, value in medians["ours"].items()
    }
    for what, value in ratios.items():
        ours, theirs = medians["ours"][what], medians["kafka"][what]
        print(f"{what:10} ours {ours:8.1f} MB/s  kafka {theirs:8.1f} MB/s  ratio {value:.2f}")
    report(
        {
            "name": "broker",
            "ratio": min(ratios.values()),
            "ratios": ratios,
            "mb_per_s": medians,
            "memory_mb": memory,
            "repeats": repeats,
        }
    )


if __name__ == "__main__":
    main()
