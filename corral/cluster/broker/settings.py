"""How a broker runs: every limit with its default and unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["NODE_ID", "BrokerSettings", "Limits", "Share"]

NODE_ID: Final = 1
"""Of the only broker there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one namespace may have of a broker where everybody logs in."""

    connections: int = 256
    frame_bytes: int = 32 * 2**20
    """Of one request."""
    other_frame_bytes: int = 128 * 2**10
    """Of one request that brings no records."""
    pending_bytes: int = 64 * 2**20
    """Of all its requests that have been begun and not answered; and of answers not taken yet."""
    topics: int = 1000
    partitions: int = 2000
    """Of all its topics together."""
    disk_bytes: int = 20 * 2**30
    """Of all its records."""
    changes: int = 200
    """Topics and partitions that it may make at once; ten more come with every second."""
    groups: int = 200
    members: int = 500
    """Of all its groups together."""
    member_bytes: int = 32 * 2**10
    """That a member may say about itself, or be assigned."""
    committed: int = 10_000
    """Partitions with a committed offset, of all its groups together."""
    items: int = 5000
    """Topics, partitions or names in one request."""
    producers: int = 20_000
    """Idempotent producers that all its partitions remember together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What anybody may ask of a broker, and all together."""

    connections: int = 2000
    frame_bytes: int = 100 * 2**20
    """Of one request."""
    other_frame_bytes: int = 8 * 2**20
    """Of one request that brings no records."""
    strangers: int = 256
    """Connections of those who have not logged in, where that is asked for; when one more comes,
    the oldest of the address that has most goes."""
    strange_frame_bytes: int = 8 * 2**10
    """Of one request of theirs."""
    login: float = 10.0
    """Seconds in which they have to log in."""
    pending_bytes: int = 512 * 2**20
    """Of all requests that have been begun and not answered; who comes then waits."""
    pipelined: int = 64
    """Requests of one connection that wait for their turn."""
    idle: float = 600.0
    """Seconds without a request after which a connection is closed."""
    slow: float = 60.0
    """Seconds that one request may take to arrive, or one answer to be taken."""
    patience: float = 2.0
    """Seconds for which a request that does not come on keeps memory that others wait for."""
    progress: int = 256 * 2**10
    """Bytes a second by which a request comes on."""
    items: int = 20_000
    """Topics, partitions or names in one request."""
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
    disk_reserve: int = 256 * 2**20
    """Bytes of the disk, but a twentieth of it at most, that records leave to everybody else."""
    share: Share = field(default_factory=Share)
    """Of each namespace."""

    @property
    def undivided(self) -> Share:
        """Where all who come are one: everything."""
        return Share(
            connections=self.connections,
            frame_bytes=self.frame_bytes,
            other_frame_bytes=self.other_frame_bytes,
            pending_bytes=self.pending_bytes,
            topics=self.topics,
            partitions=self.partitions,
            disk_bytes=2**63,
            changes=2**63,
            groups=self.groups,
            members=2**63,
            member_bytes=self.member_bytes,
            committed=2**63,
            items=self.items,
            producers=2**63,
        )


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
    """Lines ``name:password``. With it everybody has to log in, and all see the same."""
    key_file: Path | None = None
    """With it everybody has to log in as a namespace, and sees what is of that namespace alone.
    The key makes their passwords (:mod:`logins`)."""
    upkeep: float = 5.0
    """Seconds between rounds of flushing, checkpoints, retention and expiry."""
    limits: Limits = field(default_factory=Limits)
