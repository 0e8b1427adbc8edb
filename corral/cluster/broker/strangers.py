"""Connections of those who have not logged in: few, and the newest ones.

Who logs in does so within milliseconds; who fills the room and waits loses it to those who come.
"""

from __future__ import annotations

from corral.cluster.broker.protocol.connection import Connection

__all__ = ["Strangers"]


class Strangers:
    """By the address they come from, the oldest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._from: dict[str, dict[Connection, None]] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, connection: Connection) -> Connection | None:
        """One more; the one that has to go for it, if any does."""
        self._from.setdefault(connection.peer, {})[connection] = None
        self._count += 1
        if self._count <= self._limit:
            return None
        most = max(self._from.values(), key=len)
        oldest = next(iter(most))
        self.remove(oldest)
        return oldest

    def remove(self, connection: Connection) -> None:
        """It is known now, or gone."""
        held = self._from.get(connection.peer)
        if held is None or connection not in held:
            return
        del held[connection]
        self._count -= 1
        if not held:
            del self._from[connection.peer]
