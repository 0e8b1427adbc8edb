"""The revisions of a daemon set: which one is current, which to create, renumber or drop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from corral.cluster.workloads.daemonset.nodes import REVISION_LABEL
from corral.cluster.workloads.revisions import (
    data_of,
    history_to_drop,
    new_revision,
    same_data,
    sort_revisions,
)
from corral.kube.types import Obj

__all__ = ["HistoryPlan", "plan_history", "revisions_to_drop"]


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """What to do about the revision of the present template; at most one of the two is set."""

    current: Obj
    """The revision of the present template; its hash label goes on the pods."""
    create: bool = False
    """``current`` has to be created. If its name is taken by another template, count a collision
    in ``status.collisionCount`` and plan again."""
    update: bool = False
    """``current`` has to be replaced: it has a new, highest number."""

    @property
    def short_hash(self) -> str:
        return str(self.current["metadata"]["labels"][REVISION_LABEL])


def plan_history(daemon_set: Obj, revisions: Iterable[Obj]) -> HistoryPlan:
    """Finds the revision of the present template; a template used before is taken up again."""
    known = sort_revisions(revisions)
    wanted = {"data": data_of(daemon_set)}
    equal = [one for one in known if same_data(one, wanted)]
    highest = max((r.get("revision", 0) for r in known if r not in equal), default=0) + 1
    if not equal:
        collisions = (daemon_set.get("status") or {}).get("collisionCount") or 0
        body = new_revision(
            daemon_set,
            "apps/v1",
            "DaemonSet",
            number=highest,
            collisions=collisions,
            hash_label=REVISION_LABEL,
        )
        return HistoryPlan(body, create=True)
    current = equal[-1]
    if current.get("revision", 0) < highest:
        return HistoryPlan({**current, "revision": highest}, update=True)
    return HistoryPlan(current)


def revisions_to_drop(
    daemon_set: Obj, revisions: Iterable[Obj], pods: Iterable[Obj], current: Obj
) -> list[Obj]:
    """The oldest revisions beyond the limit that no pod uses."""
    used = {(pod["metadata"].get("labels") or {}).get(REVISION_LABEL) for pod in pods}
    known = sort_revisions(revisions)
    live = {current["metadata"]["name"]}
    live |= {
        one["metadata"]["name"]
        for one in known
        if (one["metadata"].get("labels") or {}).get(REVISION_LABEL) in used
    }
    return history_to_drop(known, live, daemon_set["spec"].get("revisionHistoryLimit", 10))
