"""What the pods of a TrainingJob say about its replicas. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corral.api.training.kinds import GROUP
from corral.families.trainingjob.lifecycle.attempts import wanted_attempt
from corral.families.trainingjob.names import attempt_of, replica_of
from corral.kube.types import Obj
from corral.runtime.pods.states import PodState, is_deleting, is_terminal, pod_state

__all__ = ["PLACEHOLDER_LABEL", "Replicas", "is_placeholder"]

PLACEHOLDER_LABEL: Final = f"{GROUP}/placeholder"
"""On pods that only hold a place for a replica that an elastic job would like to have."""


def is_placeholder(pod: Obj) -> bool:
    return PLACEHOLDER_LABEL in (pod["metadata"].get("labels") or {})


@dataclass(frozen=True, slots=True)
class Replicas:
    """The pods of a job, sorted by what its status says about attempts."""

    current: dict[int, Obj]
    """By index: the pods of the attempts that count."""
    placeholders: tuple[Obj, ...]
    """Of the present attempt."""
    stale: tuple[Obj, ...]
    """All others: they must go."""

    @classmethod
    def sort(cls, status: Obj, pods: Sequence[Obj]) -> Replicas:
        attempt, world = status.get("attempt") or 0, status.get("worldSize") or 0
        current: dict[int, Obj] = {}
        placeholders: list[Obj] = []
        stale: list[Obj] = []
        for pod in pods:
            index, number = replica_of(pod), attempt_of(pod)
            if is_placeholder(pod):
                ended = is_terminal(pod) or is_deleting(pod)
                (placeholders if number == attempt and not ended else stale).append(pod)
            elif index is None or number is None:
                stale.append(pod)
            elif index < world and number == wanted_attempt(status, index):
                current[index] = pod
            else:
                stale.append(pod)
        return cls(dict(sorted(current.items())), tuple(placeholders), tuple(stale))

    def within(self, *states: PodState) -> list[int]:
        """The replicas whose pods are in one of these states."""
        return [index for index, pod in self.current.items() if pod_state(pod) in states]
