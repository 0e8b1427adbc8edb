"""Which Checkpoints of a job are to go, and when to look again. No I/O.

Complete ones go by the job's policy; the newest one, those that an unfinished job names as its
start, and what a kept one builds upon always stay. One that an ended attempt left half written goes
at once, one that a newer one has overtaken after two hours, one that nobody finished after a day, a
damaged one after a week in which people can look at it. On a claim only pods know what is half
written, so nothing is decided here about that. Those of an earlier job of the same name are
nobody's: they stay until somebody deletes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from corral.checkpoints.collect import ORPHAN_GRACE, QUARANTINE_GRACE
from corral.checkpoints.retention import Retention, select
from corral.families.trainingjob.checkpoints.summaries import (
    attempt_of,
    belongs_to,
    facts,
    is_ready,
    phase_of,
    storage_kind,
    time_of,
)
from corral.kube.types import Obj
from corral.runtime.sightings import Sightings

__all__ = ["Graces", "Verdict", "expired", "is_finished", "named_as_start"]


@dataclass(frozen=True, slots=True)
class Graces:
    """Seconds."""

    orphan: float = ORPHAN_GRACE
    """Until what nobody finished counts as abandoned."""
    overtaken: float = 7200.0
    """The same, where a newer one is complete; longer than signed URLs work."""
    quarantine: float = QUARANTINE_GRACE
    """That a damaged one stays."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done."""

    delete: tuple[tuple[Obj, str], ...] = ()
    """Checkpoints and why."""
    wake: float | None = None
    """Seconds until the next one may be due."""


def expired(
    job: Obj,
    checkpoints: Sequence[Obj],
    *,
    now: float,
    pinned: Iterable[str] = (),
    graces: Graces | None = None,
    sightings: Sightings | None = None,
) -> Verdict:
    """What of a job's Checkpoints goes now.

    Args:
        job: that is not being deleted.
        checkpoints: of its name.
        now: seconds since the epoch.
        pinned: names of Checkpoints that must stay.
        graces: how long the unfinished and the damaged stay.
        sightings: since when times that lie ahead are known.
    """
    graces, sightings = graces or Graces(), sightings or Sightings()
    own = [c for c in checkpoints if belongs_to(c, job) and not _is_going(c)]
    doomed = _by_policy(job, [c for c in own if is_ready(c)], now, frozenset(pinned))
    waits = _ages(job, own, now)
    for found, why, left in _unfinished(job, own, now, graces, sightings):
        if left <= 0:
            doomed.append((found, why))
        else:
            waits.append(left)
    return Verdict(tuple(doomed), min(waits, default=None))


def _unfinished(
    job: Obj, own: Sequence[Obj], now: float, graces: Graces, sightings: Sightings
) -> Iterator[tuple[Obj, str, float]]:
    """Those that are not complete: why each one will go, and in how many seconds."""
    present = int((job.get("status") or {}).get("attempt") or 0)
    newest = max((time_of(found) for found in own if is_ready(found)), default=0.0)
    for found in own:
        phase, age = phase_of(found), now - sightings.since(time_of(found), now=now)
        if phase == "Failed":
            yield found, "it is damaged", graces.quarantine - age
        elif phase == "Writing" and storage_kind(job) != "pvc":
            if attempt_of(found) < present:
                yield found, "its attempt ended before it was complete", 0.0
                continue
            limit = graces.overtaken if time_of(found) < newest else graces.orphan
            yield found, "it was never completed", limit - age


def is_finished(job: Obj) -> bool:
    return (job.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def named_as_start(jobs: Iterable[Obj]) -> frozenset[str]:
    """Checkpoints, by name or address, that unfinished jobs start from."""
    specs = (job["spec"].get("checkpoint") or {} for job in jobs if not is_finished(job))
    named = ((spec.get("restore") or {}).get("from", "Latest") for spec in specs)
    return frozenset(name for name in named if name not in ("Latest", "None"))


def _policy(job: Obj) -> Retention:
    return Retention.from_spec((job["spec"].get("checkpoint") or {}).get("retention") or {})


def _by_policy(
    job: Obj, ready: Sequence[Obj], now: float, pinned: frozenset[str]
) -> list[tuple[Obj, str]]:
    by_id = {facts(found).id: found for found in ready}
    kept = [
        identifier
        for identifier, found in by_id.items()
        if found["metadata"]["name"] in pinned or found["spec"]["uri"] in pinned
    ]
    plan = select([facts(found) for found in ready], _policy(job), now=now, pinned=kept)
    return [(by_id[manifest.id], "no rule of retention keeps it") for manifest in plan.delete]


def _ages(job: Obj, own: Sequence[Obj], now: float) -> list[float]:
    """Seconds until complete ones become too old."""
    limit = _policy(job).max_age
    if limit is None:
        return []
    left = (limit - (now - time_of(found)) for found in own if is_ready(found))
    return [seconds + 0.001 for seconds in left if seconds >= 0]


def _is_going(checkpoint: Obj) -> bool:
    return bool(checkpoint["metadata"].get("deletionTimestamp"))
