"""Sizes of replica sets: changing one, and scaling a deployment outside or amid a rollout."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from corral.cluster.workloads.deployment import sets as rs
from corral.cluster.workloads.deployment.status import PROGRESSING, new_condition, set_condition
from corral.cluster.workloads.deployment.steps import Step, UpdateSet
from corral.cluster.workloads.steps import Answer, Event, Failed
from corral.kube.types import Obj

__all__ = ["Rollout", "resize", "scale", "update_set", "was_scaled"]


@dataclass(slots=True)
class Rollout:
    """What a pass over one deployment knows and changes."""

    deployment: Obj
    """A copy: its status and annotations change in a pass."""
    sets: list[Obj]
    pods: Mapping[str, Sequence[Obj]]
    """Pods by the uid of the set that controls them; only asked for with Recreate."""
    now: datetime
    new: Obj | None = None
    old: list[Obj] | None = None

    @property
    def all(self) -> list[Obj]:
        return [*(self.old or ()), *([self.new] if self.new else ())]

    @property
    def status(self) -> Obj:
        found: Obj = self.deployment["status"]
        return found

    @property
    def wanted(self) -> int:
        return rs.replicas(self.deployment)

    def progressing(self, status: str, reason: str, message: str) -> None:
        condition = new_condition(PROGRESSING, status, reason, message, now=self.now)
        set_condition(self.status, condition)


def update_set(body: Obj, *events: Event) -> Generator[Step, Answer, Obj]:
    answer = yield UpdateSet(body, events)
    if answer.error is not None:
        raise Failed(answer.error)
    return answer.found or body


def resize(sync: Rollout, replica_set: Obj, size: int) -> Generator[Step, Answer, Obj]:
    """Gives a set its size and the annotations that say what it was part of."""
    before = rs.replicas(replica_set)
    annotations = rs.annotations_of(replica_set)
    noted = rs.with_replica_annotations(sync.deployment, annotations)
    if before == size and noted == annotations:
        return replica_set
    body = {
        **replica_set,
        "metadata": {**replica_set["metadata"], "annotations": noted},
        "spec": {**replica_set["spec"], "replicas": size},
    }
    if before == size:
        return (yield from update_set(body))
    way = "up" if before < size else "down"
    name = replica_set["metadata"]["name"]
    message = f"Scaled {way} replica set {name} from {before} to {size}"
    return (yield from update_set(body, Event("Normal", "ScalingReplicaSet", message)))


def was_scaled(sync: Rollout) -> bool:
    """The deployment's size has changed since its sets were last sized."""
    for one in rs.active_sets(sync.all):
        noted = rs.annotations_of(one).get(rs.DESIRED_REPLICAS, "")
        if noted.isdecimal() and int(noted) != sync.wanted:
            return True
    return False


def scale(sync: Rollout) -> Generator[Step, Answer, None]:
    only = _active_or_latest(sync)
    if only is not None:
        if rs.replicas(only) != sync.wanted:
            yield from resize(sync, only, sync.wanted)
        return
    if _is_saturated(sync):
        for one in rs.active_sets(sync.old or ()):
            yield from resize(sync, one, 0)
    elif rs.is_rolling(sync.deployment):
        for one, size in _proportions(sync):
            yield from resize(sync, one, size)


def _active_or_latest(sync: Rollout) -> Obj | None:
    """The only set with pods; with none, the newest; with several, None."""
    active = rs.active_sets(sync.all)
    if len(active) == 1:
        return active[0]
    if active or not sync.all:
        return None
    return sync.new or max(sync.old or (), key=rs.by_creation)


def _is_saturated(sync: Rollout) -> bool:
    new = sync.new
    if new is None:
        return False
    noted = rs.annotations_of(new).get(rs.DESIRED_REPLICAS)
    return noted == str(sync.wanted) and rs.replicas(new) == rs.available(new) == sync.wanted


def _proportions(sync: Rollout) -> list[tuple[Obj, int]]:
    """In the middle of a rollout, every set grows or shrinks by its share."""
    active = rs.active_sets(sync.all)
    allowed = sync.wanted + rs.limits(sync.deployment)[0] if sync.wanted > 0 else 0
    to_add = allowed - rs.total(active)
    # The biggest first; among equals the newest grows first and the oldest shrinks first.
    active.sort(key=rs.by_creation, reverse=to_add > 0)
    active.sort(key=rs.replicas, reverse=True)
    added = 0
    sizes: list[int] = []
    for one in active:
        left = to_add - added
        share = _share(sync, one) if to_add and left else 0
        share = min(share, left) if to_add > 0 else max(share, left)
        sizes.append(rs.replicas(one) + share)
        added += share
    if sizes and to_add:
        sizes[0] = max(0, sizes[0] + to_add - added)
    return list(zip(active, sizes, strict=True))


def _share(sync: Rollout, one: Obj) -> int:
    size = rs.replicas(one)
    if sync.wanted == 0:
        return -size
    noted = rs.annotations_of(one).get(rs.MAX_REPLICAS, "")
    before = int(noted) if noted.isdecimal() else 0
    before = before or sync.status.get("replicas", 0)
    if before == 0:
        return 0
    grown = size * (sync.wanted + rs.limits(sync.deployment)[0]) / before
    return int(grown + 0.5) - size
