"""MLModels: has their code checked, and says what the check found.

The code runs in a pod without rights (`objects.check_job`); a courier beside it carries the model
to the registry. A model is checked once for each generation of its spec.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from corral.api.kafkaml.kinds import MLModel
from corral.api.kafkaml.status import LayerStatus, MLModelStatus
from corral.families.kafkaml import objects, pods
from corral.families.kafkaml.family import KafkaMLFamily
from corral.kube.resources import CONFIGMAPS, JOBS, PODS
from corral.kube.types import Obj
from corral.runtime.family.caches import Caches
from corral.runtime.family.decision import Child, Decision
from corral.runtime.family.declaration import Owned
from corral.runtime.family.events import normal, warning
from corral.runtime.keys import join_key

__all__ = ["ModelObservation", "Models", "of_model"]


def of_model(obj: Obj) -> tuple[str, ...]:
    """The key of the model that an object is of, by its label."""
    metadata = obj["metadata"]
    name = (metadata.get("labels") or {}).get(objects.MODEL_LABEL)
    return (join_key(metadata["namespace"], name),) if name else ()


@dataclass(frozen=True, slots=True)
class ModelObservation:
    """A model, and the Job that checks this generation of it."""

    model: MLModel
    job: Obj | None
    pods: Sequence[Obj]
    """Of that Job."""
    now: float

    @property
    def status(self) -> MLModelStatus:
        return self.model.status or MLModelStatus()

    @property
    def is_checked(self) -> bool:
        current = self.status.observed_generation == self.model.metadata.get("generation")
        return current and self.status.phase in ("Ready", "Failed")


class Models(KafkaMLFamily[ModelObservation, MLModelStatus]):
    """The family of MLModels."""

    kind = MLModel
    owns = (
        Owned(JOBS, label=objects.MODEL_LABEL, keys=of_model),
        Owned(PODS, label=objects.MODEL_LABEL, keys=of_model),
    )

    async def observe(self, obj: Obj, caches: Caches) -> ModelObservation:
        model = MLModel.read(obj)
        name = objects.check_name(model)
        mine = [pod for pod in caches.labelled(PODS, obj) if pods.job_of(pod) == name]
        return ModelObservation(model, caches.child(JOBS, obj, name), mine, self._wall())

    def decide(self, observed: ModelObservation) -> Decision[MLModelStatus]:
        if observed.is_checked:
            return Decision()
        code = Child(CONFIGMAPS, objects.code_name(observed.model.metadata["name"]))
        if observed.job is None:
            status = MLModelStatus(
                phase="Pending",
                conditions=self.ready(observed, "Unknown", "Checking", "it is checked"),
            )
            check = Child(JOBS, objects.check_name(observed.model))
            return Decision(status, apply=(code,), create=(check,))
        outcome = pods.outcome_of(observed.job)
        if outcome == "running":
            return Decision()
        if outcome == "failed":
            words = pods.last_words(observed.pods, objects.CHECK) or pods.job_words(observed.job)
            return self._failed(observed, words)
        said = pods.delivered(observed.pods) or {}
        if not said.get("update_ref"):
            why = said.get("courier_error") or "its weights were not delivered to a registry"
            return self._failed(observed, str(why))
        return self._accepted(observed, said)

    def build(self, child: Child, observed: ModelObservation) -> Obj:
        if child.resource == CONFIGMAPS:
            return objects.code_map(observed.model)
        return objects.check_job(observed.model, self.settings)

    def _accepted(
        self, observed: ModelObservation, said: dict[str, Any]
    ) -> Decision[MLModelStatus]:
        parameters = int(said.get("parameters") or 0)
        status = MLModelStatus(
            phase="Ready",
            observed_generation=observed.model.metadata.get("generation"),
            input_shape=str(said.get("input_shape") or ""),
            output_shape=str(said.get("output_shape") or ""),
            parameters=parameters,
            layers=_layers(said.get("layers")),
            weights_ref=str(said["update_ref"]),
            conditions=self.ready(observed, "True", "Checked", "the model can be trained"),
        )
        event = normal("Checked", f"the model has {parameters} parameters")
        return Decision(status, events=(event,))

    def _failed(self, observed: ModelObservation, why: str) -> Decision[MLModelStatus]:
        status = MLModelStatus(
            phase="Failed",
            observed_generation=observed.model.metadata.get("generation"),
            error=why,
            conditions=self.ready(observed, "False", "CheckFailed", why),
        )
        return Decision(status, events=(warning("CheckFailed", why),))


def _layers(said: Any) -> list[LayerStatus] | None:
    """What the check says of the arrays of a model; None where it says nothing of use."""
    if not isinstance(said, list):
        return None
    try:
        return [LayerStatus.model_validate(layer) for layer in said]
    except ValidationError:
        return None
