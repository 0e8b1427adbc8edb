"""A broker: its topics, groups and users, and the socket they are reached by."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import time
from dataclasses import dataclass
from functools import partial
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
from corral.runtime.listening import Listen, bind, shown

__all__ = ["Broker", "Listener"]

logger = logging.getLogger(__name__)

_REFUSAL: Final = 0.2
"""Seconds before a wrong password is answered."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that listens, and the HOST:PORT by which its clients find the broker again."""

    sock: socket.socket
    advertised: str = ""
    """Empty: where it listens."""


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
        self._servers: list[asyncio.AbstractServer] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._hurry = asyncio.Event()
        self.addresses: list[str] = []
        """What clients are told, for each listener."""

    @property
    def secure(self) -> bool:
        """Whether everybody has to log in."""
        return self.users is not None

    async def start(self, *listeners: Listener) -> None:
        """Load and listen: as the settings say, or on sockets that listen already.

        Raises:
            DataError: the data folder cannot be used.
            OSError: nor can the port.
        """
        _allow_files()
        self._take()
        await asyncio.to_thread(self._load)
        where = self.settings
        if not listeners:
            sock = bind(Listen(where.host, where.port))
            listeners = (Listener(sock, where.advertised),)
        for listener in listeners:
            await self._listen(listener)
        self._tasks = [
            asyncio.create_task(self.coordinator.run()),
            asyncio.create_task(self._look_after()),
        ]

    async def _listen(self, listener: Listener) -> None:
        host, port = listener.sock.getsockname()[:2]
        told = listener.advertised or f"{shown(host)}:{port}"
        address = _split(told)
        server = await asyncio.get_running_loop().create_server(
            lambda: Connection(
                self.settings.limits, self._budget, partial(self._begin, address), self._ended
            ),
            sock=listener.sock,
        )
        self._servers.append(server)
        self.addresses.append(told)

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

    def _begin(self, address: tuple[str, int], connection: Connection) -> ClientSession | None:
        if len(self._connections) >= self.settings.limits.connections:
            logger.warning("%s: refused: there are too many connections", connection.peer)
            return None
        self._connections.add(connection)
        return ClientSession(self, connection.peer, address)

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
            await self.topics.clear()

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
        if self._servers:
            for server in self._servers:
                server.close()
            self.coordinator.stop()
            open_ones = tuple(self._connections)
            for connection in open_ones:
                connection.abort()
            await asyncio.gather(*(connection.wait_closed() for connection in open_ones))
            for topic in self.topics:
                for log in topic.logs:
                    await log.close()
            await asyncio.to_thread(self.coordinator.offsets.flush)
            await self.topics.clear()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _allow_files() -> None:
    """As many open files as this process may have at all: each partition has one in use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _split(advertised: str) -> tuple[str, int]:
    host, _, port = advertised.rpartition(":")
    return host.strip("[]"), int(port)
