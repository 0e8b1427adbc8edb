"""How many watches a flow may have at a time.

A watch holds no seat once it has started, but each has its connection and is written to with every
event. What a flow has is bounded, so that nobody's events come late for another's ten thousand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from corral.cluster.apiserver.turns import RETRY_AFTER
from corral.kube import errors

__all__ = ["WATCHES_PER_FLOW", "WatchLimit"]

WATCHES_PER_FLOW = 1024
"""A node agent or a controller has some hundreds at most."""


class WatchLimit:
    """Counts the watches of every flow."""

    def __init__(self, most: int = WATCHES_PER_FLOW) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    @contextmanager
    def one(self, flow: str, *, exempt: bool = False) -> Iterator[None]:
        """Count a watch as long as it lasts. Raises TooManyRequests, unless ``exempt``."""
        if self._open[flow] >= self._most and not exempt:
            raise errors.TooManyRequests(
                f"too many watches of {flow}: at most {self._most} are open at a time; close some",
                details={"retryAfterSeconds": RETRY_AFTER},
            )
        self._open[flow] += 1
        try:
            yield
        finally:
            self._open[flow] -= 1
            if not self._open[flow]:
                del self._open[flow]
