"""The controller of MLModels: has their code checked, and says what it found.

The code runs in a pod without rights (`objects.check_job`); a courier beside it carries the model
to the registry. A model is checked once for each generation of its spec.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

from corral.api.kafkaml.kinds import MLMODELS, MLModel
from corral.families.kafkaml import objects, pods
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.kube.errors import AlreadyExists, Conflict, NotFound
from corral.kube.resources import CONFIGMAPS, JOBS, PODS
from corral.kube.types import Obj
from corral.runtime import (
    Change,
    ChildWriter,
    ConsistencyStore,
    Manager,
    NameTaken,
    NotYetConsistent,
    Result,
    format_time,
    generation_changed,
    is_being_deleted,
    is_controlled_by,
    join_key,
    mapped,
    set_condition,
)
from corral.runtime.family.statuses import StatusController

__all__ = ["COMPONENT", "ModelReconciler", "register"]

COMPONENT: Final = "corral-kafkaml"
POD_INDEX: Final = "mlmodel"
_BEHIND: Final = 0.1


class ModelReconciler:
    """Looks at one model after another."""

    def __init__(
        self,
        manager: Manager,
        settings: KafkaMLSettings,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._wall = wall
        self.models = manager.informer(MLMODELS)
        self.jobs = manager.informer(JOBS, label_selector=objects.MODEL_LABEL)
        self.pods = manager.informer(PODS, label_selector=objects.MODEL_LABEL)
        self.pods.add_index(POD_INDEX, of_model)
        self._written = ConsistencyStore({MLMODELS: self.models, JOBS: self.jobs})
        self._recorder = manager.recorder(COMPONENT)
        self._writer = ChildWriter(
            manager.client, field_manager=settings.field_manager, consistency=self._written
        )
        self._statuses = StatusController(
            manager.client, MLMODELS, self._written, field_manager=settings.field_manager
        )

    async def reconcile(self, key: str) -> Result | None:
        """One look at one model."""
        try:
            self._written.ensure_ready(key)
        except NotYetConsistent:
            return Result(_BEHIND)
        found = self.models.store.get(key)
        if found is None or is_being_deleted(found):
            self._written.clear(key)
            return None
        obj = MLMODELS.stamp(found)
        status = obj.get("status") or {}
        if status.get("observedGeneration") == obj["metadata"].get("generation") and status.get(
            "phase"
        ) in ("Ready", "Failed"):
            return None
        try:
            await self._sync(key, obj, MLModel.read(obj))
        except (Conflict, AlreadyExists):
            return Result(_BEHIND)
        except NameTaken as error:
            await self._write(obj, {"phase": "Pending"}, "False", "NameTaken", error.message)
            return Result(self._settings.resync)
        except NotFound:
            return None
        return None

    async def _sync(self, key: str, obj: Obj, model: MLModel) -> None:
        await self._writer.put(obj, CONFIGMAPS, objects.code_map(model))
        name = objects.check_name(model)
        job = self.jobs.store.get(join_key(obj["metadata"]["namespace"], name))
        if job is None or not is_controlled_by(job, obj):
            await self._writer.create(obj, JOBS, objects.check_job(model, self._settings))
            await self._write(obj, {"phase": "Pending"}, "Unknown", "Checking", "it is checked")
            return
        outcome = pods.outcome_of(job)
        if outcome == "running":
            return
        mine = [
            pod
            for pod in self.pods.store.by_index(POD_INDEX, key)
            if (pod["metadata"].get("labels") or {}).get("batch.kubernetes.io/job-name") == name
        ]
        if outcome == "failed":
            why = pods.last_words(mine, objects.CHECK) or pods.job_words(job)
            await self._refuse(obj, why)
            return
        said = pods.delivered(mine) or {}
        if not said.get("update_ref"):
            why = said.get("courier_error") or "its weights were not delivered to a registry"
            await self._refuse(obj, str(why))
            return
        await self._accept(obj, said)

    async def _accept(self, obj: Obj, said: dict[str, Any]) -> None:
        status: Obj = {
            "phase": "Ready",
            "observedGeneration": obj["metadata"].get("generation"),
            "inputShape": str(said.get("input_shape") or ""),
            "outputShape": str(said.get("output_shape") or ""),
            "parameters": int(said.get("parameters") or 0),
            "weightsRef": said["update_ref"],
        }
        if isinstance(said.get("layers"), list):
            status["layers"] = said["layers"]
        await self._write(obj, status, "True", "Checked", "the model can be trained")
        self._recorder.normal(obj, "Checked", f"the model has {status['parameters']} parameters")

    async def _refuse(self, obj: Obj, why: str) -> None:
        status = {
            "phase": "Failed",
            "observedGeneration": obj["metadata"].get("generation"),
            "error": why,
        }
        await self._write(obj, status, "False", "CheckFailed", why)
        self._recorder.warning(obj, "CheckFailed", why)

    async def _write(self, obj: Obj, status: Obj, ready: str, reason: str, message: str) -> None:
        conditions = deepcopy((obj.get("status") or {}).get("conditions") or [])
        set_condition(
            conditions,
            "Ready",
            status=ready,
            reason=reason,
            message=message,
            now=format_time(self._wall()),
        )
        await self._statuses.write(obj, {**status, "conditions": conditions})


def of_model(obj: Obj) -> tuple[str, ...]:
    """For stores: the model that an object is of."""
    metadata = obj["metadata"]
    name = (metadata.get("labels") or {}).get(objects.MODEL_LABEL)
    return (join_key(metadata["namespace"], name),) if name else ()


def register(
    manager: Manager, settings: KafkaMLSettings, *, wall: Callable[[], float] = time.time
) -> None:
    """Add the controller of MLModels to a manager."""
    reconciler = ModelReconciler(manager, settings, wall=wall)
    controller = manager.controller(
        "mlmodel", reconciler.reconcile, workers=settings.workers, timeout=settings.timeout
    )
    controller.watch(reconciler.models, when=concerns_us)
    controller.watch(reconciler.jobs, mapped(of_model), when=was_there)
    controller.watch(reconciler.pods, mapped(of_model), when=was_there)


def concerns_us(change: Change) -> bool:
    return change.is_initial or generation_changed(change)


def was_there(change: Change) -> bool:
    """Not for what we have just made ourselves."""
    return change.is_initial or change.type != "added"
