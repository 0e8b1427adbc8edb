"""One request with everything that is needed to answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corral.cluster.broker.server import Broker
    from corral.cluster.broker.session import ClientSession
    from corral.cluster.broker.tenants import Tenant
    from corral.cluster.broker.topics import OwnTopics

__all__ = ["Answer", "Call"]

Answer = Mapping[str, Any]
"""In the shape of the newest version."""


@dataclass(frozen=True, slots=True)
class Call:
    """`request` is an entity of kio, in the version that was asked for."""

    broker: Broker
    session: ClientSession
    tenant: Tenant
    """Whose topics and groups its names mean."""
    version: int
    client: str
    """As it calls itself."""
    request: Any

    @property
    def topics(self) -> OwnTopics:
        return self.broker.topics.of(self.tenant)

    async def breathe(self) -> None:
        """Let others be served before something that takes long: it waits for the disk."""
        await asyncio.sleep(0)
        await self.session.turn()

    def group(self, name: str) -> str:
        """A group as the coordinator knows it; empty stays empty."""
        return self.tenant.inner(name) if name else ""
