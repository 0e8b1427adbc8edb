"""Pods that write numbered lines, their job, and doors that are slammed on whoever reads."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import AsyncIterable
from contextlib import suppress
from typing import Any, Protocol

from tests.backends import Node
from tests.cluster.objects import Objects, eventually
from tests.cluster.pods.pods import Pods, python

Obj = dict[str, Any]
JOB = "writing"
GROUP = "training.corral.dev/v1alpha1"
WRITER = """
import sys, time
name, count, pause = {name!r}, {count}, {pause}
for number in range(count):
    sys.stdout.write(f"{{name}} {{number:06d}} {{'x' * (number % 90)}}\\n")
    if number % 50 == 49:
        sys.stdout.flush()
        time.sleep(pause)
sys.stdout.flush()
"""


def lines(name: str, count: int) -> list[bytes]:
    """What such a pod writes."""
    return [f"{name} {number:06d} {'x' * (number % 90)}".encode() for number in range(count)]


class Piece(Protocol):
    @property
    def pod(self) -> str: ...
    @property
    def data(self) -> bytes: ...


async def taken(pieces: AsyncIterable[Piece], *, count: int = 0) -> dict[str, list[bytes]]:
    """All lines by pod; only so many where a number is given."""
    out: dict[str, bytes] = {}
    seen = 0
    async for piece in pieces:
        assert piece.data.endswith(b"\n")
        out[piece.pod] = out.get(piece.pod, b"") + piece.data
        seen += piece.data.count(b"\n")
        if count and seen >= count:
            break
    return {pod: data.split(b"\n")[:-1] for pod, data in out.items()}


class Writers:
    """A TrainingJob that nobody looks after, and its pods."""

    def __init__(self, objects: Objects, node: Node) -> None:
        self.objects, self.node = objects, node
        self._pods = Pods(objects, node)
        objects.create(
            "trainingjobs",
            {
                "apiVersion": GROUP,
                "kind": "TrainingJob",
                "metadata": {"name": JOB},
                "spec": {"replicas": 1, "image": "python:3.12", "command": ["python"]},
            },
        )

    @property
    def namespace(self) -> str:
        return self.objects.namespace

    def add(self, name: str, count: int, *, pause: float = 0.0) -> None:
        """A pod that writes so many lines, fifty at a time."""
        self.run(name, python(WRITER.format(name=name, count=count, pause=pause)))

    def run(self, name: str, *containers: Obj, **spec: Any) -> None:
        labels = {"trainingjob": JOB, "replica-id": name.rpartition("-")[2]}
        self._pods.run(name, *containers, metadata={"labels": labels}, **spec)

    def wait(self, name: str, phase: str) -> None:
        self._pods.wait(name, lambda pod: pod["status"].get("phase") == phase)

    def finish(self) -> None:
        """The job is over."""
        body = {"status": {"phase": "Succeeded", "conditions": [_SUCCEEDED]}}
        path = f"{self.objects.path(GROUP, 'trainingjobs', JOB)}/status"
        kind = "application/merge-patch+json"
        reply = self.objects.backend.request("PATCH", path, body, content_type=kind)
        assert reply.code == 200, reply.body

    def finish_with(self, *names: str) -> threading.Thread:
        """End the job when these pods have; to be joined."""

        def work() -> None:
            for name in names:
                self.wait(name, "Succeeded")
            self.finish()

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def started(self, name: str) -> None:
        eventually(lambda: self._pods.get(name)["status"].get("phase") == "Running", seconds=60)


_SUCCEEDED = {
    "type": "Succeeded",
    "status": "True",
    "reason": "Test",
    "message": "it was said to be over",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


class Door:
    """A way to a server that is slammed after a number of bytes, again and again.

    Short answers pass mostly; a followed log is cut every so often.
    """

    def __init__(self, port: int, *, seed: int, least: int, most: int) -> None:
        self._target, self._least, self._most = port, least, most
        self._chance = random.Random(seed)
        self.slammed = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._open:
            _shut(one)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            self._open += (near, far)
            limit = self._chance.randrange(self._least, self._most)
            for source, sink, left in ((near, far, 0), (far, near, limit)):
                thread = threading.Thread(target=self._copy, args=(source, sink, left))
                self._threads.append(thread)
                thread.start()

    def _copy(self, source: socket.socket, sink: socket.socket, left: int) -> None:
        """``left``: bytes until it is cut; 0 for never."""
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if left and len(data) >= left:
                    sink.sendall(data[: left - 1])
                    self.slammed += 1
                    break
                left = left - len(data) if left else 0
                sink.sendall(data)
        _shut(source)
        _shut(sink)


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
