"""When a pod must leave a node with NoExecute taints. No I/O.

A pod that tolerates every such taint for ever stays. One that does not tolerate one of them goes at
once. One that tolerates them for a time goes when the shortest of these times is over, counted from
when the pod was first seen with such a taint; the count begins anew when the taints were gone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from corral.cluster.scheduler.placement.taints import tolerates
from corral.kube.types import Obj
from corral.runtime import key_of, uid_of

__all__ = ["Evictions", "tolerated_for"]


def tolerated_for(tolerations: Sequence[Obj], taints: Sequence[Obj]) -> float:
    """Seconds for which the taints are tolerated: 0 for not at all, infinity for ever."""
    shortest = math.inf
    for taint in taints:
        used = next((t for t in tolerations if tolerates(t, taint)), None)
        if used is None:
            return 0.0
        seconds = used.get("tolerationSeconds")
        if seconds is not None:
            shortest = min(shortest, max(float(seconds), 0.0))
    return shortest


class Evictions:
    """The pods whose time is running."""

    def __init__(self) -> None:
        # key → (uid, since when); another uid is another pod, whose time begins anew.
        self._since: dict[str, tuple[str, float]] = {}

    def __len__(self) -> int:
        return len(self._since)

    def due_in(self, pod: Obj, taints: Sequence[Obj], now: float) -> float | None:
        """Seconds until the pod must go, 0 for now; None when it may stay."""
        key, uid = key_of(pod), uid_of(pod)
        limit = tolerated_for((pod.get("spec") or {}).get("tolerations") or (), taints)
        if not taints or limit == math.inf:
            return None
        known = self._since.get(key)
        if known is None or known[0] != uid:
            known = self._since[key] = (uid, now)
        return max(known[1] + limit - now, 0.0)

    def cancel(self, key: str) -> bool:
        """Forget a pod; whether its time was running."""
        return self._since.pop(key, None) is not None
