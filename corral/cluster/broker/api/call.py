"""One request with everything that is needed to answer it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corral.cluster.broker.server import Broker
    from corral.cluster.broker.session import ClientSession

__all__ = ["Answer", "Call"]

Answer = Mapping[str, Any]
"""In the shape of the newest version."""


@dataclass(frozen=True, slots=True)
class Call:
    """`request` is an entity of kio, in the version that was asked for."""

    broker: Broker
    session: ClientSession
    version: int
    client: str
    """As it calls itself."""
    request: Any
