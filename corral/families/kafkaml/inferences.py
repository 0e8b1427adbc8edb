"""The controller of Inferences: pods that answer what comes on a topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from typing import Final

from corral.api.kafkaml.kinds import (
    FEDERATEDDEPLOYMENTS,
    INFERENCES,
    MLMODELS,
    Inference,
    MLModel,
)
from corral.families.kafkaml import objects
from corral.families.kafkaml.models import COMPONENT, concerns_us, was_there
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.kube.errors import Conflict, NotFound
from corral.kube.resources import DEPLOYMENTS
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
    is_being_deleted,
    join_key,
    key_of,
    mapped,
    set_condition,
)
from corral.runtime.family.statuses import StatusController

__all__ = ["InferenceReconciler", "register"]

_BEHIND: Final = 0.1


class _Waits(Exception):
    """There is no model to answer with yet."""


class InferenceReconciler:
    """Looks at one inference after another."""

    def __init__(
        self,
        manager: Manager,
        settings: KafkaMLSettings,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._wall = wall
        self.inferences = manager.informer(INFERENCES)
        self.deployments = manager.informer(FEDERATEDDEPLOYMENTS)
        self.models = manager.informer(MLMODELS)
        self.workloads = manager.informer(DEPLOYMENTS, label_selector=objects.INFERENCE_LABEL)
        self._written = ConsistencyStore({INFERENCES: self.inferences})
        self._recorder = manager.recorder(COMPONENT)
        self._writer = ChildWriter(manager.client, field_manager=settings.field_manager)
        self._statuses = StatusController(
            manager.client, INFERENCES, self._written, field_manager=settings.field_manager
        )

    async def reconcile(self, key: str) -> Result | None:
        """One look at one inference."""
        try:
            self._written.ensure_ready(key)
        except NotYetConsistent:
            return Result(_BEHIND)
        found = self.inferences.store.get(key)
        if found is None or is_being_deleted(found):
            self._written.clear(key)
            return None
        obj = INFERENCES.stamp(found)
        inference = Inference.read(obj)
        try:
            model_ref, model = self._source(inference)
        except _Waits as why:
            await self._write(obj, {"phase": "Pending"}, "Unknown", "Waiting", str(why))
            return Result(self._settings.resync)
        try:
            made = objects.inference_deployment(inference, model_ref, model, self._settings)
            await self._writer.put(obj, DEPLOYMENTS, made)
            await self._tell(obj, inference, model_ref, made["metadata"]["name"])
        except Conflict:
            return Result(_BEHIND)
        except NameTaken as error:
            await self._write(obj, {"phase": "Pending"}, "False", "NameTaken", error.message)
            return Result(self._settings.resync)
        except NotFound:
            return None
        return Result(self._settings.resync)

    def _source(self, inference: Inference) -> tuple[str, MLModel | None]:
        """The artifact, and the model whose code it needs. Raises _Waits."""
        spec, space = inference.spec, inference.metadata["namespace"]
        if spec.model_ref:
            return spec.model_ref, None
        found = self.deployments.store.get(join_key(space, spec.deployment))
        if found is None:
            raise _Waits(f"there is no FederatedDeployment {spec.deployment}")
        results = (found.get("status") or {}).get("results") or []
        chosen = next((r for r in results if not spec.model or r["model"] == spec.model), None)
        if chosen is None or not chosen.get("modelRef"):
            raise _Waits(f"FederatedDeployment {spec.deployment} has no trained model yet")
        model = self.models.store.get(join_key(space, chosen["model"]))
        made = MLModel.read(MLMODELS.stamp(model)) if model is not None else None
        return str(chosen["modelRef"]), made

    async def _tell(self, obj: Obj, inference: Inference, model_ref: str, workload: str) -> None:
        found = self.workloads.store.get(join_key(obj["metadata"]["namespace"], workload)) or {}
        ready = int((found.get("status") or {}).get("readyReplicas") or 0)
        status: Obj = {
            "modelRef": model_ref,
            "readyReplicas": ready,
            "groupId": f"inf{obj['metadata']['name']}",
        }
        if inference.spec.stopped:
            await self._write(obj, {**status, "phase": "Stopped"}, "False", "Stopped", "stopped")
        elif ready:
            said = f"{ready} of {inference.spec.replicas} replicas answer"
            await self._write(obj, {**status, "phase": "Running"}, "True", "Running", said)
        else:
            said = "no replica answers yet"
            await self._write(obj, {**status, "phase": "Pending"}, "False", "Starting", said)

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
        status["observedGeneration"] = obj["metadata"].get("generation")
        await self._statuses.write(obj, {**status, "conditions": conditions})


def _of_inference(obj: Obj) -> tuple[str, ...]:
    metadata = obj["metadata"]
    name = (metadata.get("labels") or {}).get(objects.INFERENCE_LABEL)
    return (join_key(metadata["namespace"], name),) if name else ()


def register(
    manager: Manager, settings: KafkaMLSettings, *, wall: Callable[[], float] = time.time
) -> None:
    """Add the controller of Inferences to a manager."""
    reconciler = InferenceReconciler(manager, settings, wall=wall)
    controller = manager.controller(
        "inference", reconciler.reconcile, workers=settings.workers, timeout=settings.timeout
    )

    def of_deployment(change: Change) -> list[str]:
        found = (change.new or change.old or {})["metadata"]
        return [
            key_of(obj)
            for obj in reconciler.inferences.store
            if obj["metadata"]["namespace"] == found["namespace"]
            and obj["spec"].get("deployment") == found["name"]
        ]

    controller.watch(reconciler.inferences, when=concerns_us)
    controller.watch(reconciler.deployments, of_deployment)
    controller.watch(reconciler.workloads, mapped(_of_inference), when=was_there)
