"""How fast nodes may be given up. No I/O.

Nodes that are not ready wait, zone by zone, for their turn to be tainted so that pods leave them.
In a healthy zone one node every ten seconds has its turn. Where most of a zone is down, the fault
is more likely ours than theirs: then it is slower, or stands still in a small zone. When no node at
all is ready, nobody is given up, and those who were are taken back.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from corral.cluster.workloads.nodehealth.settings import Settings
from corral.kube.types import Obj

__all__ = ["Shift", "ZoneState", "Zones", "zone_of"]

EXCLUDED = "node.kubernetes.io/exclude-disruption"
"""A label: this node says nothing about the health of its zone."""


class ZoneState(enum.Enum):
    """How much of a zone is ready."""

    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


class Shift(enum.Enum):
    """What a look at all zones means for the cluster as a whole."""

    NONE = "none"
    ALL_DOWN = "all down"
    """No node is ready any more: take all evictions back."""
    NOT_ALL_DOWN = "not all down"
    """One is ready again: give the others their whole grace period."""


def zone_of(node: Obj) -> str:
    """Region and zone of a node; empty without either."""
    labels = node["metadata"].get("labels") or {}
    zone = labels.get("failure-domain.beta.kubernetes.io/zone") or labels.get(
        "topology.kubernetes.io/zone", ""
    )
    region = labels.get("failure-domain.beta.kubernetes.io/region") or labels.get(
        "topology.kubernetes.io/region", ""
    )
    return f"{region}:\0:{zone}" if region or zone else ""


def counts(node: Obj) -> bool:
    """Whether the node says something about the health of its zone."""
    return EXCLUDED not in (node["metadata"].get("labels") or {})


@dataclass(slots=True)
class _Zone:
    rate: float
    state: ZoneState = ZoneState.INITIAL
    waiting: dict[str, None] = field(default_factory=dict)
    """Names of nodes, first come first served."""
    tokens: float = 1.0
    filled: float | None = None
    """When ``tokens`` was last worked out."""

    def take(self, now: float) -> str | None:
        """The node whose turn it is."""
        if self.filled is not None:
            self.tokens = min(1.0, self.tokens + (now - self.filled) * self.rate)
        self.filled = now
        if self.rate <= 0 or self.tokens < 1.0 or not self.waiting:
            return None
        self.tokens -= 1.0
        name = next(iter(self.waiting))
        del self.waiting[name]
        return name


class Zones:
    """The zones of a cluster, and who waits in them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._zones: dict[str, _Zone] = {}

    def state(self, zone: str) -> ZoneState:
        known = self._zones.get(zone)
        return known.state if known is not None else ZoneState.INITIAL

    def wait(self, zone: str, name: str) -> None:
        """Put a node that is not ready in line."""
        self._zone(zone).waiting.setdefault(name)

    def leave(self, name: str) -> None:
        """Take a node out of every line: it is ready, tainted already, or gone."""
        for zone in self._zones.values():
            zone.waiting.pop(name, None)

    def turns(self, now: float) -> list[str]:
        """The nodes to give up now."""
        found = (zone.take(now) for zone in self._zones.values())
        return [name for name in found if name is not None]

    def judge(self, ready: Mapping[str, Sequence[bool]]) -> Shift:
        """Take in which nodes of which zone are ready, and set the pace of every zone."""
        states = {name: self._state(nodes) for name, nodes in ready.items()}
        for name in self._zones.keys() - states.keys():
            del self._zones[name]
        for name in states:
            self._zone(name)
        if not states:
            return Shift.NONE
        were_down = all(zone.state is ZoneState.FULL for zone in self._zones.values())
        are_down = all(state is ZoneState.FULL for state in states.values())
        if were_down and are_down:
            return Shift.NONE
        for name, state in states.items():
            zone = self._zones[name]
            zone.state = state
            zone.rate = 0.0 if are_down else self._rate(state, len(ready[name]))
            if are_down:
                zone.waiting.clear()
        if are_down:
            return Shift.ALL_DOWN
        return Shift.NOT_ALL_DOWN if were_down else Shift.NONE

    def _zone(self, name: str) -> _Zone:
        return self._zones.setdefault(name, _Zone(self._settings.eviction_rate))

    def _state(self, ready: Sequence[bool]) -> ZoneState:
        down = len(ready) - sum(ready)
        if ready and down == len(ready):
            return ZoneState.FULL
        if down > 2 and down / len(ready) >= self._settings.unhealthy_share:
            return ZoneState.PARTIAL
        return ZoneState.NORMAL

    def _rate(self, state: ZoneState, size: int) -> float:
        if state is not ZoneState.PARTIAL:
            return self._settings.eviction_rate
        return self._settings.slow_eviction_rate if size > self._settings.large_zone else 0.0
