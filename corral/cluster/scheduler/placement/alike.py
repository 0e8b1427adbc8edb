"""Waiting pods that every node judges alike.

What helps one of them helps the first in line only as far as it goes: an event need wake but one,
and the next when that one has found its place. So a thousand pods of one Job cost no more per
event than a single one.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator

from corral.cluster.scheduler.placement.pods import PodInfo

__all__ = ["Alike", "signature"]


def signature(pod: PodInfo) -> Hashable | None:
    """Equal for pods that fit on the same nodes; None: it depends on more than the nodes.

    As long as no placed pod has anti-affinity, which would make labels count.
    """
    if pod.has_affinity or pod.hard_spread or pod.claims or pod.group is not None or pod.nominated:
        return None
    wanted, spec = pod.requests, pod.pod.get("spec") or {}
    return (
        pod.priority,
        spec.get("preemptionPolicy"),
        wanted.cpu,
        wanted.memory,
        wanted.ephemeral,
        tuple(sorted(wanted.scalars.items())),
        pod.ports,
        pod.node_affinity,
        tuple(tuple(sorted(map(repr, toleration.items()))) for toleration in pod.tolerations),
    )


class Alike:
    """The waiting pods of one signature, and the rules that rejected the last of them."""

    def __init__(self) -> None:
        self.plugins: frozenset[str] = frozenset()
        self.members: dict[str, PodInfo] = {}
        self.told_until = 0.0
        """Until when they count as told what the last of them was told."""
        self._heap: list[tuple[tuple[int, str, str], str]] = []

    def add(self, pod: PodInfo, order: tuple[int, str, str]) -> None:
        self.members[pod.key] = pod
        heapq.heappush(self._heap, (order, pod.key))

    def discard(self, key: str) -> None:
        self.members.pop(key, None)

    def first(self) -> str:
        """The key of the one whose turn it is. There must be one."""
        while self._heap[0][1] not in self.members:
            heapq.heappop(self._heap)
        return self._heap[0][1]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.members))
