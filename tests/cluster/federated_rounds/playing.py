"""Proplets that are played beside a case: each task gets an update that follows from its input."""

from __future__ import annotations

import base64
import json
import threading
from types import TracebackType
from typing import Self

from tests.cluster.federated_rounds.learning_operating import API, Learning, Obj

PAUSE = 0.02


class Proplets:
    """``with Proplets(learning):``; every task is completed once."""

    def __init__(self, learning: Learning) -> None:
        self._learning = learning
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._play, name="proplets")
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def _play(self) -> None:
        try:
            while not self._stop.wait(PAUSE):
                for task in self._tasks():
                    self._learning.send(
                        task["metadata"]["name"], trained(task), samples=_samples(task)
                    )
        except BaseException as failure:
            self._failure = failure

    def _tasks(self) -> list[Obj]:
        objects = self._learning.objects
        reply = objects.backend.request("GET", objects.path(API, "wasmtasks"))
        assert reply.code == 200, reply.body
        return [
            each for each in reply.json()["items"] if not (each.get("status") or {}).get("phase")
        ]


def trained(task: Obj) -> list[float]:
    """Half the way from the global model to the proplet's own optimum."""
    env = task["spec"]["env"]
    text = env.get("FL_GLOBAL_UPDATE_B64")
    start = json.loads(base64.b64decode(text)) if text else [0.0] * 5
    own = _number(task)
    optimum = [own * 0.1 + index / 7 for index in range(len(start))]
    return [value + (goal - value) / 2 for value, goal in zip(start, optimum, strict=True)]


def _number(task: Obj) -> int:
    return int(task["spec"]["propletId"].removeprefix("p"))


def _samples(task: Obj) -> int:
    return 10 + 7 * _number(task)
