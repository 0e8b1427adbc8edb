"""How the controller of MPIJobs works: every figure with its default and unit."""

from __future__ import annotations

from dataclasses import dataclass, field

from corral.families.mpijob.settings import ObjectSettings

__all__ = ["MPISettings"]


@dataclass(frozen=True, slots=True)
class MPISettings:
    """Of one operator process; durations in seconds."""

    objects: ObjectSettings = field(default_factory=ObjectSettings)
    """What the objects of jobs depend on."""
    agent: bool = True
    """Whether jobs on process nodes are launched by our agent, which takes rights of its own:
    launchers are given the right to start commands in their workers."""
    agent_by_default: bool = False
    """Whether jobs are launched by our agent while there is no node for their pods to tell."""
    workers: int = 10
    """Jobs that are worked on at the same time."""
    resync: float = 300.0
    """How often every job is looked at though nothing has changed."""
    timeout: float = 120.0
    """For one look at one job."""
    field_manager: str = "corral-mpijob"
    pod_concurrency: int = 64
    """Pods of one job that are created or deleted at the same time."""
    progress_interval: float = 0.5
    """Between two writes for one job that only count how many pods run by now."""
    settle_interval: float = 15.0
    """The same while its pods begin (unless one finds no node), and between the end of the
    launcher's pod and that of its Job: the figures are about to change again, and a condition then
    tells more than they do."""
    batch_interval: float = 0.25
    """For how long pods of one job that begin, run or end as they should are waited for, to see
    them all at once. Whatever fails or goes is seen at once."""
    replace_delay: float = 1.0
    """Before a dead worker is replaced; doubled each time it dies again."""
    replace_delay_cap: float = 300.0
    force_after: float = 60.0
    """How long after the end of its grace period a worker whose node does not answer is still
    waited for; one whose node is gone is not."""
    refusal_delay: float = 0.5
    """Before what the server refused is tried again; doubled for each further refusal."""
    refusal_delay_cap: float = 60.0
    teardown_patience: float = 30.0
    """How long a job that is being deleted waits for its pods; then it goes without them."""
    log_timeout: float = 3.0
    """For the end of a failed pod's log."""
    log_lines: int = 40
    log_bytes: int = 4096

    def replace_wait(self, count: int) -> float:
        """Before the ``count``-th replacement (from 1) of one worker."""
        return _doubled(self.replace_delay, count, cap=self.replace_delay_cap)

    def refusal_wait(self, count: int) -> float:
        """After the ``count``-th refusal in a row (from 1)."""
        return _doubled(self.refusal_delay, count, cap=self.refusal_delay_cap)


def _doubled(first: float, count: int, *, cap: float) -> float:
    # Beyond a few dozen doublings the cap holds anyway and the power would overflow.
    return min(cap, first * 2.0 ** min(max(count, 1) - 1, 40))
