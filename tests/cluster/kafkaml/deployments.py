"""Servers as threads and clients as processes, on digits split unevenly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from corral.podtools.kafka.client import Access, Sender, Topic, ensure
from corral.podtools.kafka.names import Names
from corral.podtools.kafka.ranges import Range
from corral.podtools.kafka.records import raw_bytes
from corral.podtools.kafka.weights import Part
from corral.podtools.kafkaml.rounds import Rounds, RoundSettings
from corral.podtools.kafkaml.serving import Deployment, Server
from corral.podtools.models.layers import Dense, Sequential

CLIENT = ("corral.podtools.kafkaml.client",)
RAW = {
    "data_type": "float32", "data_reshape": "64", "label_type": "float32", "label_reshape": "10",
}  # fmt: skip


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Samples in an order that is always the same, and one-hot labels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    x = (found.data[order] / 16).astype(np.float32)
    return x, np.eye(10, dtype=np.float32)[found.target[order]]


def model() -> Sequential:
    made = Sequential([Dense(32, "relu", input_shape=64), Dense(10, "softmax")], seed=11)
    made.compile("adam", "categorical_crossentropy", learning_rate=0.005)
    return made


class Audience:
    """Who takes part, and what was said."""

    def __init__(self, clients: Collection[str]) -> None:
        self.here = set(clients)
        self.gone: set[str] = set()
        self.remarks: list[tuple[str, str]] = []
        self.published: list[list[np.ndarray]] = []

    def clients(self) -> tuple[Collection[str], Collection[str]]:
        return set(self.here), set(self.gone)

    def progress(self, rounds: Rounds) -> None: ...

    def remark(self, client: str, why: str) -> None:
        self.remarks.append((client, why))

    def publish(self, weights: Sequence[np.ndarray], rounds: Rounds) -> str:
        self.published.append([np.array(w) for w in weights])
        return "oci://kept"


class Deployments:
    """Everything that a case starts; ended with it."""

    def __init__(self, access: Access, federated_id: str) -> None:
        self.access = access
        self.names = Names.of(federated_id)
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def deployment(self, made: Sequential, **rounds: Any) -> Deployment:
        return Deployment(
            names=self.names,
            rounds=RoundSettings(**rounds),
            framework="numpy",
            architecture=made.to_json(),
            compile_args=made.compile_args,
            training_settings={"batch": 16, "kwargs_fit": {"epochs": 2}},
            input_shape="64",
            output_shape="10",
        )

    def inject(self, topic: str, x: np.ndarray, y: np.ndarray) -> Range:
        ensure(self.access, [Topic(topic, 1_000_000)])
        records = [Part(raw_bytes(b), raw_bytes(a), ()) for a, b in zip(x, y, strict=True)]
        with Sender(self.access) as sender:
            return sender.send_all(topic, records)

    def client(
        self, name: str, data: Range | str, *, command: Sequence[str] = CLIENT, **env: str
    ) -> subprocess.Popen[str]:
        said = {
            "KML_CLOUD_BOOTSTRAP_SERVERS": self.access.servers,
            "DATA_BOOTSTRAP_SERVERS": self.access.servers,
            "DATA_TOPIC": str(data),
            "INPUT_FORMAT": "RAW",
            "INPUT_CONFIG": json.dumps(RAW),
            "FEDERATED_MODEL_ID": self.names.federated_id,
            "FEDERATED_CLIENT_ID": name,
            "KAFKAML_IDLE_SECONDS": "60",
            "PATH": os.environ["PATH"],
            **env,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env=said,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes[name] = process
        return process

    def serve(self, deployment: Deployment, first: Sequential, told: Audience) -> Serving:
        return Serving(Server(self.access, deployment, first.get_weights(), told))

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate(timeout=30)


class Serving(threading.Thread):
    """A server, until it has ended."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server = server
        self.rounds: Rounds | None = None
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.rounds = self._server.run()
        except Exception as error:
            self.error = error

    def result(self, timeout: float = 100) -> Rounds:
        self.join(timeout)
        if self.error is not None:
            raise self.error
        assert self.rounds is not None, "it did not end in time"
        return self.rounds
