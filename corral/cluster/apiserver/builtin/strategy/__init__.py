"""Per-kind behaviour around writes: what is initialised, kept, counted, warned of and allowed.

``strategy_for`` never fails: a kind it does not know (a custom one) gets the generic behaviour.
Beside it: ``conversion`` between versions of one kind, ``allocation`` of service addresses.
"""

from __future__ import annotations

from . import cluster, core, pod, service, workloads
from .base import Path, Strategy
from .pod import EPHEMERAL_CONTAINERS_FIELDS, RESIZE_FIELDS, PodStrategy

__all__ = [
    "EPHEMERAL_CONTAINERS_FIELDS",
    "RESIZE_FIELDS",
    "Path",
    "PodStrategy",
    "Strategy",
    "strategy_for",
]

_STRATEGIES: dict[tuple[str, str], Strategy] = {
    (strategy.group, strategy.kind): strategy
    for strategy in (
        pod.POD,
        service.SERVICE,
        *core.STRATEGIES,
        *workloads.STRATEGIES,
        *cluster.STRATEGIES,
    )
}


def strategy_for(group: str, kind: str) -> Strategy:
    """The strategy of a kind, the same object every time."""
    found = _STRATEGIES.get((group, kind))
    if found is None:
        found = _STRATEGIES[(group, kind)] = Strategy(group=group, kind=kind)
    return found
