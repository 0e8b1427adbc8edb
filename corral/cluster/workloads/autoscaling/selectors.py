"""Which autoscaler is responsible for which pods: two for the same pod would undo each other.

No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

from corral.kube.selectors import Selector
from corral.kube.types import Obj
from corral.runtime import split_key

__all__ = ["Selectors"]


class Selectors:
    """The selectors that autoscalers have shown so far."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Selector]] = {}
        """Namespace → key of the autoscaler → selector."""

    def put(self, key: str, selector: Selector) -> None:
        self._known.setdefault(split_key(key)[0], {})[key] = selector

    def remove(self, key: str) -> None:
        namespace = split_key(key)[0]
        known = self._known.get(namespace)
        if known is not None and known.pop(key, None) is not None and not known:
            del self._known[namespace]

    def rivals(self, key: str, pods: Sequence[Obj]) -> list[str]:
        """Other autoscalers that some of the pods belong to."""
        others = dict(self._known.get(split_key(key)[0], {}))
        others.pop(key, None)
        if not others:
            return []
        labels = [pod["metadata"].get("labels") or {} for pod in pods]
        return sorted(k for k, s in others.items() if any(s.matches(found) for found in labels))
