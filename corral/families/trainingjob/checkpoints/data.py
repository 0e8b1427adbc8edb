"""The data of Checkpoints that are going is deleted before their objects are.

A Checkpoint has a finalizer, which is taken off when the data is gone, by whoever can reach it:

- object stores and folders of the machine: this process, with the job's credentials,
- a claim: the job's replica 0 while it runs, which is told in the answers to its reports; else a
  pod made for it (`checkpoint_janitor`); nobody if the job is gone, for the claim goes with it.

Data that cannot be deleted (no credentials, no answer) is tried again with growing waits, told by
an Event; the annotation ``training.corral.dev/keep-data: "true"`` lets the object go without. In a
namespace that is being deleted its Secrets may be gone already: there the data is left.
"""

from __future__ import annotations

import logging
from typing import Final

from corral.api.training.kinds import CHECKPOINTS, GROUP
from corral.checkpoints.collect import delete
from corral.checkpoints.errors import CheckpointError, InvalidPath
from corral.checkpoints.manifest import Manifest
from corral.checkpoints.places import Place, PlaceRefused
from corral.families.trainingjob.caches import Caches
from corral.families.trainingjob.checkpoints.credentials import CredentialsMissing
from corral.families.trainingjob.checkpoints.janitor import (
    JANITOR_LABEL,
    janitor_name,
    janitor_pod,
    janitor_removes,
)
from corral.families.trainingjob.checkpoints.objects import CheckpointObjects
from corral.families.trainingjob.checkpoints.places import checkpoint_place
from corral.families.trainingjob.checkpoints.stores import Stores
from corral.families.trainingjob.checkpoints.summaries import (
    FINALIZER,
    JOB_INDEX,
    belongs_to,
    id_of,
    index_by_job,
    phase_of,
)
from corral.families.trainingjob.names import replica_of
from corral.kube.errors import AlreadyExists, NotFound
from corral.kube.resources import PODS
from corral.kube.types import Obj
from corral.runtime import (
    EventRecorder,
    Manager,
    Result,
    has_finalizer,
    is_being_deleted,
    join_key,
    key_of,
    remove_finalizer,
)

__all__ = ["KEEP_DATA", "DataNotDeleted", "DataRemover"]

logger = logging.getLogger(__name__)

KEEP_DATA: Final = f"{GROUP}/keep-data"
"""On a Checkpoint: "true" lets the object go and leaves the data."""
FIELD_MANAGER: Final = "corral-checkpoints"


class DataNotDeleted(Exception):
    """The data of a Checkpoint is still there; it is tried again."""


