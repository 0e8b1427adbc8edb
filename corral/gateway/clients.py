"""Clients of the API server, one for each token in use: bounded, shared, closed when idle.

A client is held by leases; one that is held is never closed. Beyond the bound the one that was used
longest ago and that nobody holds makes room. A flow holds a part of all clients, and streams, which
last, a part of that: where those are held, the caller is asked to come back, while others go on. No
client has any credential but the token it was made for.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from corral.client.errors import Unavailable
from corral.client.jobs import Jobs
from corral.gateway.auth import Caller
from corral.gateway.limits import Shares, place_of
from corral.gateway.warnings import note
from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig
from corral.kube.connection.transport import ClientSettings

__all__ = ["ClientPool", "Lease", "Upstream"]


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where the API server is and how it proves to be it; never who asks."""

    config: ClusterConfig

    @classmethod
    def of(cls, config: ClusterConfig) -> Upstream:
        """The same cluster without any credential of the configuration."""
        return cls(
            replace(
                config,
                cert_file="",
                cert_data=b"",
                key_file="",
                key_data=b"",
                token="",
                token_file="",
                username="",
                password="",
                impersonation=None,
                exec_plugin=None,
            )
        )

    def as_token(self, token: str) -> ClusterConfig:
        return replace(self.config, token=token)


@dataclass(slots=True, eq=False)
class Lease:
    """A client of one token."""

    jobs: Jobs
    user: str = ""
    """The name that the API server knows the token by, once it was asked."""
    holders: int = field(default=0)
    used: float = 0.0


class _Held:
    """Clients that are held: each counts once for a flow, however often it holds it."""

    def __init__(self, count: int, each: int) -> None:
        self._shares = Shares(max(1, count), each=max(1, each))
        self._holds: Counter[tuple[str, str]] = Counter()
        """By flow and `Caller.key`; never 0."""

    def fits(self, flow: str, key: str) -> bool:
        return (flow, key) in self._holds or self._shares.fits(flow)

    def take(self, flow: str, key: str) -> None:
        if (flow, key) not in self._holds:
            self._shares.take(flow)
        self._holds[flow, key] += 1

    def give(self, flow: str, key: str) -> None:
        self._holds[flow, key] -= 1
        if not self._holds[flow, key]:
            del self._holds[flow, key]
            self._shares.give(flow)


class ClientPool:
    """Clients by token."""

    def __init__(
        self,
        access: Upstream,
        *,
        size: int,
        idle_seconds: float,
        client_settings: ClientSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._access = access
        self._size, self._idle = size, idle_seconds
        self._client_settings = client_settings
        self._clock, self._now = clock, now
        self._leases: OrderedDict[str, Lease] = OrderedDict()
        """By `Caller.key`, the most recently used last."""
        self._held = _Held(size, size // 4)
        self._streaming = _Held(size // 2, size // 8)
        """Of those that are held, the ones that streams hold: the others are for what ends soon."""
        self._closed = False
        self._sweeper: asyncio.Task[None] | None = None
        """Runs while there are clients; `close` ends it."""

    def __len__(self) -> int:
        return len(self._leases)

    @asynccontextmanager
    async def lease(self, caller: Caller, *, streams: bool = False) -> AsyncIterator[Lease]:
        """The caller's client, not closed before this is left.

        ``streams`` says that it is held for as long as the caller likes.

        Raises:
            Unavailable: as many clients are in use as may be, or the gateway is closing.
        """
        if self._closed:
            raise Unavailable("the gateway is stopping", retry_after=1)
        flow = caller.flow or place_of(caller.address)
        kinds = (self._held, self._streaming) if streams else (self._held,)
        if not all(held.fits(flow, caller.key) for held in kinds):
            detail = (
                "the gateway serves as many callers as it can, of this namespace or user or all"
            )
            raise Unavailable(detail, retry_after=1)
        # found or made, and held, before anything is awaited: two requests of one token share it
        lease = self._found(caller)
        lease.holders += 1
        for held in kinds:
            held.take(flow, caller.key)
        try:
            await self._make_room()
            yield lease
        finally:
            for held in kinds:
                held.give(flow, caller.key)
            lease.holders -= 1
            lease.used = self._clock()

    def _found(self, caller: Caller) -> Lease:
        found = self._leases.get(caller.key)
        if found is None:
            found = self._leases[caller.key] = self._made(caller)
        found.used = self._clock()
        self._leases.move_to_end(caller.key)
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep())
        return found

    async def _sweep(self) -> None:
        """Close clients that became idle while nobody asked for anything."""
        while self._leases:
            await asyncio.sleep(self._idle)
            await self.close_idle()

    def _made(self, caller: Caller) -> Lease:
        config = self._access.as_token(caller.token)
        client = KubeClient(config, settings=self._client_settings, on_warning=note)
        return Lease(Jobs(client) if self._now is None else Jobs(client, clock=self._now))

    async def _make_room(self) -> None:
        """Close clients that are idle, and the oldest unheld ones beyond the bound."""
        expired = self._clock() - self._idle
        surplus = len(self._leases) - self._size
        leaving: list[Lease] = []
        for key, lease in list(self._leases.items()):
            if lease.holders:
                continue
            if lease.used < expired or surplus > 0:
                leaving.append(self._leases.pop(key))
                surplus -= 1
        for lease in leaving:
            await lease.jobs.client.close()

    async def close_idle(self) -> None:
        """Close every client that nobody has used for a while."""
        expired = self._clock() - self._idle
        idle = [k for k, x in self._leases.items() if not x.holders and x.used < expired]
        for lease in [self._leases.pop(key) for key in idle]:
            await lease.jobs.client.close()

    async def close(self) -> None:
        """Close all of them, for good; what is under way fails."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        leaving = list(self._leases.values())
        self._leases.clear()
        for lease in leaving:
            await lease.jobs.client.close()
