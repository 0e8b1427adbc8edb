"""Figures about reconciles under the names of the contract, shared by all kinds of the group."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Histogram

from corral.kube.errors import Conflict
from corral.runtime.controller import Result
from corral.runtime.informers.consistency import NotYetConsistent
from corral.runtime.manager import Manager

__all__ = ["counted"]

Reconcile = Callable[[str], Awaitable[Result | None]]


class _Figures:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.total = Counter(
            "propeller_reconcile_total",
            "Looks at objects, by how they ended",
            ["controller", "result"],
            registry=registry,
        )
        self.seconds = Histogram(
            "propeller_reconcile_duration_seconds",
            "How long a look at an object took",
            ["controller"],
            registry=registry,
        )


_known: WeakKeyDictionary[CollectorRegistry, _Figures] = WeakKeyDictionary()
"""By registry: several controllers of one process count in the same figures."""


def counted(
    manager: Manager,
    name: str,
    reconcile: Reconcile,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Reconcile:
    """The same reconcile, counted; as it is where the manager has no metrics."""
    if manager.metrics is None:
        return reconcile
    registry = manager.metrics.registry
    figures = _known.get(registry)
    if figures is None:
        figures = _known[registry] = _Figures(registry)
    seconds, total = figures.seconds.labels(name), figures.total

    async def look(key: str) -> Result | None:
        start, outcome = clock(), "error"
        try:
            result = await reconcile(key)
            outcome = "requeue" if result is not None and result.requeue_after else "success"
        except (NotYetConsistent, Conflict):
            outcome = "requeue"
            raise
        finally:
            seconds.observe(clock() - start)
            total.labels(name, outcome).inc()
        return result

    return look
