"""How many replicas an elastic TrainingJob should have now. No I/O.

``spec.replicas`` is what is wanted, and moving it within the bounds resizes the job. Where the
cluster cannot place all of them, the job goes on with those that it can, but never with fewer than
``minReplicas``. A job that is smaller than it would like has placeholders: pods of the same shape
that are scheduled but never run anything. When they find nodes, the job is enlarged by as many.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from corral.families.trainingjob.lifecycle.limits import RunLimits
from corral.families.trainingjob.lifecycle.plan import Plan
from corral.families.trainingjob.lifecycle.replicas import Replicas
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition
from corral.runtime.pods.states import (
    PodState,
    conditions_of,
    is_scheduled,
    moment,
    pod_state,
    unschedulable_since,
)
from corral.runtime.sightings import Sightings

__all__ = ["Resize", "grown_world", "shrunken_world", "wanted_placeholders"]


class Resize(NamedTuple):
    """What to do about the size."""

    world: int | None = None
    """The number of replicas to go on with; None: as it is."""
    look_again: float | None = None
    """When the answer may be another one though nothing has changed."""


def shrunken_world(
    plan: Plan,
    view: Replicas,
    *,
    world: int,
    missing: Collection[int],
    refused_since: float | None,
    now: float,
    limits: RunLimits,
    sightings: Sightings | None = None,
) -> Resize:
    """Leave out replicas that have waited too long for a node, or for leave to be made.

    ``missing`` have no pod yet; ``refused_since``: since when the server has refused to make them.
    """
    if world <= plan.minimum or (missing and refused_since is None):
        return Resize()
    sightings = sightings or Sightings()
    since = [refused_since] if missing and refused_since is not None else []
    waiting = len(missing)
    for pod in view.current.values():
        if pod_state(pod) is not PodState.PENDING or is_scheduled(pod):
            continue
        moment_of = unschedulable_since(pod)
        if moment_of is None:
            return Resize()  # the scheduler has not decided yet
        since.append(sightings.since(moment_of, now=now))
        waiting += 1
    if not since or world - waiting < plan.minimum:
        return Resize()
    due = max(since) + limits.unschedulable_after
    return Resize(world - waiting) if now >= due else Resize(look_again=due)


def grown_world(
    plan: Plan,
    view: Replicas,
    *,
    world: int,
    running_since: float | None,
    now: float,
    limits: RunLimits,
    sightings: Sightings | None = None,
) -> Resize:
    """Take in as many replicas as there are placeholders with a node.

    The job is left alone for a while after each change, and others that are about to find a node
    are waited for: every change costs a restart.
    """
    placed = [pod for pod in view.placeholders if is_scheduled(pod)]
    room = plan.replicas - world
    if running_since is None or room <= 0 or not placed:
        return Resize()
    sightings = sightings or Sightings()
    due = running_since + limits.grow_after
    if len(placed) < min(room, len(view.placeholders)):
        times = (sightings.since(_scheduled_at(pod, now), now=now) for pod in placed)
        due = max(due, *(time + limits.unschedulable_after for time in times))
    if now < due:
        return Resize(look_again=due)
    return Resize(world + min(room, len(placed)))


def wanted_placeholders(plan: Plan, *, world: int, running: bool) -> range:
    """Numbers of the placeholders that a job should have."""
    return range(world, plan.replicas) if running and world < plan.replicas else range(0)


def _scheduled_at(pod: Obj, now: float) -> float:
    condition = find_condition(conditions_of(pod), "PodScheduled") or {}
    found = moment(condition.get("lastTransitionTime"))
    return now if found is None else found
