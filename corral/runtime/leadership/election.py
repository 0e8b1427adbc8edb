"""Who leads, as a state machine: records in, the record to write out. No I/O.

The rules:
- The clock of the record is never compared with ours: what counts is when *we* first saw the
  record as it is now, on our monotonic clock.
- A record of another holder may be taken over only when it has not changed for as long as it says
  that its holder needs.
- A change of hands raises ``leaseTransitions``; a renewal keeps it and the time of acquisition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from corral.kube.types import Obj
from corral.runtime.keys import format_micro_time

__all__ = ["Election", "ElectionSettings", "LeaseRecord"]

JITTER = 1.2


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """Seconds."""

    lease_duration: float = 15.0
    """How long others wait for a leader that is silent."""
    renew_deadline: float = 10.0
    """How long a leader tries to renew before it gives up."""
    retry_period: float = 2.0
    """Between two tries; those who want to lead stretch it by up to 1.2 times itself."""

    def __post_init__(self) -> None:
        if self.lease_duration < 1:
            raise ValueError("lease_duration must be at least one second")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("lease_duration must be greater than renew_deadline")
        if self.renew_deadline <= JITTER * self.retry_period:
            raise ValueError("renew_deadline must be greater than retry_period times 1.2")
        if self.retry_period <= 0:
            raise ValueError("retry_period must be greater than zero")


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The ``spec`` of a Lease, as far as elections go."""

    holder: str = ""
    duration: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    transitions: int = 0

    @classmethod
    def from_lease(cls, lease: Obj) -> LeaseRecord:
        spec = lease.get("spec") or {}
        return cls(
            holder=spec.get("holderIdentity") or "",
            duration=spec.get("leaseDurationSeconds") or 0,
            acquire_time=spec.get("acquireTime") or "",
            renew_time=spec.get("renewTime") or "",
            transitions=spec.get("leaseTransitions") or 0,
        )

    def to_spec(self) -> Obj:
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.duration,
            "acquireTime": self.acquire_time,
            "renewTime": self.renew_time,
            "leaseTransitions": self.transitions,
        }


class Election:
    """What one candidate knows. ``now`` is monotonic, ``wall`` is seconds since the epoch."""

    def __init__(self, identity: str, settings: ElectionSettings | None = None) -> None:
        if not identity:
            raise ValueError("a candidate needs an identity")
        self.identity = identity
        self.settings = settings or ElectionSettings()
        self.observed = LeaseRecord()
        """The record as it was seen last."""
        self.observed_at = 0.0
        """When it was first seen as it is."""

    @property
    def is_leader(self) -> bool:
        return self.observed.holder == self.identity

    def is_valid(self, now: float) -> bool:
        """Whether the holder of the record, whoever it is, still has time."""
        return self.observed_at + self.observed.duration > now

    def observe(self, record: LeaseRecord, now: float) -> None:
        """The record was read: if it is news, its holder has been alive just now."""
        if record != self.observed:
            self.observed, self.observed_at = record, now

    def wrote(self, record: LeaseRecord, now: float) -> None:
        """Our write of the record succeeded; ``now`` is when it was begun."""
        self.observed, self.observed_at = record, now

    def may_renew_blindly(self, now: float) -> bool:
        """Whether to write without reading: we lead and nobody can have taken over."""
        return self.is_leader and self.is_valid(now)

    def may_take(self, now: float) -> bool:
        """Whether the record (just observed) is ours, nobody's, or of somebody who is silent."""
        return not self.observed.holder or self.is_leader or not self.is_valid(now)

    def next_record(self, wall: float) -> LeaseRecord:
        """The record to write to lead, on top of the one that was observed."""
        stamp = format_micro_time(wall)
        wanted = LeaseRecord(
            holder=self.identity,
            duration=int(self.settings.lease_duration),
            acquire_time=stamp,
            renew_time=stamp,
            transitions=self.observed.transitions,
        )
        if self.is_leader:
            return replace(wanted, acquire_time=self.observed.acquire_time or stamp)
        return replace(wanted, transitions=self.observed.transitions + 1)

    def first_record(self, wall: float) -> LeaseRecord:
        """The record to create where there is none."""
        return replace(self.next_record(wall), acquire_time=format_micro_time(wall), transitions=0)

    def release_record(self, wall: float) -> LeaseRecord:
        """The record that leaves the lease to whoever comes first."""
        stamp = format_micro_time(wall)
        return LeaseRecord(
            duration=1,
            acquire_time=stamp,
            renew_time=stamp,
            transitions=self.observed.transitions,
        )

    def overdue(self, now: float, tolerance: float) -> bool:
        """Whether we think we lead though the lease ran out long ago: something is stuck."""
        limit = self.settings.lease_duration + tolerance
        return self.is_leader and now - self.observed_at > limit
