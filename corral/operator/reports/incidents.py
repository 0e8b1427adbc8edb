"""What pods and stores say against checkpoints: Events on the job, and Checkpoints that fail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corral.checkpoints.findings import Finding, Reason
from corral.families.trainingjob.checkpoints.objects import CheckpointObjects
from corral.families.trainingjob.checkpoints.summaries import belongs_to, id_of, phase_of
from corral.kube.types import Obj
from corral.operator.reports.bodies import Rejection
from corral.runtime.events.recorder import EventRecorder

__all__ = ["REJECTED", "Incidents"]

REJECTED = "CheckpointRejected"
"""The reason of the Events."""


class Incidents:
    """Tells of damaged checkpoints, of each one once."""

    def __init__(self, objects: CheckpointObjects, recorder: EventRecorder) -> None:
        self._objects = objects
        self._recorder = recorder

    async def rejected(
        self, job: Obj, checkpoints: Sequence[Obj], rejections: Iterable[Rejection]
    ) -> None:
        """A pod found these to be damaged."""
        for rejection in rejections:
            about = ": ".join(text for text in (rejection.reason, rejection.message) if text)
            await self._tell(job, checkpoints, rejection.id, about or "it is damaged")

    async def found(
        self, job: Obj, checkpoints: Sequence[Obj], findings: Iterable[Finding]
    ) -> None:
        """The store has these, and they cannot be restored from."""
        for finding in findings:
            # What was marked earlier was told of earlier.
            if finding.is_damage and finding.reason is not Reason.QUARANTINED:
                about = f"{finding.reason}: {finding.message}"
                await self._tell(job, checkpoints, finding.checkpoint, about)

    async def _tell(
        self, job: Obj, checkpoints: Sequence[Obj], identifier: str, message: str
    ) -> None:
        # A pod may be wrong about its own checkpoints, but has no say about those of others.
        own = [c for c in checkpoints if id_of(c) == identifier and belongs_to(c, job)]
        if own and phase_of(own[0]) == "Failed":
            return
        name = own[0]["metadata"]["name"] if own else identifier
        if own and phase_of(own[0]) in ("Ready", "Writing"):
            await self._objects.fail(own[0], message)
        self._recorder.record(
            job,
            "Warning",
            reason=REJECTED,
            message=f"checkpoint {name} was passed over: {message}",
        )
