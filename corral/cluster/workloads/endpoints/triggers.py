"""When the change began that endpoints are written for; clients measure latency by it. No I/O.

The earliest of all times that have moved since the service was last looked at: readiness of its
pods, creation of the service. A service seen for the first time counts from its creation.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.cluster.workloads.pods import pod_condition
from corral.kube.types import Obj
from corral.runtime import key_of

__all__ = ["TriggerTimes"]


class TriggerTimes:
    """The times known of every service: its own, and those of its pods."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, dict[str, str]]] = {}

    def compute(self, service: Obj, pods: Iterable[Obj]) -> str | None:
        """The time to write now; None when nothing that has a time has changed."""
        key = key_of(service)
        own = str(service["metadata"].get("creationTimestamp") or "")
        times = {str(pod["metadata"]["name"]): _ready_changed(pod) for pod in pods}
        known = self._known.get(key)
        self._known[key] = (own, times)
        if known is None:
            return own or None
        # Times of one format and zone compare as texts.
        moved = [when for name, when in times.items() if when > known[1].get(name, "")]
        if own > known[0]:
            moved.append(own)
        return min(moved, default=None)

    def forget(self, key: str) -> None:
        """The service is gone."""
        self._known.pop(key, None)


def _ready_changed(pod: Obj) -> str:
    condition = pod_condition(pod, "Ready")
    return str((condition or {}).get("lastTransitionTime") or "")
