"""The controller of SpotInstanceJobs."""

from __future__ import annotations

from corral.api.spot import SPOTINSTANCEJOBS
from corral.controllers.spot.settings import SpotSettings
from corral.runtime import Manager, Result

__all__ = ["JobReconciler", "register"]


class JobReconciler:
    """Looks at one job after another."""

    def __init__(self, manager: Manager, settings: SpotSettings) -> None:
        self._settings = settings
        self.jobs = manager.informer(SPOTINSTANCEJOBS)

    async def reconcile(self, key: str) -> Result | None:
        """One look at one job."""
        return None


def register(manager: Manager, settings: SpotSettings) -> None:
    """Add the controller of SpotInstanceJobs to a manager."""
    reconciler = JobReconciler(manager, settings)
    controller = manager.controller(
        "spotinstancejob",
        reconciler.reconcile,
        workers=settings.workers,
        timeout=settings.timeout,
    )
    controller.watch(reconciler.jobs)
