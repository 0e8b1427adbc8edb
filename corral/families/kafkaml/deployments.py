"""The controller of FederatedDeployments: finds data for models, and has them trained by pods.

For every model of a deployment there is a result, with a federated id of its own and a server Job
that makes its rounds; for every datasource that fits it a client Job. What the server writes into
the status (rounds, versions, metrics) is its own; phases, Jobs and places of models are ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Final

from pydantic import ValidationError

from corral.api.kafkaml.kinds import (
    DATASOURCES,
    FEDERATEDDEPLOYMENTS,
    MLCONFIGURATIONS,
    MLMODELS,
    Datasource,
    FederatedDeployment,
    MLConfiguration,
    MLModel,
)
from corral.families.kafkaml import objects, pods
from corral.families.kafkaml.matching import Wanted, client_id, newly_matched
from corral.families.kafkaml.models import COMPONENT, concerns_us, was_there
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.families.kafkaml.state import Known, Verdict, judge, results_of, updated_clients
from corral.families.kafkaml.topics import FINALIZER, TopicKeeper, TopicsLeft
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
    has_finalizer,
    is_being_deleted,
    is_controlled_by,
    join_key,
    key_of,
    mapped,
    set_condition,
)
from corral.runtime.family.statuses import StatusController
from corral.runtime.pods.couriers import COURIER
from corral.runtime.pods.failures import log_lines
from corral.runtime.pods.jsonresults import last_object
from corral.runtime.pods.states import is_terminal, moment
from corral.runtime.sightings import Sightings

__all__ = ["DeploymentReconciler", "NotReady", "register"]

POD_INDEX: Final = "deployment"
_BEHIND: Final = 0.1
_LOOK: Final = 1.0
"""Seconds between two looks at what a deployment leaves behind."""
_OVER: Final = ("Completed", "Failed")


class NotReady(Exception):
    """What a deployment refers to is not there yet, or never will be."""

    def __init__(self, reason: str, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.final = final


class DeploymentReconciler:
    """Looks at one deployment after another."""

    def __init__(
        self,
        manager: Manager,
        settings: KafkaMLSettings,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._wall = wall
        self._sightings = Sightings()
        self.deployments = manager.informer(FEDERATEDDEPLOYMENTS)
        self.models = manager.informer(MLMODELS)
        self.configurations = manager.informer(MLCONFIGURATIONS)
        self.sources = manager.informer(DATASOURCES)
        self.jobs = manager.informer(JOBS, label_selector=objects.DEPLOYMENT_LABEL)
        self.jobs.add_index(POD_INDEX, of_deployment)
        self.pods = manager.informer(PODS, label_selector=objects.DEPLOYMENT_LABEL)
        self.pods.add_index(POD_INDEX, of_deployment)
        self._written = ConsistencyStore({FEDERATEDDEPLOYMENTS: self.deployments, JOBS: self.jobs})
        self._client = manager.client
        self._told: dict[str, str] = {}
        """By key: what servers were told last."""
        self._recorder = manager.recorder(COMPONENT)
        self._topics = TopicKeeper(manager.client, settings)
        self._writer = ChildWriter(
            manager.client, field_manager=settings.field_manager, consistency=self._written
        )
        self._statuses = StatusController(
            manager.client,
            FEDERATEDDEPLOYMENTS,
            self._written,
            field_manager=settings.field_manager,
        )

    async def reconcile(self, key: str) -> Result | None:
        """One look at one deployment."""
        try:
            self._written.ensure_ready(key)
        except NotYetConsistent:
            return Result(_BEHIND)
        found = self.deployments.store.get(key)
        if found is None:
            self._written.clear(key)
            self._told.pop(key, None)
            return None
        obj = FEDERATEDDEPLOYMENTS.stamp(found)
        try:
            if is_being_deleted(obj):
                return await self._let_go(obj)
            if await self._topics.mark(obj):
                return Result(_BEHIND)
        except Conflict:
            return Result(_BEHIND)
        if (obj.get("status") or {}).get("phase") in _OVER:
            await self._stop(obj, servers=False)
            return None
        try:
            await self._sync(obj, FederatedDeployment.read(obj))
        except NotReady as error:
            phase = "Failed" if error.final else "Pending"
            ready = "False" if error.final else "Unknown"
            await self._write(obj, {}, Verdict(phase, error.reason, str(error), ready))
            return Result(self._settings.resync)
        except (Conflict, AlreadyExists):
            return Result(_BEHIND)
        except NameTaken as error:
            await self._write(obj, {}, Verdict("Pending", "NameTaken", error.message, "False"))
            return Result(self._settings.resync)
        except NotFound:
            return None
        return Result(self._settings.poll)

    async def _let_go(self, obj: Obj) -> Result | None:
        """Topics go when nobody is left who would write to them, or make them again."""
        if not has_finalizer(obj, FINALIZER):
            self._written.clear(key_of(obj))
            self._told.pop(key_of(obj), None)
            return None
        asked = moment(obj["metadata"]["deletionTimestamp"]) or 0.0
        left = self._sightings.left(asked, self._settings.topics_patience, now=self._wall())
        await self._stop(obj, servers=True)
        pods_left = self.pods.store.by_index(POD_INDEX, key_of(obj))
        if left > 0 and not all(map(is_terminal, pods_left)):
            return Result(min(left, _LOOK))
        try:
            await self._topics.remove(obj)
        except TopicsLeft as error:
            if left > 0:
                return Result(min(left, _LOOK))
            self._recorder.warning(obj, "TopicsLeft", f"topics stay: {error}")
        await self._topics.release(obj)
        return None

    # -- one look --------------------------------------------------------------------------------

    async def _sync(self, obj: Obj, deployment: FederatedDeployment) -> None:
        if deployment.spec.suspend:
            await self._stop(obj, servers=True)
            await self._write(obj, {}, Verdict("Suspended", "Suspended", "it is suspended"))
            return
        if not (deployment.spec.kafka.bootstrap_servers or self._settings.kafka):
            why = "no Kafka is known: set spec.kafka.bootstrapServers, or the operator's --kafka"
            raise NotReady("NoKafka", why)
        models = self._models(deployment)
        status = obj.get("status") or {}
        results = results_of(deployment, status, [str(m.metadata["name"]) for m in models])
        clients = self._clients(obj, deployment, results, models)
        if clients != (status.get("clients") or []) or results != (status.get("results") or []):
            # who takes part is known before anybody begins: the server goes by it
            said = {"results": results, "clients": clients}
            await self._write(obj, said, judge(results, clients, _wanted(deployment)))
            return
        await self._tell(obj, deployment, clients)
        await self._start(obj, deployment, results, clients, models)
        clients = await self._heard(obj, deployment, results, clients)
        self._look_at_servers(obj, deployment, results)
        said = {"results": results, "clients": self._phases(obj, clients)}
        verdict = judge(results, said["clients"], _wanted(deployment))
        await self._write(obj, said, verdict)
        if verdict.phase in _OVER:
            await self._stop(obj, servers=False)

    def _models(self, deployment: FederatedDeployment) -> list[MLModel]:
        """Those that it trains. Raises NotReady."""
        space, spec = deployment.metadata["namespace"], deployment.spec
        names = [spec.model]
        if spec.configuration:
            found = self.configurations.store.get(join_key(space, spec.configuration))
            if found is None:
                why = f"there is no MLConfiguration {spec.configuration}"
                raise NotReady("ConfigurationMissing", why)
            names = MLConfiguration.read(MLCONFIGURATIONS.stamp(found)).spec.models
        return [self._model(space, name) for name in names]

    def _model(self, space: str, name: str) -> MLModel:
        found = self.models.store.get(join_key(space, name))
        if found is None:
            raise NotReady("ModelMissing", f"there is no MLModel {name}")
        model = MLModel.read(MLMODELS.stamp(found))
        status = model.status
        if status is not None and status.phase == "Failed":
            why = f"MLModel {name} cannot be trained: {status.error}"
            raise NotReady("ModelFailed", why, final=True)
        current = model.metadata.get("generation")
        if status is None or status.phase != "Ready" or status.observed_generation != current:
            raise NotReady("ModelNotReady", f"MLModel {name} is being checked")
        return model

    def _clients(
        self,
        obj: Obj,
        deployment: FederatedDeployment,
        results: Sequence[Obj],
        models: Sequence[MLModel],
    ) -> list[Obj]:
        """Those that are there, and those whose data has been found now."""
        clients = deepcopy((obj.get("status") or {}).get("clients") or [])
        sources = self._sources(obj["metadata"]["namespace"])
        for result, model in zip(results, models, strict=True):
            if result.get("status") in ("finished", "stopped"):
                continue
            assert model.status is not None
            wanted = Wanted(
                obj["metadata"]["name"],
                model.status.input_shape or "",
                model.spec.distributed,
                result["federatedStringId"],
            )
            mine = [c["clientId"] for c in clients if c.get("result") == result["id"]]
            room = deployment.spec.clients.max - len(mine)
            for source in newly_matched(wanted, deployment, sources, taken=mine, room=room):
                name = client_id(source)
                clients.append(
                    {
                        "clientId": name,
                        "result": result["id"],
                        "datasource": source.metadata["name"],
                        "job": objects.client_name(result["federatedStringId"], name),
                        "phase": "Pending",
                        "samples": source.spec.total_msg or 0,
                    }
                )
                text = f"datasource {source.metadata['name']} fits: client {name} trains on it"
                self._recorder.normal(obj, "Matched", text)
        return clients

    def _sources(self, space: str) -> list[Datasource]:
        out = []
        for found in self.sources.store:
            if found["metadata"]["namespace"] == space and not is_being_deleted(found):
                try:
                    out.append(Datasource.read(DATASOURCES.stamp(found)))
                except ValidationError:
                    continue  # the schema refuses such a one; it is older than the schema
        return out

    async def _tell(
        self, obj: Obj, deployment: FederatedDeployment, clients: Sequence[Obj]
    ) -> None:
        """Have the servers know who takes part, where that has changed."""
        made = objects.told_map(deployment, clients)
        key, said = key_of(obj), repr(made["data"])
        if self._told.get(key) != said:
            await self._writer.put(obj, CONFIGMAPS, made)
            self._told[key] = said

    async def _heard(
        self,
        obj: Obj,
        deployment: FederatedDeployment,
        results: Sequence[Obj],
        clients: Sequence[Obj],
    ) -> list[Obj]:
        """What servers have said of their rounds goes into the results, and into the clients."""
        out = [dict(client) for client in clients]
        for result in results:
            if result.get("modelRef"):
                continue
            name = objects.server_name(deployment, result["id"])
            mine = sorted(self._pods_of(obj, name), key=_created)
            said = await self._progress(mine[-1]) if mine else None
            if said is None:
                continue
            result.update(said.get("result") or {})
            for client in out:
                found = (said.get("clients") or {}).get(client["clientId"])
                if found and client.get("result") == result["id"]:
                    client.update(found)
        return out

    async def _progress(self, pod: Obj) -> Obj | None:
        lines = await log_lines(self._client, pod, COURIER, self._settings)
        progress = (last_object(lines) or {}).get("progress")
        return progress if isinstance(progress, dict) else None

    async def _start(
        self,
        obj: Obj,
        deployment: FederatedDeployment,
        results: Sequence[Obj],
        clients: Sequence[Obj],
        models: Sequence[MLModel],
    ) -> None:
        """Create the Jobs that are to be there and are not."""
        space = obj["metadata"]["namespace"]
        by_result = dict(zip((result["id"] for result in results), models, strict=True))
        for result, model in zip(results, models, strict=True):
            if result.get("status") in ("finished", "stopped"):
                continue
            name = objects.server_name(deployment, result["id"])
            if self._job(obj, name) is None:
                assert model.status is not None
                made = objects.server_job(
                    deployment, result, model.status.weights_ref or "", self._settings
                )
                await self._writer.create(obj, JOBS, made)
        for index, client in enumerate(clients):
            if client.get("phase") in _OVER or self._job(obj, client["job"]) is not None:
                continue
            result = next(r for r in results if r["id"] == client["result"])
            found = self.sources.store.get(join_key(space, client["datasource"]))
            if found is None or result.get("status") in ("finished", "stopped"):
                continue
            source = Datasource.read(DATASOURCES.stamp(found))
            model = by_result[client["result"]]
            made = objects.client_job(deployment, result, model, source, index, self._settings)
            await self._writer.create(obj, JOBS, made)

    def _job(self, obj: Obj, name: str) -> Obj | None:
        found = self.jobs.store.get(join_key(obj["metadata"]["namespace"], name))
        return found if found is not None and is_controlled_by(found, obj) else None

    def _pods_of(self, obj: Obj, job: str) -> list[Obj]:
        found = self.pods.store.by_index(POD_INDEX, key_of(obj))
        label = "batch.kubernetes.io/job-name"
        return [p for p in found if (p["metadata"].get("labels") or {}).get(label) == job]

    def _phases(self, obj: Obj, clients: Sequence[Obj]) -> list[Obj]:
        jobs = {}
        for client in clients:
            job = self._job(obj, client["job"])
            if job is not None:
                outcome = pods.outcome_of(job)
                words = ""
                if outcome == "failed":
                    words = pods.last_words(self._pods_of(obj, client["job"]), "training")
                jobs[client["job"]] = Known(outcome, words or pods.job_words(job))
        return updated_clients(clients, jobs)

    def _look_at_servers(
        self, obj: Obj, deployment: FederatedDeployment, results: Sequence[Obj]
    ) -> None:
        """Where the models are, of servers that have ended."""
        for result in results:
            name = objects.server_name(deployment, result["id"])
            job = self._job(obj, name)
            if job is None or result.get("modelRef"):
                continue
            outcome = pods.outcome_of(job)
            if outcome == "running":
                continue
            mine = self._pods_of(obj, name)
            if outcome == "failed" and result.get("status") != "stopped":
                result["status"] = "stopped"
                result["message"] = pods.last_words(mine, "server") or pods.job_words(job)
            elif outcome == "complete" and result.get("status") == "finished":
                said = pods.delivered(mine) or {}
                if said.get("update_ref"):
                    result["modelRef"] = said["update_ref"]
                elif said:
                    result["status"] = "stopped"
                    why = said.get("courier_error") or "it fits no registry"
                    result["message"] = f"the model could not be kept: {why}"

    async def _stop(self, obj: Obj, *, servers: bool) -> None:
        """End clients that are still there; servers too, where the deployment is to rest."""
        for job in self.jobs.store.by_index(POD_INDEX, key_of(obj)):
            role = (job["metadata"].get("labels") or {}).get(objects.ROLE_LABEL)
            if not is_controlled_by(job, obj) or is_being_deleted(job):
                continue
            if pods.outcome_of(job) == "running" and (servers or role == "client"):
                await self._writer.delete(JOBS, job)

    async def _write(self, obj: Obj, said: Obj, verdict: Verdict) -> None:
        old = obj.get("status") or {}
        now = format_time(self._wall())
        status = {**deepcopy(old), **said, "phase": verdict.phase}
        status["observedGeneration"] = obj["metadata"].get("generation")
        results = status.get("results") or []
        if results:
            status["federatedStringId"] = results[0]["federatedStringId"]
            status["completedRounds"] = min(int(r.get("version") or 0) for r in results)
        if verdict.phase == "Running" and not status.get("startTime"):
            status["startTime"] = now
        if verdict.phase in _OVER and not status.get("finishTime"):
            status["finishTime"] = now
        conditions = status.setdefault("conditions", [])
        set_condition(
            conditions,
            "Ready",
            status=verdict.ready,
            reason=verdict.reason,
            message=verdict.message,
            now=now,
        )
        await self._statuses.write(obj, status)
        if old.get("phase") != verdict.phase:
            tell = self._recorder.warning if verdict.phase == "Failed" else self._recorder.normal
            tell(obj, verdict.reason, verdict.message)


def _created(pod: Obj) -> str:
    return str(pod["metadata"].get("creationTimestamp") or "")


def _wanted(deployment: FederatedDeployment) -> int:
    """Clients of ours that must be there to begin."""
    return 0 if deployment.spec.clients.external else deployment.spec.clients.min


def of_deployment(obj: Obj) -> tuple[str, ...]:
    """For stores: the deployment that an object is of."""
    metadata = obj["metadata"]
    name = (metadata.get("labels") or {}).get(objects.DEPLOYMENT_LABEL)
    return (join_key(metadata["namespace"], name),) if name else ()


def register(
    manager: Manager, settings: KafkaMLSettings, *, wall: Callable[[], float] = time.time
) -> None:
    """Add the controller of FederatedDeployments to a manager."""
    reconciler = DeploymentReconciler(manager, settings, wall=wall)
    controller = manager.controller(
        "federateddeployment",
        reconciler.reconcile,
        workers=settings.workers,
        timeout=settings.timeout,
    )

    def neighbours(change: Change) -> list[str]:
        """Every deployment of the namespace that is not over."""
        space = (change.new or change.old or {})["metadata"]["namespace"]
        return [
            key_of(found)
            for found in reconciler.deployments.store
            if found["metadata"]["namespace"] == space
            and (found.get("status") or {}).get("phase") not in _OVER
        ]

    controller.watch(reconciler.deployments, when=concerns_us)
    for informer in (reconciler.models, reconciler.configurations, reconciler.sources):
        controller.watch(informer, neighbours)
    controller.watch(reconciler.jobs, mapped(of_deployment), when=was_there)
    controller.watch(reconciler.pods, mapped(of_deployment), when=was_there)
