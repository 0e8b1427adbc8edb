"""How long a container that keeps ending has to wait: 10 s, doubled each time, 5 min at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INITIAL: Final = 10.0
MAXIMUM: Final = 300.0
FORGET: Final = 600.0
"""Seconds after a restart, at the end of which a container is taken for healthy again."""


@dataclass(slots=True)
class Backoff:
    """For one container. The first restart is at once, the second waits."""

    seconds: float = 0.0
    since: float = 0.0
    """When ``seconds`` was set: the last restart."""

    def until(self, ended: float) -> float:
        """The time before which a container that ended then must not start again."""
        if not self.seconds or ended - self.since > FORGET:
            return ended
        return ended + self.seconds

    def restarted(self, ended: float, now: float) -> None:
        """Note that a container that had ended then is started again now."""
        if not self.seconds or ended - self.since > FORGET:
            self.seconds = INITIAL
        else:
            self.seconds = min(self.seconds * 2, MAXIMUM)
        self.since = now


def words(seconds: float) -> str:
    """A duration as Go prints it."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
