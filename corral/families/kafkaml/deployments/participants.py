"""Who takes part in a deployment, and how far they are: its results and its clients. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from corral.api.kafkaml.kinds import MLModel
from corral.api.kafkaml.status import ClientStatus, ResultStatus
from corral.families.kafkaml import objects, pods
from corral.families.kafkaml.deployments.matching import Wanted, client_id, newly_matched
from corral.families.kafkaml.deployments.observation import DeploymentObservation
from corral.families.kafkaml.deployments.state import JobEnd, has_ended, updated_clients
from corral.kube.types import Obj
from corral.runtime.family.events import Event, normal

__all__ = ["NotReady", "clients_of", "heard", "matched", "models_of", "servers_looked_at"]


class NotReady(Exception):
    """What a deployment refers to is not there yet, or never will be."""

    def __init__(self, reason: str, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.final = final


def models_of(observed: DeploymentObservation) -> list[MLModel]:
    """The models that a deployment trains. Raises NotReady."""
    spec = observed.deployment.spec
    if not spec.configuration:
        return [_checked(observed, spec.model)]
    if observed.configuration is None:
        why = f"there is no MLConfiguration {spec.configuration}"
        raise NotReady("ConfigurationMissing", why)
    return [_checked(observed, name) for name in observed.configuration.spec.models]


def _checked(observed: DeploymentObservation, name: str) -> MLModel:
    model = observed.models.get(name)
    if model is None:
        raise NotReady("ModelMissing", f"there is no MLModel {name}")
    status = model.status
    if status is not None and status.phase == "Failed":
        why = f"MLModel {name} cannot be trained: {status.error}"
        raise NotReady("ModelFailed", why, final=True)
    current = model.metadata.get("generation")
    if status is None or status.phase != "Ready" or status.observed_generation != current:
        raise NotReady("ModelNotReady", f"MLModel {name} is being checked")
    return model


def matched(
    observed: DeploymentObservation, results: Sequence[ResultStatus], models: Sequence[MLModel]
) -> tuple[list[ClientStatus], list[Event]]:
    """The clients that are there, and those whose data has been found now."""
    clients = list(observed.status.clients or ())
    events = []
    for result, model in zip(results, models, strict=True):
        if has_ended(result):
            continue
        for client in _newcomers(observed, result, model, clients):
            clients.append(client)
            text = f"datasource {client.datasource} fits: client {client.client_id} trains on it"
            events.append(normal("Matched", text))
    return clients, events


def _newcomers(
    observed: DeploymentObservation,
    result: ResultStatus,
    model: MLModel,
    clients: Sequence[ClientStatus],
) -> list[ClientStatus]:
    deployment = observed.deployment
    shape = (model.status.input_shape if model.status else None) or ""
    wanted = Wanted(observed.name, shape, model.spec.distributed, result.federated_string_id)
    mine = [client.client_id for client in clients if client.result == result.id]
    room = deployment.spec.clients.max - len(mine)
    out = []
    for source in newly_matched(wanted, deployment, observed.sources, taken=mine, room=room):
        name = client_id(source)
        client = ClientStatus(
            client_id=name,
            result=result.id,
            datasource=source.metadata["name"],
            job=objects.client_name(result.federated_string_id, name),
            phase="Pending",
            samples=source.spec.total_msg or 0,
        )
        out.append(client)
    return out


def heard(
    results: Sequence[ResultStatus],
    clients: Sequence[ClientStatus],
    progress: Mapping[int, Obj],
) -> tuple[list[ResultStatus], list[ClientStatus]]:
    """Results and clients with what servers have said of their rounds."""
    results, clients = list(results), list(clients)
    for number, result in enumerate(results):
        said = progress.get(result.id)
        if result.model_ref or said is None:
            continue
        results[number] = _merged(result, said.get("result"))
        by_client = said.get("clients")
        if not isinstance(by_client, dict):
            continue
        for index, client in enumerate(clients):
            if client.result == result.id:
                clients[index] = _merged(client, by_client.get(client.client_id))
    return results, clients


def _merged(known: Any, said: Any) -> Any:
    """What is known, with what a pod says; a pod that talks nonsense changes nothing."""
    if not isinstance(said, dict) or not said:
        return known
    whole = {**known.model_dump(by_alias=True, exclude_none=True), **said}
    try:
        return type(known).model_validate(whole)
    except ValidationError:
        return known


def clients_of(
    observed: DeploymentObservation, clients: Sequence[ClientStatus]
) -> list[ClientStatus]:
    """Clients with the phases of their Jobs."""
    jobs = {}
    for client in clients:
        job = observed.jobs.get(client.job or "")
        if job is not None:
            outcome, words = pods.outcome_of(job), ""
            if outcome == "failed":
                words = pods.last_words(observed.pods_of(client.job or ""), "training")
            jobs[client.job or ""] = JobEnd(outcome, words or pods.job_words(job))
    return updated_clients(clients, jobs)


def servers_looked_at(
    observed: DeploymentObservation, results: Sequence[ResultStatus]
) -> list[ResultStatus]:
    """Results with the places of models, or why there are none, of servers that have ended."""
    return [_server(observed, result) for result in results]


def _server(observed: DeploymentObservation, result: ResultStatus) -> ResultStatus:
    name = objects.server_name(observed.deployment, result.id)
    job = observed.jobs.get(name)
    if job is None or result.model_ref:
        return result
    outcome, mine = pods.outcome_of(job), observed.pods_of(name)
    if outcome == "failed" and result.status != "stopped":
        words = pods.last_words(mine, "server") or pods.job_words(job)
        return result.model_copy(update={"status": "stopped", "message": words})
    if outcome != "complete" or result.status != "finished":
        return result
    said = pods.delivered(mine) or {}
    if said.get("update_ref"):
        return result.model_copy(update={"model_ref": str(said["update_ref"])})
    if said:
        why = f"the model could not be kept: {said.get('courier_error') or 'it fits no registry'}"
        return result.model_copy(update={"status": "stopped", "message": why})
    return result
