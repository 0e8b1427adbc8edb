"""A write load that knows what it was promised, and a watcher that keeps all it was told.

Every writer owns its keys, so for each key there is a set of states that are possible: one after an
answer, more after a connection that broke before the answer came.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from dataclasses import dataclass, field

from corral.kube import KubeClient, KubeConnectionError, Obj, ResumingWatch, WatchRequest, errors
from corral.kube.resources import CONFIGMAPS, NAMESPACES
from corral.kube.watch import WatchBackoff

KEYS = 6
"""Objects of one writer."""

Data = dict[str, str]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A write that was answered; ``epoch`` counts the kills before it."""

    revision: int
    name: str
    data: Data
    epoch: int


@dataclass
class Promises:
    """What the server has promised so far."""

    possible: dict[str, list[Data | None]] = field(default_factory=dict)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    deletes: int = 0
    unknown: int = 0
    epoch: int = 0


class Writer:
    """Creates, patches and deletes its own ConfigMaps until told to stop."""

    def __init__(self, client: KubeClient, namespace: str, promises: Promises, seed: int) -> None:
        self._client = client
        self._namespace = namespace
        self._promises = promises
        self._rng = random.Random(seed)
        self._names = [f"w{seed}-{n}" for n in range(KEYS)]
        self._count = 0

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self.step()
            except KubeConnectionError:
                await self._until_back()

    async def _until_back(self) -> None:
        """Reads only: writes to a server that is away would be outcomes to know nothing about."""
        while True:
            try:
                await self._client.get(NAMESPACES, self._namespace)
            except KubeConnectionError:
                await asyncio.sleep(0.02)
            else:
                return

    async def step(self) -> None:
        """One write to one key; raises KubeConnectionError when its outcome is unknown."""
        name = self._rng.choice(self._names)
        possible = self._promises.possible.setdefault(name, [None])
        if all(state is None for state in possible):
            await self._create(name, possible)
        elif self._rng.random() < 0.2:
            await self._delete(name, possible)
        else:
            await self._patch(name, possible)

    async def _create(self, name: str, possible: list[Data | None]) -> None:
        data = self._data()
        try:
            made = await self._client.create(
                CONFIGMAPS, {"metadata": {"name": name}, "data": data}, namespace=self._namespace
            )
        except KubeConnectionError:
            self._lost(possible, data)
            raise
        self._answered(name, possible, made, data)

    async def _patch(self, name: str, possible: list[Data | None]) -> None:
        data = self._data()
        try:
            made = await self._client.patch(
                CONFIGMAPS, name, patch={"data": data}, namespace=self._namespace
            )
        except KubeConnectionError:
            self._lost(possible, data)
            raise
        except errors.NotFound:
            assert None in possible, f"{name} is gone, nobody deleted it"
            possible[:] = [None]
            return
        self._answered(name, possible, made, data)

    async def _delete(self, name: str, possible: list[Data | None]) -> None:
        try:
            await self._client.delete(CONFIGMAPS, name, namespace=self._namespace)
        except KubeConnectionError:
            self._lost(possible, None)
            raise
        except errors.NotFound:
            assert None in possible, f"{name} is gone, nobody deleted it"
        else:
            self._promises.deletes += 1
        possible[:] = [None]

    def _answered(self, name: str, possible: list[Data | None], made: Obj, data: Data) -> None:
        possible[:] = [data]
        revision = int(made["metadata"]["resourceVersion"])
        promises = self._promises
        promises.acknowledged.append(Acknowledged(revision, name, data, promises.epoch))

    def _lost(self, possible: list[Data | None], state: Data | None) -> None:
        self._promises.unknown += 1
        possible.append(state)

    def _data(self) -> Data:
        self._count += 1
        text = self._rng.choice("abcdefgh") * self._rng.choice((10, 300, 6000))
        return {"count": str(self._count), "text": text, "sum": checksum(str(self._count), text)}


def checksum(count: str, text: str) -> str:
    return str(zlib.crc32(f"{count}/{text}".encode()))


def is_whole(data: Data) -> bool:
    """Every part of one write is there, and of that one only."""
    return set(data) == {"count", "text", "sum"} and data["sum"] == checksum(
        data["count"], data["text"]
    )


class Watcher:
    """A resuming watch from one revision on; keeps every event."""

    def __init__(self, client: KubeClient, namespace: str, revision: str) -> None:
        self._watch = ResumingWatch(
            client.transport,
            WatchRequest(CONFIGMAPS, namespace, resource_version=revision),
            backoff=WatchBackoff(first=0.05, factor=1.0),
        )
        self.events: list[tuple[str, Obj]] = []

    async def run(self, last: str) -> None:
        """Until the object of this name is there."""
        async for event in self._watch:
            if event.type == "BOOKMARK":
                continue
            self.events.append((event.type, event.object))
            if event.object["metadata"]["name"] == last:
                return

    @property
    def connections(self) -> int:
        return self._watch.connections

    def revisions(self) -> list[int]:
        return [int(obj["metadata"]["resourceVersion"]) for _, obj in self.events]

    def replay(self, state: dict[str, Obj]) -> dict[str, Obj]:
        """What the events make of a state; every event must fit what it builds on."""
        state = dict(state)
        for type_, obj in self.events:
            name = obj["metadata"]["name"]
            assert (type_ == "ADDED") == (name not in state), (type_, name)
            if type_ == "DELETED":
                del state[name]
            else:
                state[name] = obj
        return state
