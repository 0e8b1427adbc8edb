"""Inferences: pods that answer what comes on a topic."""

from __future__ import annotations

from dataclasses import dataclass

from corral.api.kafkaml.kinds import FEDERATEDDEPLOYMENTS, MLMODELS, Inference, MLModel
from corral.api.kafkaml.status import InferenceStatus
from corral.families.kafkaml import objects
from corral.families.kafkaml.family import KafkaMLFamily
from corral.kube.resources import DEPLOYMENTS
from corral.kube.types import Obj
from corral.runtime.family.caches import Caches
from corral.runtime.family.decision import Child, Decision
from corral.runtime.family.declaration import Owned, Watched
from corral.runtime.family.wiring import same_namespace
from corral.runtime.informers.handlers import Mapper
from corral.runtime.keys import join_key

__all__ = ["InferenceObservation", "Inferences"]


class _Waits(Exception):
    """There is no model to answer with yet."""


@dataclass(frozen=True, slots=True)
class InferenceObservation:
    """An inference, the model that it answers with, and how many of its pods answer."""

    inference: Inference
    model_ref: str
    """The artifact; empty where there is none yet."""
    model: MLModel | None
    """Whose code the artifact needs."""
    waits_for: str
    """Why there is no artifact yet."""
    answering: int
    now: float

    @property
    def status(self) -> InferenceStatus:
        return self.inference.status or InferenceStatus()


def _of_inference(obj: Obj) -> tuple[str, ...]:
    metadata = obj["metadata"]
    name = (metadata.get("labels") or {}).get(objects.INFERENCE_LABEL)
    return (join_key(metadata["namespace"], name),) if name else ()


def _users(caches: Caches) -> Mapper:
    """Wakes the inferences that answer with a deployment's model."""
    return same_namespace(
        caches, where=lambda obj, other: obj["spec"].get("deployment") == other["metadata"]["name"]
    )


class Inferences(KafkaMLFamily[InferenceObservation, InferenceStatus]):
    """The family of Inferences."""

    kind = Inference
    owns = (Owned(DEPLOYMENTS, label=objects.INFERENCE_LABEL, keys=_of_inference),)
    watches = (Watched(FEDERATEDDEPLOYMENTS, wakes=_users), Watched(MLMODELS))

    async def observe(self, obj: Obj, caches: Caches) -> InferenceObservation:
        inference = Inference.read(obj)
        model_ref, model, waits_for = "", None, ""
        try:
            model_ref, model = _source(inference, caches)
        except _Waits as why:
            waits_for = str(why)
        name = objects.inference_name(inference.metadata["name"])
        workload = caches.get(DEPLOYMENTS, obj["metadata"]["namespace"], name) or {}
        answering = int((workload.get("status") or {}).get("readyReplicas") or 0)
        return InferenceObservation(inference, model_ref, model, waits_for, answering, self._wall())

    def decide(self, observed: InferenceObservation) -> Decision[InferenceStatus]:
        name, spec = observed.inference.metadata["name"], observed.inference.spec
        status = InferenceStatus(
            phase="Pending", observed_generation=observed.inference.metadata.get("generation")
        )
        if observed.waits_for:
            status.conditions = self.ready(observed, "Unknown", "Waiting", observed.waits_for)
            return Decision(status, requeue_after=self.settings.resync)
        status.model_ref = observed.model_ref
        status.ready_replicas = observed.answering
        status.group_id = f"inf{name}"
        if spec.stopped:
            status.phase = "Stopped"
            status.conditions = self.ready(observed, "False", "Stopped", "stopped")
        elif observed.answering:
            status.phase = "Running"
            said = f"{observed.answering} of {spec.replicas} replicas answer"
            status.conditions = self.ready(observed, "True", "Running", said)
        else:
            status.conditions = self.ready(observed, "False", "Starting", "no replica answers yet")
        workload = Child(DEPLOYMENTS, objects.inference_name(name))
        return Decision(status, apply=(workload,), requeue_after=self.settings.resync)

    def build(self, child: Child, observed: InferenceObservation) -> Obj:
        return objects.inference_deployment(
            observed.inference, observed.model_ref, observed.model, self.settings
        )


def _source(inference: Inference, caches: Caches) -> tuple[str, MLModel | None]:
    """The artifact, and the model whose code it needs. Raises _Waits."""
    spec, space = inference.spec, inference.metadata["namespace"]
    if spec.model_ref:
        return spec.model_ref, None
    found = caches.get(FEDERATEDDEPLOYMENTS, space, spec.deployment)
    if found is None:
        raise _Waits(f"there is no FederatedDeployment {spec.deployment}")
    results = (found.get("status") or {}).get("results") or []
    chosen = next((r for r in results if not spec.model or r["model"] == spec.model), None)
    if chosen is None or not chosen.get("modelRef"):
        raise _Waits(f"FederatedDeployment {spec.deployment} has no trained model yet")
    model = caches.get(MLMODELS, space, chosen["model"])
    return str(chosen["modelRef"]), MLModel.read(model) if model is not None else None
