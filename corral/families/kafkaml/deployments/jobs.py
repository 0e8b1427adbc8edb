"""The Jobs of a deployment: which are missing, and which should end. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corral.api.kafkaml.kinds import Datasource, MLModel
from corral.api.kafkaml.status import ClientStatus, ResultStatus
from corral.families.kafkaml import objects, pods
from corral.families.kafkaml.deployments.observation import OVER, DeploymentObservation
from corral.families.kafkaml.deployments.state import has_ended
from corral.kube.resources import JOBS
from corral.kube.types import Obj
from corral.runtime.family.decision import Child, Deletion
from corral.runtime.finalizers import is_being_deleted

__all__ = ["ClientJob", "missing_clients", "missing_servers", "running_jobs"]


@dataclass(frozen=True, slots=True)
class ClientJob:
    """What the Job of a client is made of."""

    result: ResultStatus
    model: MLModel
    source: Datasource
    index: int


def missing_servers(
    observed: DeploymentObservation, results: Sequence[ResultStatus], models: Sequence[MLModel]
) -> list[Child]:
    """The servers that should be there and are not."""
    out = []
    for result, model in zip(results, models, strict=True):
        name = objects.server_name(observed.deployment, result.id)
        if not has_ended(result) and name not in observed.jobs:
            weights_ref = (model.status.weights_ref if model.status else None) or ""
            out.append(Child(JOBS, name, "server", (result, weights_ref)))
    return out


def missing_clients(
    observed: DeploymentObservation,
    results: Sequence[ResultStatus],
    clients: Sequence[ClientStatus],
    models: Sequence[MLModel],
) -> list[Child]:
    """The clients that should be there and are not."""
    by_id = {r.id: (r, model) for r, model in zip(results, models, strict=True)}
    sources = {str(source.metadata["name"]): source for source in observed.sources}
    out = []
    for index, client in enumerate(clients):
        source = sources.get(client.datasource or "")
        known = by_id.get(client.result or 0)
        if client.phase in OVER or (client.job or "") in observed.jobs:
            continue
        if source is None or known is None or has_ended(known[0]):
            continue
        detail = ClientJob(*known, source, index)
        out.append(Child(JOBS, client.job or "", "client", detail))
    return out


def running_jobs(observed: DeploymentObservation, *, servers: bool) -> tuple[Deletion, ...]:
    """The clients that are still there; servers too, where the deployment is to rest."""
    return tuple(
        Deletion(JOBS, job)
        for job in observed.jobs.values()
        if pods.outcome_of(job) == "running"
        and not is_being_deleted(job)
        and (servers or _role(job) == "client")
    )


def _role(job: Obj) -> str:
    return str((job["metadata"].get("labels") or {}).get(objects.ROLE_LABEL) or "")
