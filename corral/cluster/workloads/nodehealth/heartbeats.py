"""Which nodes have gone silent. No I/O.

Only changes count, and only our own clock says when they came: neither the time in a lease nor
that in a status is compared with it, so clocks may differ and jump. A node that was never seen
before, by this process, gets its whole grace period; so do all of them when nothing could be heard
for a while because we were stopped or the server could not be reached (``start_anew``).
"""

from __future__ import annotations

from dataclasses import dataclass

from corral.cluster.workloads.nodehealth.settings import Settings
from corral.kube.types import Obj
from corral.runtime import find_condition, uid_of

__all__ = ["Heartbeats"]


@dataclass(slots=True)
class _Pulse:
    uid: str
    heard: float
    """When something was last heard, on our clock."""
    status: str
    renewal: str


class Heartbeats:
    """What was last heard of every node."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pulses: dict[str, _Pulse] = {}

    def observe(self, node: Obj, lease: Obj | None, now: float) -> None:
        """Take notice of the newest known state of a node and its lease."""
        name, uid = node["metadata"]["name"], uid_of(node)
        status, renewal = _posted(node), _renewed(lease)
        pulse = self._pulses.get(name)
        if pulse is None or pulse.uid != uid:
            self._pulses[name] = _Pulse(uid, now, status, renewal)
            return
        # What we wrote ourselves keeps the time of the last heartbeat, so it is not taken for one.
        if status != pulse.status or (renewal and renewal != pulse.renewal):
            pulse.heard = now
        pulse.status, pulse.renewal = status, renewal or pulse.renewal

    def silence(self, name: str, now: float) -> float:
        """Seconds since the node was last heard of; 0 for an unknown one."""
        pulse = self._pulses.get(name)
        return now - pulse.heard if pulse is not None else 0.0

    def grace(self, node: Obj) -> float:
        """Seconds of silence that the node may have."""
        conditions = (node.get("status") or {}).get("conditions")
        ready = find_condition(conditions, "Ready")
        return self._settings.startup_grace if ready is None else self._settings.grace

    def is_silent(self, node: Obj, now: float) -> bool:
        return self.silence(node["metadata"]["name"], now) > self.grace(node)

    def is_suspect(self, node: Obj, now: float) -> bool:
        """Silent for half of its grace: time to ask whether we hear anything at all."""
        return self.silence(node["metadata"]["name"], now) > self.grace(node) / 2

    def start_anew(self, now: float) -> None:
        """Give every node its whole grace period again."""
        for pulse in self._pulses.values():
            pulse.heard = now

    def keep_only(self, names: set[str]) -> None:
        """Forget nodes that are gone."""
        for name in self._pulses.keys() - names:
            del self._pulses[name]


def _posted(node: Obj) -> str:
    """The heartbeat in a node's status; it changes whenever the node posts one."""
    ready = find_condition((node.get("status") or {}).get("conditions"), "Ready")
    return "" if ready is None else f"{ready.get('lastHeartbeatTime') or ''}/"


def _renewed(lease: Obj | None) -> str:
    spec = (lease.get("spec") or {}) if lease is not None else {}
    return str(spec.get("renewTime") or "")
