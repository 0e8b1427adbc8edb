"""ModelCheckpoints: asks the registry for the model that a checkpoint names.

Uploading: it is not there yet, or the registry does not answer. Ready: it can be pulled; its size
and time are known. Failed: it was not there for too long, or is something else than it says.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from corral.api.propeller.kinds import ModelCheckpoint
from corral.api.propeller.status import ModelCheckpointStatus
from corral.families.federated.learning import LearningSettings
from corral.families.federated.models import Places
from corral.kube.client import KubeClient
from corral.kube.types import Obj
from corral.oci import Manifest, Reference, RegistryError, Unavailable
from corral.oci import NotFound as NotInRegistry
from corral.runtime.family.caches import Caches
from corral.runtime.family.conditions import with_condition
from corral.runtime.family.decision import Decision
from corral.runtime.family.declaration import Family
from corral.runtime.family.events import warning
from corral.runtime.keys import format_time
from corral.runtime.pods.states import moment
from corral.runtime.sightings import Sightings

__all__ = ["CheckpointObservation", "ModelCheckpoints"]

_FIRST_WAIT: Final = 1.0
_LAST_WAIT: Final = 30.0
_MESSAGE: Final = 1024


@dataclass(frozen=True, slots=True)
class CheckpointObservation:
    """A checkpoint, and what its registry says."""

    checkpoint: ModelCheckpoint
    manifest: Manifest | None
    trouble: RegistryError | None
    """Why there is no manifest; None as well where nobody asked for it."""
    age: float
    """Seconds since the checkpoint was made, or was changed last."""
    now: float

    @property
    def status(self) -> ModelCheckpointStatus:
        return self.checkpoint.status or ModelCheckpointStatus()

    @property
    def generation(self) -> int:
        return int(self.checkpoint.metadata.get("generation") or 0)


class ModelCheckpoints(Family[CheckpointObservation, ModelCheckpointStatus]):
    """The family of ModelCheckpoints."""

    kind = ModelCheckpoint
    component = "corral-federated"

    def __init__(
        self,
        settings: LearningSettings,
        client: KubeClient,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """``client`` reads the credentials of registries."""
        self.settings: LearningSettings = settings
        self._places = Places(client, settings)
        self._wall = wall
        self._sightings = Sightings()

    async def observe(self, obj: Obj, caches: Caches) -> CheckpointObservation:
        checkpoint, now = ModelCheckpoint.read(obj), self._wall()
        observed = CheckpointObservation(checkpoint, None, None, self._age(checkpoint, now), now)
        if _is_ready(observed):
            return observed
        try:
            manifest = await self._manifest(obj)
        except RegistryError as error:
            return CheckpointObservation(checkpoint, None, error, observed.age, now)
        return CheckpointObservation(checkpoint, manifest, None, observed.age, now)

    async def _manifest(self, obj: Obj) -> Manifest:
        registry = obj["spec"].get("registry") or {}
        secret = str((registry.get("secretRef") or {}).get("name") or "")
        reference = Reference.parse(obj["spec"]["modelRef"])
        async with await self._places.open(obj["metadata"]["namespace"], secret) as artifacts:
            return await artifacts.manifest(reference)

    def _age(self, checkpoint: ModelCheckpoint, now: float) -> float:
        metadata, status = checkpoint.metadata, checkpoint.status
        generation = int(metadata.get("generation") or 0)
        since = moment(metadata.get("creationTimestamp")) or now
        if generation > 1 and (status is None or status.observed_generation != generation):
            return 0.0
        return max(now - self._sightings.since(since, now=now), 0.0)

    def decide(self, observed: CheckpointObservation) -> Decision[ModelCheckpointStatus]:
        if _is_ready(observed):
            return Decision()
        if observed.manifest is None:
            return self._without(observed, observed.trouble)
        wanted = observed.checkpoint.spec.digest
        if wanted and wanted != observed.manifest.digest:
            said = f"the registry has {observed.manifest.digest}, not {wanted}"
            return _failed(observed, "DigestMismatch", said)
        status = _status(observed, "Ready", "Ready", "the model can be pulled")
        status.size_bytes, status.digest = observed.manifest.size, observed.manifest.digest
        status.upload_time = status.upload_time or format_time(observed.now)
        return Decision(status)

    def _without(
        self, observed: CheckpointObservation, trouble: RegistryError | None
    ) -> Decision[ModelCheckpointStatus]:
        if not isinstance(trouble, NotInRegistry | Unavailable):
            return _failed(observed, "RegistryError", str(trouble))
        if observed.age >= self.settings.upload_limit:
            return _failed(observed, "NotFound", str(trouble))
        status = _status(observed, "Uploading", "Uploading", str(trouble))
        return Decision(status, requeue_after=min(max(observed.age, _FIRST_WAIT), _LAST_WAIT))


def _is_ready(observed: CheckpointObservation) -> bool:
    return (
        observed.status.phase == "Ready"
        and observed.status.observed_generation == observed.generation
    )


def _failed(
    observed: CheckpointObservation, reason: str, message: str
) -> Decision[ModelCheckpointStatus]:
    events = () if observed.status.phase == "Failed" else (warning(reason, message),)
    return Decision(_status(observed, "Failed", reason, message), events=events)


def _status(
    observed: CheckpointObservation,
    phase: Literal["Uploading", "Ready", "Failed"],
    reason: str,
    message: str,
) -> ModelCheckpointStatus:
    status = observed.status.model_copy()
    status.phase, status.message = phase, message[:_MESSAGE]
    status.observed_generation = observed.generation
    status.conditions = with_condition(
        status.conditions,
        "Ready",
        status="True" if phase == "Ready" else "False",
        reason=reason,
        message=message[:_MESSAGE],
        now=observed.now,
    )
    return status
