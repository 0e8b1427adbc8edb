"""The status of a PodGroup, in the words of its kind. No I/O; the time is passed in.

``scheduling.x-k8s.io``: Pending (not enough members), Scheduling, Scheduled (enough have a node),
Running, Failed, Finished. ``scheduling.volcano.sh``: Pending, Inqueue (it fits, or did), Running,
Unknown (some run while others cannot), Completed; with conditions Scheduled and Unschedulable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from corral.cluster.scheduler.gangs import Gang, phase_of
from corral.cluster.scheduler.placement import VOLCANO
from corral.kube.types import Obj

__all__ = ["Tally", "group_status", "tally"]


@dataclass(frozen=True, slots=True)
class Tally:
    """How many members there are of each sort."""

    pods: int = 0
    """All that have not ended."""
    placed: int = 0
    """Those of them that have a node."""
    running: int = 0
    succeeded: int = 0
    failed: int = 0


def tally(pods: Iterable[Obj]) -> Tally:
    """Count members. Those that are being deleted count no more, unless they run."""
    counts: Counter[str] = Counter()
    for pod in pods:
        phase, placed = phase_of(pod), bool((pod.get("spec") or {}).get("nodeName"))
        counts[phase] += 1
        if phase not in ("Succeeded", "Failed"):
            counts["pods"] += 1
            counts["placed"] += placed
    return Tally(
        counts["pods"],
        counts["placed"],
        counts["Running"],
        counts["Succeeded"],
        counts["Failed"],
    )


def group_status(gang: Gang, *, now: str, transition: str) -> Obj:
    """What the status of the gang's PodGroup should be; what it has and we do not know stays.

    ``transition`` identifies a change of a condition, should there be one.
    """
    assert gang.obj is not None and gang.spec is not None, "there is a PodGroup"
    count = tally(gang.pods.values())
    old: Obj = gang.obj.get("status") or {}
    new: Obj = {**old, "running": count.running, "succeeded": count.succeeded}
    new["failed"] = count.failed
    if gang.key[0] == VOLCANO:
        new["phase"] = _volcano_phase(gang, count, old.get("phase") or "")
        if condition := _volcano_condition(gang, count):
            new["conditions"] = _conditions(old, condition, now=now, transition=transition)
        return _without_zeros(old, new)
    new["phase"] = _phase(gang.spec.minimum, count)
    if new["phase"] != "Pending" and not old.get("scheduleStartTime"):
        new["scheduleStartTime"] = now
    return _without_zeros(old, new)


def _phase(minimum: int, count: Tally) -> str:
    done = count.running + count.succeeded
    if count.succeeded >= minimum and not count.pods:
        return "Finished"
    if count.failed and count.failed + done >= minimum:
        return "Failed"
    if count.pods + count.succeeded < minimum:
        return "Pending"
    if done >= minimum:
        return "Running"
    return "Scheduled" if count.placed + count.succeeded >= minimum else "Scheduling"


def _volcano_phase(gang: Gang, count: Tally, before: str) -> str:
    assert gang.spec is not None
    minimum = gang.spec.minimum
    if not count.pods and (count.succeeded or count.failed):
        return "Completed"
    if count.running + count.succeeded >= minimum:
        return "Running"
    if count.placed and gang.problem:
        return "Unknown"
    if count.placed + count.succeeded >= minimum:
        return "Inqueue"
    return "Inqueue" if before == "Inqueue" and count.placed else "Pending"


def _volcano_condition(gang: Gang, count: Tally) -> Obj | None:
    assert gang.spec is not None
    if gang.problem:
        return {
            "type": "Unschedulable",
            "status": "True",
            "reason": gang.problem_reason,
            "message": gang.problem,
        }
    if count.placed + count.succeeded >= gang.spec.minimum:
        return {
            "type": "Scheduled",
            "status": "True",
            "reason": "tasks in gang are ready to be scheduled",
            "message": "",
        }
    return None


def _conditions(old: Obj, wanted: Obj, *, now: str, transition: str) -> list[Obj]:
    """The conditions with this one in them; of the two kinds only the later one is true."""
    found = []
    seen = False
    for known in old.get("conditions") or ():
        if known.get("type") == wanted["type"]:
            seen = True
            same = all(known.get(name, "") == value for name, value in wanted.items())
            found.append(known if same else _stamped(wanted, now, transition))
        elif known.get("status") == "True" and known.get("type") in ("Scheduled", "Unschedulable"):
            found.append({**_stamped(known, now, transition), "status": "False"})
        else:
            found.append(known)
    return found if seen else [*found, _stamped(wanted, now, transition)]


def _stamped(condition: Obj, now: str, transition: str) -> Obj:
    stamped = {**condition, "lastTransitionTime": now, "transitionID": transition}
    return {name: value for name, value in stamped.items() if value}


def _without_zeros(old: Obj, new: Obj) -> Obj:
    """A count of nothing is written only to replace another."""
    return {name: value for name, value in new.items() if value or old.get(name)}
