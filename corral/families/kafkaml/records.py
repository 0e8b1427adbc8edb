"""The controllers of MLConfigurations and Datasources, which only say something of themselves."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from typing import Final

from corral.api.kafkaml.kinds import (
    DATASOURCES,
    FEDERATEDDEPLOYMENTS,
    MLCONFIGURATIONS,
    MLMODELS,
    MLConfiguration,
)
from corral.families.kafkaml.models import concerns_us
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.kube.errors import Conflict, NotFound
from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.runtime import (
    Change,
    ConsistencyStore,
    Manager,
    NotYetConsistent,
    Result,
    format_time,
    is_being_deleted,
    join_key,
    key_of,
    set_condition,
)
from corral.runtime.family.statuses import StatusController

__all__ = ["register"]

_BEHIND: Final = 0.1


class _Records:
    """Gives objects of one kind the status that is made of what is known."""

    def __init__(
        self,
        manager: Manager,
        resource: Resource,
        settings: KafkaMLSettings,
        make: Callable[[Obj], Obj],
        wall: Callable[[], float],
    ) -> None:
        self._resource = resource
        self._make = make
        self._wall = wall
        self.objects = manager.informer(resource)
        self._written = ConsistencyStore({resource: self.objects})
        self._statuses = StatusController(
            manager.client, resource, self._written, field_manager=settings.field_manager
        )

    async def reconcile(self, key: str) -> Result | None:
        try:
            self._written.ensure_ready(key)
        except NotYetConsistent:
            return Result(_BEHIND)
        found = self.objects.store.get(key)
        if found is None or is_being_deleted(found):
            self._written.clear(key)
            return None
        obj = self._resource.stamp(found)
        status = self._make(obj)
        conditions = deepcopy((obj.get("status") or {}).get("conditions") or [])
        words = {"Ready": "True", "Failed": "False"}
        set_condition(
            conditions,
            "Ready",
            status=words.get(status["phase"], "Unknown"),
            reason=status["phase"],
            message=status.get("error") or "",
            now=format_time(self._wall()),
        )
        status["observedGeneration"] = obj["metadata"].get("generation")
        try:
            await self._statuses.write(obj, {**status, "conditions": conditions})
        except Conflict:
            return Result(_BEHIND)
        except NotFound:
            return None
        return None


def register(
    manager: Manager, settings: KafkaMLSettings, *, wall: Callable[[], float] = time.time
) -> None:
    """Add both controllers to a manager."""
    models, deployments = manager.informer(MLMODELS), manager.informer(FEDERATEDDEPLOYMENTS)

    def configuration(obj: Obj) -> Obj:
        spec = MLConfiguration.read(obj).spec
        space = obj["metadata"]["namespace"]
        found = {name: models.store.get(join_key(space, name)) for name in spec.models}
        missing = [name for name, model in found.items() if model is None]
        if missing:
            return {"phase": "Failed", "error": f"there is no MLModel {', '.join(missing)}"}
        there = [model for model in found.values() if model is not None]
        phases = {name: (m or {}).get("status", {}).get("phase") for name, m in found.items()}
        failed = [name for name, phase in phases.items() if phase == "Failed"]
        out: Obj = {
            "phase": "Ready" if set(phases.values()) == {"Ready"} else "Pending",
            "frameworks": sorted({model["spec"].get("framework", "tf") for model in there}),
            "distributed": any(model["spec"].get("distributed") for model in there),
        }
        if failed:
            out |= {"phase": "Failed", "error": f"MLModel {', '.join(failed)} cannot be trained"}
        return out

    def datasource(obj: Obj) -> Obj:
        name, space = obj["metadata"]["name"], obj["metadata"]["namespace"]
        matches = [
            {
                "deployment": found["metadata"]["name"],
                "result": client.get("result", 1),
                "clientId": client["clientId"],
                "job": client.get("job", ""),
            }
            for found in deployments.store
            if found["metadata"]["namespace"] == space
            for client in (found.get("status") or {}).get("clients") or ()
            if client.get("datasource") == name
        ]
        return {"phase": "Ready", "matches": sorted(matches, key=lambda m: m["deployment"])}

    for resource, name, make, other in (
        (MLCONFIGURATIONS, "mlconfiguration", configuration, models),
        (DATASOURCES, "datasource", datasource, deployments),
    ):
        records = _Records(manager, resource, settings, make, wall)
        controller = manager.controller(name, records.reconcile, timeout=settings.timeout)
        controller.watch(records.objects, when=concerns_us)
        controller.watch(other, _neighbours(records))


def _neighbours(records: _Records) -> Callable[[Change], list[str]]:
    def found(change: Change) -> list[str]:
        space = (change.new or change.old or {})["metadata"]["namespace"]
        return [
            key_of(obj) for obj in records.objects.store if obj["metadata"]["namespace"] == space
        ]

    return found
