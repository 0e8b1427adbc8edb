"""Reconciler of TrainingRounds: looks at a round when it or one of its tasks changes.

A round is also looked at when its time is over, when a registry that did not answer is to be asked
again, and every ``resync`` seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from corral.api.propeller.kinds import PARTICIPANT_LABEL, TRAININGROUNDS
from corral.families.federated.aggregation import Aggregator
from corral.families.federated.learning import LearningSettings
from corral.families.federated.metrics import LearningMetrics
from corral.families.federated.models import Places
from corral.families.federated.reconciles import counted
from corral.families.federated.rounds.caches import Caches
from corral.families.federated.rounds.closing import Closer
from corral.families.federated.rounds.round import RoundController
from corral.families.federated.rounds.starting import Starter, StillThere
from corral.families.federated.view import JOB_LABEL, is_over, status_of
from corral.kube import errors
from corral.kube.types import Obj
from corral.runtime import (
    Change,
    ChildWriter,
    Manager,
    Result,
    generation_changed,
    is_being_deleted,
    key_of,
    mapped,
    owner_by_uid,
    spec_changed,
    uid_of,
)
from corral.runtime.family.statuses import StatusController

__all__ = ["COMPONENT", "Reconciler", "register"]

COMPONENT = "corral-federated"
JOB_INDEX = "federated-job"
GATHER = 0.02
"""Seconds for which tasks that end together may join one look at their round."""


class Reconciler:
    """Finds the round for a key, and lets the RoundController work on it."""

    def __init__(
        self,
        manager: Manager,
        settings: LearningSettings,
        *,
        metrics: LearningMetrics | None,
        wall: Callable[[], float],
    ) -> None:
        self.caches = Caches(manager)
        self.caches.rounds.add_index(JOB_INDEX, _by_job)
        self._settings = settings
        self._uids: dict[str, str] = {}
        client = manager.client
        places = Places(client, settings)
        aggregator = Aggregator(places, settings)
        writer = ChildWriter(
            client, field_manager=settings.field_manager, consistency=self.caches.written
        )
        self._controller = RoundController(
            caches=self.caches,
            starter=Starter(client, self.caches, writer, aggregator, places),
            closer=Closer(client, self.caches, writer, aggregator, settings),
            statuses=StatusController(
                client, TRAININGROUNDS, self.caches.written, field_manager=settings.field_manager
            ),
            recorder=manager.recorder(COMPONENT),
            settings=settings,
            wall=wall,
            metrics=metrics,
        )

    async def reconcile(self, key: str) -> Result | None:
        """One look at one round."""
        self.caches.written.ensure_ready(key)
        round_ = self.caches.rounds.store.get(key)
        if round_ is None or is_being_deleted(round_):
            # Its tasks go with it: they have owner references.
            self.caches.written.clear(key)
            self._controller.forget(self._uids.pop(key, ""))
            return None
        self._uids[key] = uid_of(round_)
        try:
            result = await self._controller.sync(round_)
        except StillThere:
            return Result(1.0)
        except errors.NotFound:
            return Result(0.05)  # it is gone, or one of its tasks is: look again
        if result is None or is_over(round_):
            return result
        return Result(min(result.requeue_after or self._settings.resync, self._settings.resync))

    def late_rounds(self, task: Obj) -> list[str]:
        """The rounds after its own that wait for a task that is late."""
        job = (task["metadata"].get("labels") or {}).get(JOB_LABEL)
        participant = (task["metadata"].get("labels") or {}).get(PARTICIPANT_LABEL)
        if not job or not participant:
            return []
        rounds = self.caches.rounds.store.by_index(
            JOB_INDEX, f"{task['metadata']['namespace']}/{job}"
        )
        return [key_of(each) for each in rounds if _waits_for(each, uid_of(task))]


def _by_job(round_: Obj) -> tuple[str, ...]:
    name = (round_["spec"].get("federatedJobRef") or {}).get("name")
    return (f"{round_['metadata']['namespace']}/{name}",) if name else ()


def _waits_for(round_: Obj, uid: str) -> bool:
    if is_over(round_) or round_["spec"].get("strategy") != "parallel":
        return False
    entries = status_of(round_).get("participants") or ()
    return any((entry.get("taskRef") or {}).get("uid") == uid for entry in entries)


def register(
    manager: Manager,
    settings: LearningSettings,
    *,
    metrics: LearningMetrics | None = None,
    wall: Callable[[], float] = time.time,
) -> None:
    """Add the controller of TrainingRounds to a manager."""
    reconciler = Reconciler(manager, settings, metrics=metrics, wall=wall)
    caches = reconciler.caches
    controller = manager.controller(
        "traininground",
        counted(manager, "traininground", reconciler.reconcile),
        workers=settings.workers,
    )
    controller.watch(caches.rounds, when=spec_changed)
    controller.watch(
        caches.tasks, owner_by_uid(caches.rounds), when=_phase_changed, after=lambda _: GATHER
    )
    controller.watch(caches.tasks, mapped(reconciler.late_rounds), when=_phase_changed)


def _phase_changed(change: Change) -> bool:
    """Not for what a task reports while it runs."""
    if change.old is None or change.new is None:
        return change.new is None or change.is_initial or is_over(change.new)
    old, new = status_of(change.old), status_of(change.new)
    return bool(
        old.get("phase") != new.get("phase")
        or generation_changed(change)
        or (is_over(change.new) and old.get("results") != new.get("results"))
    )
