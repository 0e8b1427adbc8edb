"""The brokers that the cases run on: ours, and Apache Kafka, each a process that can be killed."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.backends.base import free_port
from tests.support.components import CACHE, skip

JARS = CACHE / "kafka" / "4.3.1" / "libs"
PATIENCE = 60.0
USER, PASSWORD = "alice", "wonder-land-42"


class Server:
    """A broker at an address that stays the same."""

    def __init__(self, folder: Path, *, scram: bool = False) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.scram = scram
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def client(self) -> dict[str, object]:
        """What every librdkafka client is told."""
        told: dict[str, object] = {
            "bootstrap.servers": self.address,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
        if self.scram:
            told |= {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": USER,
                "sasl.password": PASSWORD,
            }
        return told

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        log = self.folder / "server.log"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command(), stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        deadline = time.monotonic() + PATIENCE
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                pytest.fail(f"the broker does not listen: {log.read_text()[-3000:]}")
            time.sleep(0.02)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process = None

    def stop(self) -> None:
        """In order."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None


class OwnBroker(Server):
    """``corral broker``."""

    def command(self) -> list[str]:
        words = [sys.executable, "-m", "corral.cli.main", "broker"]
        words += ["--data-dir", str(self.folder / "data"), "--port", str(self.port)]
        if self.scram:
            users = self.folder / "users"
            users.write_text(f"# who may log in\n{USER}:{PASSWORD}\n")
            words += ["--users", str(users)]
        return words


class ApacheKafka(Server):
    """Apache Kafka with KRaft, one process."""

    def __init__(self, folder: Path, *, scram: bool = False) -> None:
        if not JARS.is_dir() or shutil.which("java") is None:
            skip("kafka")
        super().__init__(folder, scram=scram)
        self._controller = free_port()

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def command(self) -> list[str]:
        if not self._properties.exists():
            self._format()
        return java("kafka.Kafka", str(self._properties))

    def _format(self) -> None:
        protocol = "SASL_PLAINTEXT" if self.scram else "PLAINTEXT"
        lines = [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{self._controller}",
            f"listeners=CLIENTS://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller}",
            f"advertised.listeners=CLIENTS://127.0.0.1:{self.port}",
            "controller.listener.names=CONTROLLER",
            f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,CLIENTS:{protocol}",
            "inter.broker.listener.name=CLIENTS",
            f"log.dirs={self.folder / 'data'}",
            "num.partitions=1",
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "group.initial.rebalance.delay.ms=0",
        ]
        words = ["format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(self._properties)]
        if self.scram:
            jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required"
            lines += [
                "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512",
                "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256",
                "listener.name.clients.scram-sha-256.sasl.jaas.config="
                f'{jaas} username="{USER}" password="{PASSWORD}";',
                f"listener.name.clients.scram-sha-512.sasl.jaas.config={jaas};",
            ]
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                words += ["-S", f'{mechanism}=[name="{USER}",password="{PASSWORD}"]']
        self._properties.write_text("\n".join(lines) + "\n")
        done = subprocess.run(
            java("kafka.tools.StorageTool", *words), capture_output=True, timeout=PATIENCE
        )
        assert done.returncode == 0, (done.stdout + done.stderr).decode()


def java(name: str, *words: str) -> list[str]:
    """The command of one of Kafka's programs."""
    options = ["-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return ["java", *options, "-cp", f"{JARS}/*", name, *words]
