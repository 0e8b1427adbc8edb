"""The waits and bounds in the life of a TrainingJob that its spec does not name."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RunLimits"]


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Durations in seconds."""

    restart_delay: float = 1.0
    """Before the first restart; doubled for each further one."""
    restart_delay_cap: float = 300.0
    """The longest delay of a restart."""
    disruption_limit: int = 20
    """Disruptions in a row after which a job fails; one that runs for a while begins anew."""
    stable_after: float = 600.0
    """How long all replicas must have run for disruptions not to count as "in a row"."""
    unschedulable_after: float = 10.0
    """How long replicas may wait for a node before an elastic job goes on without them."""
    grow_after: float = 60.0
    """How long an elastic job runs undisturbed before it is enlarged."""
    force_after: float = 60.0
    """How long after the end of its grace period a pod may still be there before it is removed by
    force: its node is dead, and fencing keeps its processes from doing harm."""
    refusal_delay: float = 1.0
    """Before a creation that the server refused is tried again; doubled for each further one."""
    refusal_delay_cap: float = 60.0
    log_timeout: float = 3.0
    """For the end of a failed replica's log."""
    log_lines: int = 20
    log_bytes: int = 4096

    def restart_wait(self, count: int) -> float:
        """The delay of the ``count``-th restart (from 1)."""
        return _doubled(self.restart_delay, count, cap=self.restart_delay_cap)

    def refusal_wait(self, count: int) -> float:
        """The delay after the ``count``-th refusal in a row (from 1)."""
        return _doubled(self.refusal_delay, count, cap=self.refusal_delay_cap)


def _doubled(first: float, count: int, *, cap: float) -> float:
    # Beyond a few dozen doublings the cap holds anyway and the power would overflow.
    return min(cap, first * 2.0 ** min(max(count, 1) - 1, 40))
