"""MLConfigurations: whether all of their models can be trained, and what these have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corral.api.kafkaml.kinds import MLMODELS, MLConfiguration
from corral.api.kafkaml.status import MLConfigurationStatus
from corral.families.kafkaml.family import KafkaMLFamily, Ready
from corral.kube.types import Obj
from corral.runtime.family.caches import Caches
from corral.runtime.family.decision import Decision
from corral.runtime.family.declaration import Watched
from corral.runtime.family.wiring import same_namespace

__all__ = ["ConfigurationObservation", "Configurations"]

_READY: Mapping[str | None, Ready] = {"Ready": "True", "Failed": "False"}


@dataclass(frozen=True, slots=True)
class ConfigurationObservation:
    """A configuration, and its models."""

    configuration: MLConfiguration
    models: Mapping[str, Obj | None]
    """By name; None: there is none."""
    now: float

    @property
    def status(self) -> MLConfigurationStatus:
        return self.configuration.status or MLConfigurationStatus()


class Configurations(KafkaMLFamily[ConfigurationObservation, MLConfigurationStatus]):
    """The family of MLConfigurations."""

    kind = MLConfiguration
    watches = (Watched(MLMODELS, wakes=same_namespace),)

    async def observe(self, obj: Obj, caches: Caches) -> ConfigurationObservation:
        configuration = MLConfiguration.read(obj)
        space = obj["metadata"]["namespace"]
        models = {name: caches.get(MLMODELS, space, name) for name in configuration.spec.models}
        return ConfigurationObservation(configuration, models, self._wall())

    def decide(self, observed: ConfigurationObservation) -> Decision[MLConfigurationStatus]:
        status = _judged(observed.models)
        status.observed_generation = observed.configuration.metadata.get("generation")
        phase = str(status.phase)
        ready = _READY.get(phase, "Unknown")
        status.conditions = self.ready(observed, ready, phase, status.error or "")
        return Decision(status)


def _judged(models: Mapping[str, Obj | None]) -> MLConfigurationStatus:
    missing = [name for name, model in models.items() if model is None]
    if missing:
        return MLConfigurationStatus(
            phase="Failed", error=f"there is no MLModel {', '.join(missing)}"
        )
    there = {name: model for name, model in models.items() if model is not None}
    phases = {name: (m.get("status") or {}).get("phase") for name, m in there.items()}
    out = MLConfigurationStatus(
        phase="Ready" if set(phases.values()) == {"Ready"} else "Pending",
        frameworks=sorted({model["spec"].get("framework", "tf") for model in there.values()}),
        distributed=any(model["spec"].get("distributed", False) for model in there.values()),
    )
    failed = [name for name, phase in phases.items() if phase == "Failed"]
    if failed:
        out.phase = "Failed"
        out.error = f"MLModel {', '.join(failed)} cannot be trained"
    return out
