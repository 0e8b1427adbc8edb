"""Datasources: which deployments use their data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corral.api.kafkaml.kinds import FEDERATEDDEPLOYMENTS, Datasource
from corral.api.kafkaml.status import DatasourceStatus, MatchStatus
from corral.families.kafkaml.family import KafkaMLFamily
from corral.kube.types import Obj
from corral.runtime.family.caches import Caches
from corral.runtime.family.decision import Decision
from corral.runtime.family.declaration import Watched
from corral.runtime.family.wiring import same_namespace

__all__ = ["DatasourceObservation", "Datasources"]


@dataclass(frozen=True, slots=True)
class DatasourceObservation:
    """A datasource, and the clients of deployments that train on it."""

    datasource: Datasource
    matches: Sequence[MatchStatus]
    now: float

    @property
    def status(self) -> DatasourceStatus:
        return self.datasource.status or DatasourceStatus()


class Datasources(KafkaMLFamily[DatasourceObservation, DatasourceStatus]):
    """The family of Datasources."""

    kind = Datasource
    watches = (Watched(FEDERATEDDEPLOYMENTS, wakes=same_namespace),)

    async def observe(self, obj: Obj, caches: Caches) -> DatasourceObservation:
        name = obj["metadata"]["name"]
        matches = [
            MatchStatus(
                deployment=found["metadata"]["name"],
                result=client.get("result", 1),
                client_id=client["clientId"],
                job=client.get("job", ""),
            )
            for found in caches.neighbours(FEDERATEDDEPLOYMENTS, obj)
            for client in (found.get("status") or {}).get("clients") or ()
            if client.get("datasource") == name
        ]
        matches.sort(key=lambda match: match.deployment)
        return DatasourceObservation(Datasource.read(obj), matches, self._wall())

    def decide(self, observed: DatasourceObservation) -> Decision[DatasourceStatus]:
        return Decision(
            DatasourceStatus(
                phase="Ready",
                observed_generation=observed.datasource.metadata.get("generation"),
                matches=list(observed.matches),
                conditions=self.ready(observed, "True", "Ready", ""),
            )
        )
