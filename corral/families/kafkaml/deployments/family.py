"""The family of FederatedDeployments; see the package for what it does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from corral.api.kafkaml.kinds import (
    DATASOURCES,
    MLCONFIGURATIONS,
    MLMODELS,
    FederatedDeployment,
    MLModel,
)
from corral.api.kafkaml.status import ClientStatus, FederatedDeploymentStatus, ResultStatus
from corral.families.kafkaml import objects
from corral.families.kafkaml.deployments.jobs import (
    ClientJob,
    missing_clients,
    missing_servers,
    running_jobs,
)
from corral.families.kafkaml.deployments.observation import (
    OVER,
    DeploymentObservation,
    is_over,
    of_deployment,
    read,
)
from corral.families.kafkaml.deployments.participants import (
    NotReady,
    clients_of,
    heard,
    matched,
    models_of,
    servers_looked_at,
)
from corral.families.kafkaml.deployments.state import Verdict, judge, results_of
from corral.families.kafkaml.deployments.topics import FINALIZER, TopicsLeft, remove_topics
from corral.families.kafkaml.family import KafkaMLFamily
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.kube.client import KubeClient
from corral.kube.resources import CONFIGMAPS, JOBS, PODS
from corral.kube.types import Obj
from corral.runtime.family.caches import Caches
from corral.runtime.family.decision import Child, Decision
from corral.runtime.family.declaration import Owned, Watched
from corral.runtime.family.events import Event, normal, warning
from corral.runtime.family.wiring import same_namespace
from corral.runtime.finalizers import is_being_deleted
from corral.runtime.informers.handlers import Mapper
from corral.runtime.keys import format_time
from corral.runtime.pods.couriers import COURIER
from corral.runtime.pods.failures import log_lines
from corral.runtime.pods.jsonresults import last_object
from corral.runtime.pods.states import is_terminal, moment
from corral.runtime.sightings import Sightings

__all__ = ["Deployments"]

_LOOK: Final = 1.0
"""Seconds between two looks at what a deployment leaves behind."""


def _live_neighbours(caches: Caches) -> Mapper:
    """Wakes every deployment of a namespace that is not over."""
    return same_namespace(caches, where=lambda obj, other: not is_over(obj))


class Deployments(KafkaMLFamily[DeploymentObservation, FederatedDeploymentStatus]):
    """The family of FederatedDeployments."""

    kind = FederatedDeployment
    owns = (
        Owned(JOBS, label=objects.DEPLOYMENT_LABEL, keys=of_deployment),
        Owned(PODS, label=objects.DEPLOYMENT_LABEL, keys=of_deployment),
    )
    watches = tuple(
        Watched(resource, wakes=_live_neighbours)
        for resource in (MLMODELS, MLCONFIGURATIONS, DATASOURCES)
    )
    finalizer = FINALIZER

    def __init__(
        self,
        settings: KafkaMLSettings,
        client: KubeClient,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """``client`` reads the logs of servers, and logins of brokers."""
        super().__init__(settings, wall=wall)
        self._client = client
        self._sightings = Sightings()

    def needs_finalizer(self, obj: Obj) -> bool:
        """Where its topics are to go with it."""
        return not (obj["spec"].get("topics") or {}).get("retain", True)

    # --- observing -------------------------------------------------------------------------------

    async def observe(self, obj: Obj, caches: Caches) -> DeploymentObservation:
        observed = read(obj, caches, now=self._wall())
        if is_being_deleted(obj) or is_over(obj) or observed.deployment.spec.suspend:
            return observed
        progress = {}
        for result in observed.status.results or ():
            if not result.model_ref:
                said = await self._progress(observed, result)
                if said is not None:
                    progress[result.id] = said
        return replace(observed, progress=progress)

    async def _progress(self, observed: DeploymentObservation, result: ResultStatus) -> Obj | None:
        """What the newest pod of a server said last of its rounds."""
        mine = observed.pods_of(objects.server_name(observed.deployment, result.id))
        if not mine:
            return None
        newest = max(mine, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))
        lines = await log_lines(self._client, newest, COURIER, self.settings)
        progress = (last_object(lines) or {}).get("progress")
        return progress if isinstance(progress, dict) else None

    # --- deciding --------------------------------------------------------------------------------

    def decide(self, observed: DeploymentObservation) -> Decision[FederatedDeploymentStatus]:
        if observed.status.phase in OVER:
            return Decision(delete=running_jobs(observed, servers=False))
        spec, settings = observed.deployment.spec, self.settings
        if spec.suspend:
            verdict = Verdict("Suspended", "Suspended", "it is suspended")
            stopped = self._judged(observed, verdict)
            return replace(
                stopped, delete=running_jobs(observed, servers=True), requeue_after=settings.poll
            )
        try:
            if not (spec.kafka.bootstrap_servers or settings.kafka):
                why = "no Kafka is known: set spec.kafka.bootstrapServers, or the operator's "
                raise NotReady("NoKafka", f"{why}--kafka")
            models = models_of(observed)
        except NotReady as error:
            verdict = Verdict("Pending", error.reason, str(error))
            if error.final:
                verdict = Verdict("Failed", error.reason, str(error), "False")
            return replace(self._judged(observed, verdict), requeue_after=settings.resync)
        return self._trained(observed, models)

    def _trained(
        self, observed: DeploymentObservation, models: Sequence[MLModel]
    ) -> Decision[FederatedDeploymentStatus]:
        names = [str(model.metadata["name"]) for model in models]
        results = results_of(observed.deployment, observed.status, names)
        clients, events = matched(observed, results, models)
        # who takes part is told before anybody begins: the server goes by it
        told = Child(CONFIGMAPS, objects.told_name(observed.name), detail=clients)
        results, clients = heard(results, clients, observed.progress)
        results, clients = servers_looked_at(observed, results), clients_of(observed, clients)
        clients_wanted = observed.deployment.spec.clients
        wanted = 0 if clients_wanted.external else clients_wanted.min
        verdict = judge(results, clients, wanted)
        decision = self._judged(observed, verdict, results=results, clients=clients, events=events)
        if verdict.phase in OVER:
            return replace(decision, delete=running_jobs(observed, servers=False))
        return replace(
            decision,
            apply=(told,),
            create=(
                *missing_servers(observed, results, models),
                *missing_clients(observed, results, clients, models),
            ),
            requeue_after=self.settings.poll,
        )

    def _judged(
        self,
        observed: DeploymentObservation,
        verdict: Verdict,
        *,
        results: list[ResultStatus] | None = None,
        clients: list[ClientStatus] | None = None,
        events: Sequence[Event] = (),
    ) -> Decision[FederatedDeploymentStatus]:
        """The status by a verdict; results and clients stay as they are where none are given."""
        old, now = observed.status, format_time(observed.now)
        status = old.model_copy()
        status.results = results if results is not None else old.results
        status.clients = clients if clients is not None else old.clients
        status.phase = verdict.phase
        status.observed_generation = observed.deployment.metadata.get("generation")
        if status.results:
            status.federated_string_id = status.results[0].federated_string_id
            status.completed_rounds = min(result.version or 0 for result in status.results)
        if verdict.phase == "Running" and not status.start_time:
            status.start_time = now
        if verdict.phase in OVER and not status.finish_time:
            status.finish_time = now
        status.conditions = self.ready(observed, verdict.ready, verdict.reason, verdict.message)
        told = list(events)
        if old.phase != verdict.phase:
            make = warning if verdict.phase == "Failed" else normal
            told.append(make(verdict.reason, verdict.message))
        return Decision(status, events=tuple(told))

    def build(self, child: Child, observed: DeploymentObservation) -> Obj:
        deployment, detail = observed.deployment, child.detail
        if child.resource == CONFIGMAPS:
            return objects.told_map(deployment, detail)
        if isinstance(detail, ClientJob):
            return objects.client_job(
                deployment, detail.result, detail.model, detail.source, detail.index, self.settings
            )
        result, weights_ref = detail
        return objects.server_job(deployment, result, weights_ref, self.settings)

    # --- deletion --------------------------------------------------------------------------------

    async def finalize(
        self, observed: DeploymentObservation
    ) -> Decision[FederatedDeploymentStatus]:
        """Topics go when nobody is left who would write to them, or make them again."""
        asked = moment(observed.obj["metadata"]["deletionTimestamp"]) or 0.0
        left = self._sightings.left(asked, self.settings.topics_patience, now=observed.now)
        again = Decision[FederatedDeploymentStatus](
            delete=running_jobs(observed, servers=True), requeue_after=min(left, _LOOK)
        )
        if left > 0 and not all(map(is_terminal, observed.pods)):
            return again
        events: tuple[Event, ...] = ()
        try:
            await remove_topics(self._client, self.settings, observed.deployment)
        except TopicsLeft as error:
            if left > 0:
                return again
            events = (warning("TopicsLeft", f"topics stay: {error}"),)
        return replace(again, events=events, finalized=True)
