"""What must be done in the cluster, by a job's status alone. No I/O.

Everything here may be done twice: Jobs have names that say which start they are, and what is
deleted is deleted by its UID.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from corral.families.spot.jobs import replica_states as copies
from corral.families.spot.jobs.observation import is_over
from corral.families.spot.jobs.replicas import attempt_of, grace_of, replica_of
from corral.families.spot.jobs.reported import REQUEST
from corral.families.spot.jobs.view import World, is_complete, is_failed
from corral.families.spot.settings import SpotSettings
from corral.kube.types import Obj
from corral.runtime.pods.states import is_deleting

__all__ = ["Actions", "actions"]


@dataclass(slots=True)
class Actions:
    """In the order in which they are done."""

    pods: list[tuple[Obj, int]] = field(default_factory=list)
    """Pods to be deleted, each with its grace in seconds; 0: what runs it is gone."""
    jobs: list[Obj] = field(default_factory=list)
    """Jobs to be deleted."""
    starts: list[Obj] = field(default_factory=list)
    """Entries of ``jobStatuses`` whose Jobs are to be made."""
    requests: list[tuple[Obj, str]] = field(default_factory=list)
    """Pods that are asked for a checkpoint, each with the request."""


def actions(status: Obj, world: World, *, now: float, settings: SpotSettings) -> Actions:
    """What follows from a status that is written."""
    out = Actions()
    entries = {str(e["name"]): e for e in status.get("jobStatuses") or ()}
    over = is_over({"status": status})
    for name, entry in entries.items():
        job = world.jobs.get(name)
        phase = entry.get("phase")
        if job is None:
            if phase == copies.STARTING and not over:
                out.starts.append(entry)
        elif phase == copies.STOPPING:
            _stop(out, entry, job, world, now=now)
        elif phase in (copies.LOST, copies.STOPPED):
            _clear(out, job, world)
    if not over:
        _ask(out, status, entries, world)
    kept: dict[int, int] = {}
    for job in sorted(world.jobs.values(), key=attempt_of, reverse=True):
        if job["metadata"]["name"] in entries:
            continue
        replica = replica_of(job)
        number = kept[replica or 0] = kept.get(replica or 0, 0) + 1
        if not is_failed(job) or number >= settings.kept_copies:
            _clear(out, job, world, whole=True)
    return out


def _ask(out: Actions, status: Obj, entries: dict[str, Obj], world: World) -> None:
    """The program itself is asked; whoever saves images sees the request in the status."""
    request = status.get("checkpointRequest") or {}
    if world.spec.checkpoint_config.engine != "Application" or request.get("replica") is None:
        return
    for name, entry in entries.items():
        if entry.get("replica") != request["replica"] or entry.get("phase") != copies.RUNNING:
            continue
        for pod in world.live_pods(name):
            asked = (pod["metadata"].get("annotations") or {}).get(REQUEST) == request["id"]
            # one that was made later has gone on from whatever was saved
            later = str(pod["metadata"].get("creationTimestamp") or "") > str(request.get("time"))
            if not asked and not later:
                out.requests.append((pod, str(request["id"])))


def _stop(out: Actions, entry: Obj, job: Obj, world: World, *, now: float) -> None:
    """Tell the pod to save and to leave, within what is left to its machine."""
    pods = world.live_pods(str(entry["name"]))
    if not pods and not world.pods.get(str(entry["name"])):
        out.jobs.append(job)  # there is nothing yet that could be saved
    grace = grace_of(world.job)
    deadline = _deadline(entry, world)
    if deadline is not None:
        grace = max(min(grace, int(deadline - now)), 1)
    out.pods += [(pod, grace) for pod in pods if not is_deleting(pod)]


def _deadline(entry: Obj, world: World) -> float | None:
    node = str(entry.get("nodeName") or "")
    found = [m.deadline for m in world.machines.values() if m.node == node and m.deadline]
    return min(found, default=None) if node else None


def _clear(out: Actions, job: Obj, world: World, *, whole: bool = False) -> None:
    """A start that is over: nothing of it may run on, and what a dead machine ran is gone."""
    for pod in world.live_pods(job["metadata"]["name"]):
        if _is_dead(str((pod.get("spec") or {}).get("nodeName") or ""), world):
            out.pods.append((pod, 0))
    if whole or not (is_failed(job) or is_complete(job)):
        if not is_deleting(job):
            out.jobs.append(job)


def _is_dead(node: str, world: World) -> bool:
    """Whether a node's machine is known to be gone: nobody there could end the pod."""
    if not node:
        return False
    machines = [machine for machine in world.machines.values() if machine.node == node]
    if any(machine.gone for machine in machines):
        return True
    return not machines and not world.node_alive(node)
