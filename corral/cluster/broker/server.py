"""A broker: its topics, groups and users, and the socket they are reached by."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from typing import Final

from corral.cluster import locking
from corral.cluster.broker.errors import BrokerError, DataError
from corral.cluster.broker.groups.coordinator import Coordinator
from corral.cluster.broker.identities import Identities
from corral.cluster.broker.session import ClientSession
from corral.cluster.broker.settings import BrokerSettings
from corral.cluster.broker.topics import Topics
from corral.cluster.broker.users import Users
from corral.cluster.broker.wire.connection import Budget, Connection

__all__ = ["Broker"]

logger = logging.getLogger(__name__)

_REFUSAL: Final = 0.2
"""Seconds before a wrong password is answered."""


class Broker:
    """Loaded by `start`, which serves until `stop`."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.refusal_delay = _REFUSAL
        self.topics = Topics(settings)
        self.coordinator: Coordinator
        self.identities: Identities
        self.users: Users | None = None
        self._lock = -1
        self._budget = Budget(settings.limits.pending_bytes)
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._hurry = asyncio.Event()
        self.address = ("", 0)
        """What clients are told."""

    @property
    def secure(self) -> bool:
        """Whether everybody has to log in."""
        return self.users is not None

    async def start(self, sock: socket.socket | None = None) -> None:
        """Load and listen; ``sock`` is one that listens already.

        Raises:
            DataError: the data folder cannot be used.
            OSError: nor can the port.
        """
        self._take()
        await asyncio.to_thread(self._load)
        loop = asyncio.get_running_loop()
        where = self.settings
        if sock is None:
            self._server = await loop.create_server(self._connection, where.host, where.port)
        else:
            self._server = await loop.create_server(self._connection, sock=sock)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = _split(where.advertised) if where.advertised else (_shown(host), port)
        self._tasks = [
            asyncio.create_task(self.coordinator.run()),
            asyncio.create_task(self._look_after()),
        ]

    def _take(self) -> None:
        folder = self.settings.data_dir
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self._lock = locking.take(folder / "lock")
        except locking.Held as err:
            raise DataError(
                f"{folder} is used by the broker of process {err.holder}: stop that one first, "
                "or choose another folder"
            ) from err

    def _load(self) -> None:
        folder, limits = self.settings.data_dir, self.settings.limits
        self.identities = Identities(folder / "identities.json")
        self.coordinator = Coordinator(folder / "offsets.journal", limits)
        if self.settings.users_file is not None:
            self.users = Users(folder / "users.json", limits.users)
            self.users.add_from(self.settings.users_file)
        self.topics.load()

    # -- connections -----------------------------------------------------------------------------

    def _connection(self) -> Connection:
        return Connection(self.settings.limits, self._budget, self._begin, self._ended)

    def _begin(self, connection: Connection) -> ClientSession | None:
        if len(self._connections) >= self.settings.limits.connections:
            logger.warning("%s: refused: there are too many connections", connection.peer)
            return None
        self._connections.add(connection)
        return ClientSession(self, connection.peer)

    def _ended(self, connection: Connection) -> None:
        self._connections.discard(connection)

    # -- upkeep ----------------------------------------------------------------------------------

    def hurry(self) -> None:
        """There is something to clear away."""
        self._hurry.set()

    async def _look_after(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self.settings.upkeep):
                    await self._hurry.wait()
            except TimeoutError:
                await self._round()
            self._hurry.clear()
            await asyncio.to_thread(self.topics.clear)

    async def _round(self) -> None:
        now = time.time()
        for topic in self.topics:
            for log in topic.logs:
                try:
                    log.retain(now)
                    await log.checkpoint()
                except (OSError, BrokerError) as err:
                    logger.error("%s: %s", log.folder, err)
        try:
            self.coordinator.expire(now)
            await asyncio.to_thread(self.coordinator.offsets.flush)
        except OSError as err:
            logger.error("committed offsets: %s", err)

    async def stop(self) -> None:
        """Let go of everybody, and have all on disk."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()
            self.coordinator.stop()
            open_ones = tuple(self._connections)
            for connection in open_ones:
                connection.abort()
            await asyncio.gather(*(connection.wait_closed() for connection in open_ones))
            for topic in self.topics:
                for log in topic.logs:
                    await log.close()
            await asyncio.to_thread(self.coordinator.offsets.flush)
            await asyncio.to_thread(self.topics.clear)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _split(advertised: str) -> tuple[str, int]:
    host, _, port = advertised.rpartition(":")
    return host.strip("[]"), int(port)


def _shown(host: str) -> str:
    """The address as others on this machine write it."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
