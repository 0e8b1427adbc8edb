"""Reconciler of ModelCheckpoints: asks the registry for the model that a checkpoint names.

Uploading: it is not there yet, or the registry does not answer. Ready: it can be pulled; its size
and time are known. Failed: it was not there for too long, or is something else than it says.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy

from corral.api.propeller.kinds import MODELCHECKPOINTS
from corral.families.federated.learning import LearningSettings
from corral.families.federated.models import Places
from corral.families.federated.reconciles import counted
from corral.families.federated.rounds.conclusion import READY, condition
from corral.families.federated.view import phase_of, status_of
from corral.kube import errors
from corral.kube.types import Obj
from corral.oci import Manifest, Reference, RegistryError, Unavailable
from corral.oci import NotFound as NotInRegistry
from corral.runtime import (
    ConsistencyStore,
    EventRecorder,
    Manager,
    Result,
    is_being_deleted,
    spec_changed,
)
from corral.runtime.family.statuses import StatusController
from corral.runtime.keys import format_time
from corral.runtime.pods.states import moment
from corral.runtime.sightings import Sightings

__all__ = ["Reconciler", "register"]

COMPONENT = "corral-federated"
FIRST_WAIT, LAST_WAIT = 1.0, 30.0


class Reconciler:
    """Of all checkpoints."""

    def __init__(
        self, manager: Manager, settings: LearningSettings, *, wall: Callable[[], float]
    ) -> None:
        self.checkpoints = manager.informer(MODELCHECKPOINTS)
        self._places = Places(manager.client, settings)
        self._settings = settings
        self._wall = wall
        self._sightings = Sightings()
        self._written = ConsistencyStore({MODELCHECKPOINTS: self.checkpoints})
        self._statuses = StatusController(
            manager.client, MODELCHECKPOINTS, self._written, field_manager=settings.field_manager
        )
        self._recorder: EventRecorder = manager.recorder(COMPONENT)

    async def reconcile(self, key: str) -> Result | None:
        """One look at one checkpoint."""
        self._written.ensure_ready(key)
        found = self.checkpoints.store.get(key)
        if found is None or is_being_deleted(found):
            self._written.clear(key)
            return None
        status = status_of(found)
        generation = found["metadata"].get("generation", 0)
        if phase_of(found) == "Ready" and status.get("observedGeneration") == generation:
            return None
        try:
            return await self._look(found)
        except errors.NotFound:
            return None

    async def _look(self, found: Obj) -> Result | None:
        age = self._age(found)
        try:
            manifest = await self._manifest(found)
        except (NotInRegistry, Unavailable) as error:
            if age < self._settings.upload_limit:
                await self._write(found, "Uploading", reason="Uploading", message=str(error))
                return Result(min(max(age, FIRST_WAIT), LAST_WAIT))
            await self._write(found, "Failed", reason="NotFound", message=str(error))
            return None
        except RegistryError as error:
            await self._write(found, "Failed", reason="RegistryError", message=str(error))
            return None
        digest = found["spec"].get("digest")
        if digest and digest != manifest.digest:
            said = f"the registry has {manifest.digest}, not {digest}"
            await self._write(found, "Failed", reason="DigestMismatch", message=said)
            return None
        await self._write(
            found, "Ready", reason="Ready", message="the model can be pulled", manifest=manifest
        )
        return None

    def _age(self, found: Obj) -> float:
        """Seconds since the checkpoint was made, or was changed last."""
        told = status_of(found)
        generation = found["metadata"].get("generation", 0)
        since = moment(found["metadata"].get("creationTimestamp")) or self._wall()
        if generation > 1 and told.get("observedGeneration") != generation:
            return 0.0
        now = self._wall()
        return max(now - self._sightings.since(since, now=now), 0.0)

    async def _manifest(self, found: Obj) -> Manifest:
        registry = found["spec"].get("registry") or {}
        secret = str((registry.get("secretRef") or {}).get("name") or "")
        reference = Reference.parse(found["spec"]["modelRef"])
        namespace = found["metadata"]["namespace"]
        async with await self._places.open(namespace, secret) as artifacts:
            return await artifacts.manifest(reference)

    async def _write(
        self,
        found: Obj,
        phase: str,
        *,
        reason: str,
        message: str,
        manifest: Manifest | None = None,
    ) -> None:
        status, now = deepcopy(status_of(found)), self._wall()
        status |= {
            "phase": phase,
            "message": message[:1024],
            "observedGeneration": found["metadata"].get("generation", 0),
        }
        if manifest is not None:
            status |= {
                "sizeBytes": manifest.size,
                "digest": manifest.digest,
                "uploadTime": status.get("uploadTime") or format_time(now),
            }
        condition(status, READY, holds=phase == "Ready", reason=reason, message=message, now=now)
        written = await self._statuses.write(found, status)
        if phase == "Failed" and phase_of(found) != "Failed":
            self._recorder.warning(written, reason, message)


def register(
    manager: Manager, settings: LearningSettings, *, wall: Callable[[], float] = time.time
) -> None:
    """Add the controller of ModelCheckpoints to a manager."""
    reconciler = Reconciler(manager, settings, wall=wall)
    controller = manager.controller(
        "modelcheckpoint",
        counted(manager, "modelcheckpoint", reconciler.reconcile),
        workers=settings.workers,
    )
    controller.watch(reconciler.checkpoints, when=spec_changed)
