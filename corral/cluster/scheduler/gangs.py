"""The PodGroups and those of their pods that this scheduler places, as the watches bring them.

A gang exists as long as its PodGroup or one of its pods does. Whatever changes in it is reported,
so that the group's status can follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from corral.cluster.scheduler.placement import GroupKey, PodGroup, group_of, pod_key
from corral.kube.types import Obj

__all__ = ["Gang", "Gangs", "phase_of"]


@dataclass(slots=True)
class Gang:
    """One group: what it demands, and who belongs to it."""

    key: GroupKey
    obj: Obj | None = None
    """The PodGroup; None: there is none (yet, or any more)."""
    spec: PodGroup | None = None
    pods: dict[str, Obj] = field(default_factory=dict)
    """The members by key, those that have ended included."""
    ours: bool = False
    """It has, or had, pods of this scheduler. The groups of others are not ours to speak of."""
    making_room: bool = False
    """Victims are being evicted for it."""
    problem: str = ""
    """Why it has to wait; empty: it need not, as far as is known."""
    problem_reason: str = ""
    """One word for the problem, for conditions."""

    @property
    def name(self) -> str:
        return f"{self.key[1]}/{self.key[2]}"

    def succeeded(self) -> int:
        """Members that have done their work; they count as placed."""
        return sum(phase_of(pod) == "Succeeded" for pod in self.pods.values())


class Gangs:
    """All groups; ``changed`` hears of every one that is not as it was."""

    def __init__(self, changed: Callable[[GroupKey], None]) -> None:
        self._changed = changed
        self._gangs: dict[GroupKey, Gang] = {}

    def get(self, key: GroupKey) -> Gang:
        """The gang; an empty one where nothing is known of it."""
        return self._gangs.get(key) or Gang(key)

    def __iter__(self) -> Iterator[Gang]:
        """All gangs, as they are now."""
        return iter(list(self._gangs.values()))

    def set_pod(self, pod: Obj, *, gone: bool) -> None:
        """A pod came, changed or went; most belong to no group."""
        key = group_of(pod)
        if key is None:
            return
        gang = self._gangs.get(key)
        if gone:
            if gang is not None:
                gang.pods.pop(pod_key(pod), None)
                self._drop_empty(gang)
        else:
            gang = gang or self._gangs.setdefault(key, Gang(key))
            gang.pods[pod_key(pod)] = pod
            gang.ours = True
        self._changed(key)

    def set_group(self, group: Obj, *, gone: bool) -> None:
        """A PodGroup came, changed or went."""
        spec = PodGroup.parse(group)
        gang = self._gangs.setdefault(spec.key, Gang(spec.key))
        gang.obj, gang.spec = (None, None) if gone else (group, spec)
        if gone:
            self._drop_empty(gang)
        self._changed(spec.key)

    def blame(self, gang: Gang, problem: str, reason: str = "") -> bool:
        """Note why a gang has to wait (nothing: it need not); whether that is news."""
        if (gang.problem, gang.problem_reason) == (problem, reason):
            return False
        gang.problem, gang.problem_reason = problem, reason
        self._changed(gang.key)
        return True

    def _drop_empty(self, gang: Gang) -> None:
        if gang.obj is None and not gang.pods:
            self._gangs.pop(gang.key, None)


def phase_of(pod: Obj) -> str:
    """The phase of a pod; a pod without one is pending."""
    return str((pod.get("status") or {}).get("phase") or "Pending")
