"""Creating, patching and deleting the pods of an owner, with the events people know.

Writes are noted for ``ConsistencyStore``, so that a reconcile never decides on a cache that has
not seen them. A creation that the server refuses is an event on the owner and an exception to the
caller; a pod that is gone counts as deleted.
"""

from __future__ import annotations

from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import PODS
from corral.kube.types import Obj
from corral.runtime import ConsistencyStore, EventRecorder, key_of, uid_of, version_of

__all__ = ["PodControl", "namespace_terminating"]


class PodControl:
    """Writes pods for one kind of owner."""

    def __init__(
        self,
        client: KubeClient,
        recorder: EventRecorder,
        consistency: ConsistencyStore,
        *,
        field_manager: str,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._consistency = consistency
        self._field_manager = field_manager

    async def create(self, owner: Obj, body: Obj) -> Obj:
        """Create a pod; ``body`` has its namespace and its owner reference already.

        Raises:
            ApiError: the server refused. In a namespace that is going no event is made of it.
        """
        try:
            made = await self._client.create(PODS, body, field_manager=self._field_manager)
        except errors.ApiError as err:
            if not namespace_terminating(err):
                self._recorder.warning(owner, "FailedCreate", f"Error creating: {err.message}")
            raise
        self._note(owner, made)
        self._recorder.normal(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
        return made

    async def patch(self, owner: Obj, pod: Obj, patch: Obj) -> Obj | None:
        """Patch a pod (strategic merge); None when it is gone. Raises ApiError."""
        metadata = pod["metadata"]
        try:
            patched = await self._client.patch(
                PODS,
                metadata["name"],
                namespace=metadata["namespace"],
                patch=patch,
                kind="strategic",
                field_manager=self._field_manager,
            )
        except errors.NotFound:
            return None
        if not _is_gone(patched):
            self._note(owner, patched)
        return patched

    async def delete(self, owner: Obj, pod: Obj) -> bool:
        """Delete this very pod; whether it was still there. Raises ApiError."""
        metadata = pod["metadata"]
        try:
            left = await self._client.delete(
                PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )
        except (errors.NotFound, errors.Conflict):
            return False  # gone, or another one of this name
        except errors.ApiError as err:
            self._recorder.warning(owner, "FailedDelete", f"Error deleting: {err.message}")
            raise
        if left.get("kind") == "Pod":  # it has yet to end
            self._note(owner, left)
        self._recorder.normal(owner, "SuccessfulDelete", f"Deleted pod: {metadata['name']}")
        return True

    def _note(self, owner: Obj, pod: Obj) -> None:
        self._consistency.wrote_at(key_of(owner), uid_of(owner), PODS, version_of(pod))


def _is_gone(pod: Obj) -> bool:
    """The patch took the last finalizer off a pod that was being deleted: it is no more.

    Its version in the answer need not be one that a watch ever reports.
    """
    metadata = pod["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )


def namespace_terminating(err: errors.ApiError) -> bool:
    """Nothing can be created here any more: trying again is of no use."""
    causes = err.details.get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