class DataRemover:
    """Deletes the data of Checkpoints that are going."""

    def __init__(
        self,
        manager: Manager,
        stores: Stores,
        *,
        objects: CheckpointObjects,
        recorder: EventRecorder,
        restricted_user: int | None,
        wait_for_pod: float,
    ) -> None:
        """``wait_for_pod``: how often to look whether a pod has done its part, in seconds."""
        self.checkpoints = manager.informer(CHECKPOINTS)
        self.checkpoints.add_index(JOB_INDEX, index_by_job)
        self.janitors = manager.informer(PODS, label_selector=JANITOR_LABEL)
        self._caches = Caches(manager)
        self._client = manager.client
        self._stores = stores
        self._objects = objects
        self._recorder = recorder
        self._user = restricted_user
        self._wait = wait_for_pod

    async def finalize(self, key: str) -> Result | None:
        """One look at one Checkpoint: if it is going, its data goes first.

        Raises:
            DataNotDeleted: it could not be deleted now.
        """
        checkpoint = self.checkpoints.store.get(key)
        if checkpoint is None or not is_being_deleted(checkpoint):
            return None
        if not has_finalizer(checkpoint, FINALIZER):
            return None
        notes = checkpoint["metadata"].get("annotations") or {}
        if phase_of(checkpoint) == "Deleted" or notes.get(KEEP_DATA) == "true":
            await self._release(checkpoint)
            return None
        try:
            place, identifier = checkpoint_place(checkpoint, self._stores.rules)
        except PlaceRefused as error:
            await self._leave(checkpoint, error)
            return None
        if place is None:
            return await self._on_claim(checkpoint)
        await self._in_store(checkpoint, place, identifier)
        return None

    async def _in_store(self, checkpoint: Obj, place: Place, identifier: str) -> None:
        namespace = checkpoint["metadata"]["namespace"]
        what = Manifest(identifier, checkpoint["spec"]["step"], 0.0, ())
        try:
            opened = await self._stores.open(namespace, place)
            await self._stores.call(delete, opened.repository, what)
        except (PlaceRefused, InvalidPath) as error:
            await self._leave(checkpoint, error)
            return
        except (CheckpointError, CredentialsMissing) as error:
            if self._namespace_goes(namespace):
                logger.warning("the data of %s is left: %s", key_of(checkpoint), error)
                await self._release(checkpoint)
                return
            self._recorder.warning(checkpoint, "CheckpointNotDeleted", str(error))
            raise DataNotDeleted(str(error)) from error
        await self._release(await self._objects.data_gone(checkpoint))

    async def _leave(self, checkpoint: Obj, why: PlaceRefused | InvalidPath) -> None:
        """Let the object go, and the data stay that it may not speak for."""
        self._recorder.warning(checkpoint, "CheckpointDataLeft", f"nothing is deleted: {why}")
        await self._release(checkpoint)

    async def _on_claim(self, checkpoint: Obj) -> Result | None:
        metadata = checkpoint["metadata"]
        name = checkpoint["spec"]["jobRef"]["name"]
        job = self._caches.jobs.store.get(join_key(metadata["namespace"], name))
        if job is None or is_being_deleted(job) or not belongs_to(checkpoint, job):
            await self._release(checkpoint)  # the claim goes with its job
            return None
        if self._master_runs(job):
            return Result(self._wait)
        janitor = self.janitors.store.get(join_key(metadata["namespace"], janitor_name(name)))
        if janitor is None:
            await self._send_janitor(job)
            return Result(self._wait)
        return await self._after_janitor(job, checkpoint, janitor)

    async def _send_janitor(self, job: Obj) -> None:
        metadata = job["metadata"]
        pod = janitor_pod(
            job,
            sorted(id_of(found) for found in self._pending(job)),
            namespace=self._caches.namespace_metadata(metadata["namespace"]),
            user=self._user,
        )
        try:
            await self._client.create(PODS, pod, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            logger.debug("the janitor of %s is there already", key_of(job))

    async def _after_janitor(self, job: Obj, checkpoint: Obj, janitor: Obj) -> Result | None:
        phase = (janitor.get("status") or {}).get("phase")
        removes = janitor_removes(janitor)
        if phase == "Succeeded" and id_of(checkpoint) in removes:
            await self._release(await self._objects.data_gone(checkpoint))
        if phase == "Succeeded":
            left = {id_of(found) for found in self._pending(job)} - {id_of(checkpoint)}
            if not left & removes:
                await self._dismiss(janitor)
            return Result(1.0) if id_of(checkpoint) not in removes else None
        if phase == "Failed":
            self._recorder.warning(
                checkpoint, "CheckpointNotDeleted", f"pod {janitor['metadata']['name']} failed"
            )
            await self._dismiss(janitor)
            raise DataNotDeleted(f"pod {janitor['metadata']['name']} failed")
        return Result(self._wait)

    def _pending(self, job: Obj) -> list[Obj]:
        """Checkpoints on the job's claim that are going and whose data is still there."""
        return [
            found
            for found in self.checkpoints.store.by_index(JOB_INDEX, key_of(job))
            if is_being_deleted(found)
            and belongs_to(found, job)
            and phase_of(found) != "Deleted"
            and id_of(found)
        ]

    def _master_runs(self, job: Obj) -> bool:
        return any(
            replica_of(pod) == 0
            and (pod.get("status") or {}).get("phase") == "Running"
            and not is_being_deleted(pod)
            for pod in self._caches.pods_of(job)
        )

    def _namespace_goes(self, namespace: str) -> bool:
        return bool(self._caches.namespace_metadata(namespace).get("deletionTimestamp"))

    async def _dismiss(self, pod: Obj) -> None:
        metadata = pod["metadata"]
        try:
            await self._client.delete(
                PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )
        except NotFound:
            return

    async def _release(self, checkpoint: Obj) -> None:
        await remove_finalizer(
            self._client, CHECKPOINTS, checkpoint, finalizer=FINALIZER, field_manager=FIELD_MANAGER
        )

    def pending_of_job(self, job: Obj) -> list[str]:
        """Keys of the Checkpoints that may have waited for the job's own pod."""
        return [key_of(found) for found in self._pending(job)]

    def pending_of_janitor(self, pod: Obj) -> list[str]:
        """The Checkpoints to look at when a janitor has changed."""
        name = (pod["metadata"].get("labels") or {}).get(JANITOR_LABEL, "")
        key = join_key(pod["metadata"].get("namespace"), name)
        found = self.checkpoints.store.by_index(JOB_INDEX, key)
        return [key_of(checkpoint) for checkpoint in found if is_being_deleted(checkpoint)]
