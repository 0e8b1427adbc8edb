"""Whose topics and groups there are, and what each may have.

Tenants do not see each other: a name means a topic or group of the tenant who says it, and the same
name means another one to another. So there is nothing of others that could be asked for, taken
away, or found out about. Where all who come are one, that one has no name.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from corral.cluster.broker.errors import BrokerError, ErrorCode
from corral.cluster.broker.logins import namespace_of
from corral.cluster.broker.protocol.budget import Budget
from corral.cluster.broker.settings import Limits, Share
from corral.cluster.broker.storage.usage import Usage
from corral.cluster.broker.turns import TurnState

if TYPE_CHECKING:
    from corral.cluster.broker.topics import Topic

__all__ = ["Tenant", "Tenants"]

_PER_SECOND: Final = 10.0
"""Changes that a tenant may make again."""


@dataclass(slots=True, eq=False)
class Tenant:
    """One of them. `name` is ``NAMESPACE.UID``, or empty."""

    name: str
    share: Share
    budget: Budget
    usage: Usage
    topics: dict[str, Topic] = field(default_factory=dict)
    connections: int = 0
    partitions: int = 0
    turns: TurnState = field(default_factory=TurnState)
    _changes: float = 0.0
    _changed: float = 0.0

    @property
    def shown(self) -> str:
        """For people."""
        return f"namespace {namespace_of(self.name)}" if self.name else "the broker"

    def inner(self, name: str) -> str:
        """A topic or group as it is kept; no name of theirs has a slash before its own."""
        return f"{self.name}/{name}" if self.name else name

    def outer(self, inner: str) -> str | None:
        """As its clients call it; None where it is another's."""
        if not self.name:
            return inner
        name = inner.removeprefix(f"{self.name}/")
        return name if name != inner else None

    def change(self, count: int) -> None:
        """Something durable is to be made. Raises BrokerError where that is too often."""
        now = time.monotonic()
        self._changes = max(self._changes - (now - self._changed) * _PER_SECOND, 0.0)
        self._changed = now
        # a large one is made by who has made none for long
        if self._changes and self._changes + count > self.share.changes:
            raise BrokerError(
                ErrorCode.throttling_quota_exceeded,
                f"{self.shown} makes topics too fast: try again later",
            )
        self._changes += count

    def check_room(self, topics: int, partitions: int) -> None:
        """Raises BrokerError where it has as many as it may."""
        if len(self.topics) + topics > self.share.topics:
            raise BrokerError(
                ErrorCode.policy_violation,
                f"there are too many topics: {self.shown} may have {self.share.topics}",
            )
        if self.partitions + partitions > self.share.partitions:
            raise BrokerError(
                ErrorCode.policy_violation,
                f"there are too many partitions: {self.shown} may have {self.share.partitions}",
            )


class Tenants:
    """Those who have come, or have topics."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.memory = Budget(limits.pending_bytes)
        self._known: dict[str, Tenant] = {}

    def get(self, name: str) -> Tenant:
        """That of a name."""
        found = self._known.get(name)
        if found is None:
            share = self._limits.share if name else self._limits.undivided
            budget = Budget(share.pending_bytes, self.memory)
            found = self._known[name] = Tenant(name, share, budget, Usage(share.disk_bytes))
            found.usage.most_producers = share.producers
            found.usage.of = found.shown
        return found
