"""StatusController: writes the statuses of one kind of job, each change once.

A write goes to the status subresource, is of the difference alone, and is bound to the version that
was read: of two operators that decide at the same time, one is told to look again.
"""

from __future__ import annotations

from corral.kube.client import KubeClient
from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.runtime.children import write_status
from corral.runtime.informers.consistency import ConsistencyStore
from corral.runtime.keys import key_of, uid_of, version_of

__all__ = ["StatusController"]


class StatusController:
    """For all jobs of one operator."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        consistency: ConsistencyStore,
        *,
        field_manager: str,
    ) -> None:
        """``consistency`` is told of every write."""
        self._client = client
        self._resource = resource
        self._consistency = consistency
        self._field_manager = field_manager

    async def write(self, job: Obj, status: Obj) -> Obj:
        """Give the job this status; the job as it is afterwards.

        Raises:
            Conflict: the job has changed since it was read.
            NotFound: it is gone.
        """
        resource = self._resource
        written = await write_status(
            self._client, resource, job, status, field_manager=self._field_manager
        )
        if written is not job:
            self._consistency.wrote_at(key_of(job), uid_of(job), resource, version_of(written))
        return written
