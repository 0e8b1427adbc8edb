"""What is known of one FederatedDeployment when it is decided about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from corral.api.kafkaml.kinds import (
    DATASOURCES,
    MLCONFIGURATIONS,
    MLMODELS,
    Datasource,
    FederatedDeployment,
    MLConfiguration,
    MLModel,
)
from corral.api.kafkaml.status import FederatedDeploymentStatus
from corral.families.kafkaml import objects, pods
from corral.kube.resources import JOBS, PODS
from corral.kube.types import Obj
from corral.runtime.family.caches import Caches
from corral.runtime.finalizers import is_being_deleted
from corral.runtime.keys import join_key

__all__ = ["OVER", "DeploymentObservation", "is_over", "of_deployment", "read"]

OVER: Final = ("Completed", "Failed")


def is_over(obj: Obj) -> bool:
    return (obj.get("status") or {}).get("phase") in OVER


def of_deployment(obj: Obj) -> tuple[str, ...]:
    """The key of the deployment that an object is of, by its label."""
    metadata = obj["metadata"]
    name = (metadata.get("labels") or {}).get(objects.DEPLOYMENT_LABEL)
    return (join_key(metadata["namespace"], name),) if name else ()


@dataclass(frozen=True, slots=True)
class DeploymentObservation:
    """A deployment, what it refers to, and what has become of its Jobs."""

    obj: Obj
    deployment: FederatedDeployment
    configuration: MLConfiguration | None
    """Whose models it trains; None where it names a model, or there is none of that name."""
    models: Mapping[str, MLModel]
    """By name; those that are missing are not in it."""
    sources: Sequence[Datasource]
    """Of the namespace."""
    jobs: Mapping[str, Obj]
    """The Jobs that the deployment controls, by name."""
    pods: Sequence[Obj]
    progress: Mapping[int, Obj]
    """By result: what its server said last of its rounds."""
    now: float

    @property
    def name(self) -> str:
        return str(self.deployment.metadata["name"])

    @property
    def status(self) -> FederatedDeploymentStatus:
        return self.deployment.status or FederatedDeploymentStatus()

    def pods_of(self, job: str) -> list[Obj]:
        return [pod for pod in self.pods if pods.job_of(pod) == job]


def read(obj: Obj, caches: Caches, *, now: float) -> DeploymentObservation:
    """Everything that caches know, so nothing of the progress."""
    deployment = FederatedDeployment.read(obj)
    space, spec = obj["metadata"]["namespace"], deployment.spec
    configuration, names = None, [spec.model]
    if spec.configuration:
        found = caches.get(MLCONFIGURATIONS, space, spec.configuration)
        configuration = MLConfiguration.read(found) if found is not None else None
        names = configuration.spec.models if configuration is not None else []
    models = {name: caches.get(MLMODELS, space, name) for name in names}
    return DeploymentObservation(
        obj,
        deployment,
        configuration,
        {name: MLModel.read(model) for name, model in models.items() if model is not None},
        _sources(obj, caches),
        {job["metadata"]["name"]: job for job in caches.children(JOBS, obj)},
        caches.labelled(PODS, obj),
        {},
        now,
    )


def _sources(obj: Obj, caches: Caches) -> list[Datasource]:
    out = []
    for found in caches.neighbours(DATASOURCES, obj):
        if not is_being_deleted(found):
            try:
                out.append(Datasource.read(found))
            except ValidationError:
                continue  # the schema refuses such a one; it is older than the schema
    return out
