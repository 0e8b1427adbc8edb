"""A broker: its topics, groups and users, and the socket they are reached by."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from corral.cluster import locking
from corral.cluster.broker.consumergroups.coordinator import Coordinator
from corral.cluster.broker.errors import BrokerError, DataError
from corral.cluster.broker.identities import Identities
from corral.cluster.broker.logins import load_key, namespace_of
from corral.cluster.broker.namespaces import Namespaces
from corral.cluster.broker.protocol.connection import READ, Connection
from corral.cluster.broker.session import ClientSession
from corral.cluster.broker.settings import BrokerSettings
from corral.cluster.broker.strangers import Strangers
from corral.cluster.broker.tenants import Tenants
from corral.cluster.broker.topics import Topics
from corral.cluster.broker.turns import Turns, TurnState
from corral.cluster.broker.users import Users
from corral.files.private import data_folder
from corral.runtime.serving.listening import Listen, bind, shown

__all__ = ["Broker", "Listener"]

logger = logging.getLogger(__name__)

_REFUSAL: Final = 0.2
"""Seconds before a wrong password is answered."""
_COMPLAINTS: Final = 1.0
"""Seconds between two lines of the log about those who are not let in."""


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
        self.tenants = Tenants(settings.limits)
        self.nobody = self.tenants.get("")
        """The tenant of all, where nobody logs in as one."""
        self.turns = Turns()
        self.strange_turns = TurnState()
        """Of all who have not logged in."""
        self.topics = Topics(settings, self.tenants)
        self.coordinator: Coordinator
        self.identities: Identities
        self.users: Users | Namespaces | None = None
        self._lock = -1
        self._room = bytearray(READ)
        self._sessions: dict[Connection, ClientSession] = {}
        self._strangers = Strangers(settings.limits.strangers)
        self._gone: set[str] = set()
        """Tenants that are no more."""
        self.exists: Callable[[str], bool | None] = lambda owner: None
        """Whether the namespace of a tenant is there; None where nobody knows."""
        self._complained, self._unsaid = -_COMPLAINTS, 0
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
                self.settings.limits, self._room, partial(self._begin, address), self._ended
            ),
            sock=listener.sock,
        )
        self._servers.append(server)
        self.addresses.append(told)

    def _take(self) -> None:
        folder = self.settings.data_dir
        data_folder(folder)
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
        if self.settings.key_file is not None:
            self.users = Namespaces(self._key(self.settings.key_file))
        elif self.settings.users_file is not None:
            self.users = Users(folder / "users.json", limits.users)
            self.users.add_from(self.settings.users_file)
        self.topics.load()

    def _key(self, path: Path) -> bytes:
        try:
            return load_key(path)
        except (OSError, ValueError) as err:
            raise DataError(f"the key of logins cannot be used: {err}") from err

    # -- connections -----------------------------------------------------------------------------

    def _begin(self, address: tuple[str, int], connection: Connection) -> ClientSession | None:
        if len(self._sessions) >= self.settings.limits.connections:
            self.complain(f"{connection.peer}: refused: there are too many connections")
            return None
        session = self._sessions[connection] = ClientSession(self, connection, address)
        if not self.secure:
            session.tenant = self.nobody
            self.nobody.connections += 1
        elif (oldest := self._strangers.add(connection)) is not None:
            self.complain(f"{oldest.peer}: closed: too many have not logged in")
            oldest.abort()
        return session

    def admit(self, session: ClientSession, user: str) -> None:
        """Somebody has logged in. Raises ConnectionError where its tenant has come too often."""
        assert self.users is not None
        owner = self.users.owner(user)
        if owner and (owner in self._gone or self.exists(owner) is False):
            # it may have been deleted while nobody was here to be told
            raise ConnectionError(f"namespace {namespace_of(owner)} was deleted")
        tenant = self.tenants.get(owner)
        if tenant.connections >= tenant.share.connections:
            raise ConnectionError(f"{tenant.shown} has {tenant.connections} connections already")
        tenant.connections += 1
        session.tenant = tenant
        self._strangers.remove(session.connection)

    def forget(self, owner: str) -> None:
        """A tenant is no more: its connections, topics and groups go, and it does not come back."""
        self._gone.add(owner)
        tenant = self.tenants.get(owner)
        for connection, session in tuple(self._sessions.items()):
            if session.tenant is tenant:
                connection.abort()
        try:
            self.topics.delete_all(tenant)
            self.coordinator.forget_all(tenant)
        except (BrokerError, OSError) as err:
            logger.error("%s was deleted, and its topics stay: %s", tenant.shown, err)
        self.hurry()

    def complain(self, text: str) -> None:
        """Of somebody outside, who may be at it all day: once a second is enough."""
        now = time.monotonic()
        if now - self._complained < _COMPLAINTS:
            self._unsaid += 1
            return
        more = f" (and {self._unsaid} more such)" if self._unsaid else ""
        logger.warning("%s%s", text, more)
        self._complained, self._unsaid = now, 0

    def _ended(self, connection: Connection) -> None:
        self._strangers.remove(connection)
        session = self._sessions.pop(connection, None)
        if session is not None and session.tenant is not None:
            session.tenant.connections -= 1

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
            open_ones = tuple(self._sessions)
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
