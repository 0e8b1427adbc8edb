"""How a broker runs: every limit with its default and unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["NODE_ID", "BrokerSettings", "Limits"]

NODE_ID: Final = 1
"""Of the only broker there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What anybody may ask of a broker."""

    connections: int = 1000
    frame_bytes: int = 100 * 2**20
    """Of one request."""
    other_frame_bytes: int = 8 * 2**20
    """Of one request that brings no records."""
    strange_frame_bytes: int = 64 * 2**10
    """Of one request of somebody who has not said who they are, where that is asked for."""
    pending_bytes: int = 512 * 2**20
    """Of all requests that have been begun and not answered; who comes then waits."""
    pipelined: int = 64
    """Requests of one connection that wait for their turn."""
    idle: float = 600.0
    """Seconds without a request after which a connection is closed."""
    slow: float = 60.0
    """Seconds that one request may take to arrive, or one answer to be taken."""
    fetch_bytes: int = 64 * 2**20
    """Of one answer; a larger wish is cut to this."""
    fetch_wait: float = 60.0
    """Seconds."""
    topics: int = 10_000
    partitions: int = 20_000
    """Of all topics together."""
    partitions_per_topic: int = 1000
    producers: int = 10_000
    """Idempotent producers that one partition remembers; the oldest is forgotten first."""
    producer_age: float = 7 * 86400.0
    """Seconds after which a silent producer is forgotten."""
    groups: int = 10_000
    members: int = 1000
    """Of one group."""
    member_bytes: int = 2**20
    """That a member may say about itself, or be assigned."""
    committed: int = 100_000
    """Partitions with a committed offset, of one group."""
    metadata_bytes: int = 4096
    """Beside one committed offset."""
    session_min: float = 6.0
    session_max: float = 1800.0
    rebalance_max: float = 1800.0
    offsets_age: float = 7 * 86400.0
    """Seconds after which the offsets of a group without members are forgotten."""
    users: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """One broker."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 9092
    """0 takes a free one."""
    advertised: str = ""
    """HOST:PORT that clients are told; empty: where it listens."""
    auto_create: bool = True
    """Whether a topic is made when a client asks for one that is not there and allows that."""
    default_partitions: int = 1
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """Topic settings where a topic has none of its own."""
    users_file: Path | None = None
    """Lines ``name:password``. With it, or users of an earlier run, everybody has to log in."""
    upkeep: float = 5.0
    """Seconds between rounds of flushing, checkpoints, retention and expiry."""
    limits: Limits = field(default_factory=Limits)
