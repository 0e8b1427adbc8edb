"""Why a node will not do, and the message that says so for all nodes together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["NO_NODES", "FitError", "Rejection"]

NO_NODES: Final = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class Rejection:
    """One node's refusal of a pod."""

    plugin: str
    """kube-scheduler's name of the rule: what decides which events make a retry worthwhile."""
    reasons: tuple[str, ...]
    resolvable: bool = True
    """Whether removing pods from the node could change it."""


@dataclass(slots=True)
class FitError:
    """No node fits. ``str`` of it is the text of the event and of the pod's condition."""

    nodes: int
    """How many nodes there are."""
    rejections: Mapping[str, Rejection] = field(default_factory=dict)
    absent: Rejection | None = None
    """Holds for nodes that ``rejections`` does not name."""
    prefilter: str = ""
    """Why no node was even looked at."""
    postfilter: str = ""
    """What preemption had to say."""

    @property
    def plugins(self) -> frozenset[str]:
        """The rules that rejected the pod anywhere."""
        found = {plugin for r in self.rejections.values() for plugin in r.plugin.split(",")}
        if self.absent is not None:
            found.update(self.absent.plugin.split(","))
        return frozenset(found - {""})

    def __str__(self) -> str:
        if not self.nodes:
            return NO_NODES
        text = f"0/{self.nodes} nodes are available:"
        if self.prefilter:
            text += f" {self.prefilter}."
        elif histogram := self._histogram():
            text += f" {', '.join(histogram)}."
        return f"{text} {self.postfilter}" if self.postfilter else text

    def _histogram(self) -> list[str]:
        counts: dict[str, int] = {}
        for rejection in self.rejections.values():
            for reason in rejection.reasons:
                counts[reason] = counts.get(reason, 0) + 1
        missing = self.nodes - len(self.rejections)
        if missing > 0 and self.absent is not None:
            for reason in self.absent.reasons:
                counts[reason] = counts.get(reason, 0) + missing
        # Sorted as text, as kube-scheduler does: "10 x" comes before "2 y".
        return sorted(f"{count} {reason}" for reason, count in counts.items())
