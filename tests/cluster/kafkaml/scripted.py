"""Clients that do what a case says, as threads; what they learn is always the same."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from corral.podtools.kafka.client import Access, Follower, Record, Sender, Topic, ends, ensure, read
from corral.podtools.kafka.messages import ClientControl, ModelControl, client_key
from corral.podtools.kafka.names import Names
from corral.podtools.kafka.ranges import Range
from corral.podtools.kafka.weights import read_weights
from corral.podtools.kafkaml.rounds import LAST

LARGE = 1 << 30
Script = Callable[["Scripted", ModelControl, list[np.ndarray]], None]


class Scripted(threading.Thread):
    """Answers every version that it hears of, as often as it hears of it."""

    def __init__(
        self, access: Access, names: Names, name: str, *, step: float, script: Script | None = None
    ) -> None:
        super().__init__(daemon=True)
        self.access, self.names, self.client = access, names, name
        self.own = names.client_data(name)
        self.heard: list[int] = []
        self.error: Exception | None = None
        self._step = step
        self._script = script or Scripted.answer
        self._ending = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            self._run()
        except Exception as error:
            self.error = error

    def _run(self) -> None:
        ensure(self.access, [Topic(self.own, 10_000_000)])
        ends(self.access, self.names.model_control, patience=60)
        with (
            Sender(self.access) as self.sender,
            Follower(self.access, self.names.model_control) as control,
        ):
            while not self._ending.is_set() and LAST not in self.heard:
                record = control.poll(0.2)
                if record is not None:
                    said = ModelControl.decode(record.value)
                    found = read(self.access, said.weights)
                    arrays = read_weights(((r.key, r.value, r.headers) for r in found), limit=LARGE)
                    self._script(self, said, arrays)
                    self.heard.append(said.version)

    def answer(self, said: ModelControl, arrays: Sequence[np.ndarray]) -> None:
        self.send(said.version, self.learnt(arrays))

    def learnt(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [(array * 0.5 + self._step).astype(array.dtype) for array in arrays]

    def send(self, version: int, arrays: Sequence[np.ndarray]) -> None:
        self.say(version, self.sender.send_weights(self.own, arrays))

    def say(self, version: int, where: Range) -> None:
        answer = LAST if version == LAST else version + 1
        message = ClientControl([where], answer, int(self._step * 100), {})
        key = client_key(self.names.federated_id, self.client)
        self.sender.send(self.names.client_control, message.encode(), key=key)

    def end(self) -> None:
        self._ending.set()
        self.join(60)
        if self.error is not None:
            raise self.error
        assert not self.is_alive(), f"client {self.client} does not end"


def log(access: Access, names: Names) -> list[dict[str, Any]]:
    """The entries of the version log."""
    return [json.loads(r.value or b"") for r in stored(access, names.state)]


def stored(access: Access, topic: str) -> list[Record]:
    return list(read(access, ends(access, topic, patience=30)))


def wait_for(what: str, condition: Callable[[], bool], *, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"it did not come to this: {what}"
        time.sleep(0.02)
