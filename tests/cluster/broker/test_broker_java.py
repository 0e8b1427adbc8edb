"""Kafka's own console tools, against our broker and against Kafka's."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from tests.cluster.broker.broker_servers import JARS, OwnBroker, Server, java
from tests.support.components import needs

pytestmark = [
    pytest.mark.real,
    needs("kafka", found=JARS.is_dir() and shutil.which("java") is not None),
]


@pytest.fixture(scope="module", params=["ours", "apache"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    if request.param == "apache":
        yield request.getfixturevalue("kafka")
        return
    own = OwnBroker(tmp_path_factory.mktemp("java"))
    own.start()
    yield own
    own.stop()


def tool(server: Server, name: str, *words: str, text: str = "") -> str:
    command = java(f"org.apache.kafka.tools.{name}", "--bootstrap-server", server.address, *words)
    done = subprocess.run(
        command, input=text.encode(), capture_output=True, timeout=90, check=False
    )
    said = done.stdout.decode()
    assert done.returncode == 0, said + done.stderr.decode()
    return said


def test_the_tools_work(server: Server) -> None:
    topic = f"java-{uuid.uuid4().hex[:8]}"
    options = ["--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=90000"]
    tool(server, "TopicCommand", *options)
    said = tool(server, "TopicCommand", "--describe", "--topic", topic)
    assert "PartitionCount: 2" in said
    assert "retention.ms=90000" in said

    # acks=all and idempotence are what the console producer does unasked
    lines = "".join(f"line {number}\n" for number in range(50))
    tool(server, "ConsoleProducer", "--topic", topic, text=lines)
    read = tool(
        server, "consumer.ConsoleConsumer", "--topic", topic, "--group", "java-readers",
        "--from-beginning", "--max-messages", "50", "--timeout-ms", "60000",
    )  # fmt: skip
    assert sorted(read.split("\n")) == sorted(lines.split("\n"))

    offsets = tool(server, "GetOffsetShell", "--topic", topic)
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets.split()) == 50
    groups = tool(server, "consumer.group.ConsumerGroupCommand", "--list")
    assert "java-readers" in groups.split()
    group = tool(
        server, "consumer.group.ConsumerGroupCommand", "--describe", "--group", "java-readers"
    )
    lag = [line.split()[5] for line in group.splitlines() if topic in line]
    assert lag == ["0", "0"]


def test_settings_and_deletions(server: Server) -> None:
    topic = f"java-{uuid.uuid4().hex[:8]}"
    tool(server, "TopicCommand", "--create", "--topic", topic)
    change = ["--alter", "--entity-type", "topics", "--entity-name", topic]
    command = java("kafka.admin.ConfigCommand", "--bootstrap-server", server.address)
    subprocess.run(
        [*command, *change, "--add-config", "max.message.bytes=77777"], check=True, timeout=90
    )
    assert "max.message.bytes=77777" in tool(server, "TopicCommand", "--describe", "--topic", topic)
    tool(server, "TopicCommand", "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in tool(server, "TopicCommand", "--describe", "--topic", topic)
    tool(server, "TopicCommand", "--delete", "--topic", topic)
    assert topic not in tool(server, "TopicCommand", "--list").split()


def test_the_performance_tools_work(server: Server) -> None:
    topic = f"java-{uuid.uuid4().hex[:8]}"
    tool(server, "TopicCommand", "--create", "--topic", topic)
    command = java(
        "org.apache.kafka.tools.ProducerPerformance",
        "--topic", topic, "--num-records", "20000", "--record-size", "100",
        "--throughput", "-1", "--producer-props", f"bootstrap.servers={server.address}",
    )  # fmt: skip
    done = subprocess.run(command, capture_output=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert b"20000 records sent" in done.stdout
