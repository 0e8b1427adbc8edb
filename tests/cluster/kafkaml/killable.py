"""A server and a client as processes that are killed: ``python -m … server|client …``.

server SERVERS ID ROUNDS CLIENTS FILE    serves; leaves the final weights in FILE
client PARTS                             dies when so many messages of weights are stored
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from corral.podtools.kafka import client as kafka
from corral.podtools.kafka.client import Access, Sender
from corral.podtools.kafka.names import Names
from corral.podtools.kafka.ranges import Range
from corral.podtools.kafka.weights import Part, parts_of
from corral.podtools.kafkaml import client, serving
from corral.podtools.kafkaml.rounds import Rounds
from corral.podtools.kafkaml.serving import Server
from tests.cluster.kafkaml.deployments import Audience, Deployments, model


class Keeping(Audience):
    """Keeps the final weights in a file."""

    def __init__(self, clients: Sequence[str], file: Path) -> None:
        super().__init__(clients)
        self._file = file

    def publish(self, weights: Sequence[np.ndarray], rounds: Rounds) -> str:
        part = self._file.with_suffix(".part")
        with part.open("wb") as out:
            np.savez(out, *weights)
        part.rename(self._file)
        return "kept"


def mortal(seed: int) -> type[Sender]:
    """A sender that dies at a write that the seed says, before or after it is stored."""
    chance = random.Random(seed)
    moment, before = chance.randint(1, 12), chance.random() < 0.5
    count = 0

    class Mortal(Sender):
        def send_all(self, *args: Any, **kwargs: Any) -> Range:
            nonlocal count
            count += 1
            if count == moment and before:
                os.kill(os.getpid(), signal.SIGKILL)
            found = super().send_all(*args, **kwargs)
            if count == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

    return Mortal


def serve(servers: str, federated_id: str, rounds: str, clients: str, file: str, seed: str) -> int:
    serving.Sender = mortal(int(seed))  # type: ignore[misc]
    names = clients.split(",")
    deployments = Deployments(Access(servers), federated_id)
    made = deployments.deployment(model(), rounds=int(rounds), k=len(names), at_least=len(names))
    told = Keeping(names, Path(file))
    ended = Server(deployments.access, made, model().get_weights(), told).run()
    return 0 if ended.ended == "finished" else 1


def die(parts: str) -> int:
    access = Access.from_environment(os.environ, "KML_CLOUD_BOOTSTRAP_SERVERS")
    names = Names.of(os.environ["FEDERATED_MODEL_ID"])
    own = names.client_data(os.environ["FEDERATED_CLIENT_ID"])

    def some(weights: Sequence[Any], *, limit: int) -> Iterator[Part]:
        for number, part in enumerate(parts_of(weights, limit=limit)):
            if number == int(parts):
                while kafka.ends(access, own)[0].end < number:
                    pass
                os.kill(os.getpid(), signal.SIGKILL)
            yield part

    kafka.parts_of = some
    return client.main()


if __name__ == "__main__":
    sys.exit({"server": serve, "client": die}[sys.argv[1]](*sys.argv[2:]))
