"""How long a job waits before it replaces failed pods: 10 s, doubled each time, at most 10 min."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from corral.cluster.workloads.job import names
from corral.cluster.workloads.job.indexes import absolute_failure_count
from corral.cluster.workloads.pods import pod_condition
from corral.cluster.workloads.times import datetime_or_zero, seconds_between
from corral.kube.times import parse_datetime
from corral.kube.types import Obj

__all__ = ["NO_FAILURES", "Backoff", "finish_time", "next_backoff", "remaining", "remaining_for"]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Kept between passes per job; lost on a restart, as upstream."""

    failures: int = 0
    """Failed pods since the last success."""
    last_failure: datetime | None = None


NO_FAILURES = Backoff()


def next_backoff(old: Backoff, succeeded: Sequence[Obj], failed: Sequence[Obj]) -> Backoff:
    """The record after the pods that finished since the last pass; a success resets it."""
    if not failed:
        return NO_FAILURES if succeeded else old
    failures = sorted(map(finish_time, failed))
    if not succeeded:
        return Backoff(old.failures + len(failures), failures[-1])
    last_success = max(map(finish_time, succeeded))
    later = [when for when in failures if when > last_success]
    return Backoff(len(later), later[-1]) if later else NO_FAILURES


def finish_time(pod: Obj) -> datetime:
    """When a pod ended: its containers, else Ready=False, else its deletion, else its creation."""
    meta = pod["metadata"]
    ended = _containers_finished(pod)
    if ended is not None:
        return ended
    ready = pod_condition(pod, "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return datetime_or_zero(ready["lastTransitionTime"])
    deleted = parse_datetime(meta.get("deletionTimestamp"))
    if deleted is not None:
        return deleted - timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
    return datetime_or_zero(meta.get("creationTimestamp"))


def _containers_finished(pod: Obj) -> datetime | None:
    """The latest end among containers and sidecars (which outlive them); None if one still runs."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    sidecars = {
        c.get("name")
        for c in spec.get("initContainers") or ()
        if c.get("restartPolicy") == "Always"
    }
    initial = [c for c in status.get("initContainerStatuses") or () if c.get("name") in sidecars]
    # Containers that have not ended do not matter if there are sidecars that all have.
    return _latest(initial, _latest(status.get("containerStatuses") or (), None))


def _latest(containers: Iterable[Obj], before: datetime | None) -> datetime | None:
    latest = before
    for container in containers:
        ended = parse_datetime(
            ((container.get("state") or {}).get("terminated") or {}).get("finishedAt")
        )
        if ended is None:
            return None
        latest = ended if latest is None else max(latest, ended)
    return latest


def remaining(record: Backoff, now: datetime) -> float:
    """Seconds until pods may be created again; 0 when they may be now.

    A failure further in the future than the wait itself was recorded by a clock that was wrong and
    has been set back since: nobody waits for its time to come.
    """
    if record.failures == 0 or record.last_failure is None:
        return 0.0
    # 2**6 times the first wait is past the cap already; higher powers only cost.
    wait = min(names.POD_BACKOFF_S * 2.0 ** min(record.failures - 1, 6), names.MAX_POD_BACKOFF_S)
    elapsed = seconds_between(record.last_failure, now)
    return max(0.0, wait - elapsed) if elapsed > -wait else 0.0


def remaining_for(last_failed: Obj | None, now: datetime) -> float:
    """The same for one index of a job with backoffLimitPerIndex."""
    if last_failed is None:
        return 0.0
    failures = absolute_failure_count(last_failed) + 1
    return remaining(Backoff(failures, finish_time(last_failed)), now)
