"""Keeps the objects of a job as they should be, with as few requests as possible.

What is wanted is compared with the caches: an object that is missing is created, one that was
applied with other contents or changed by somebody else is applied again, one that is no longer
wanted is deleted, and otherwise nothing is sent. See `ResourceController` for what that guarantees.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import orjson

from corral.families.trainingjob.caches import Caches
from corral.families.trainingjob.names import APPLIED_ANNOTATION, is_of_job
from corral.families.trainingjob.objects.builders import Child
from corral.families.trainingjob.objects.problems import NameTaken, StillThere
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import PERSISTENTVOLUMECLAIMS, Resource
from corral.kube.types import Obj
from corral.runtime import (
    ChildWriter,
    is_being_deleted,
    is_controlled_by,
    key_of,
    uid_of,
    version_of,
)
from corral.runtime.family.batches import at_once
from corral.runtime.family.comparison import contains

__all__ = ["Upkeep", "stamped"]

_WRITTEN_ONCE: Final = frozenset({PERSISTENTVOLUMECLAIMS})
"""What a claim asks for cannot be changed, and ``spec.checkpoint.storage`` is immutable."""


def stamped(obj: Obj) -> Obj:
    """A copy that carries a digest of its contents."""
    text = orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)
    metadata = dict(obj["metadata"])
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        APPLIED_ANNOTATION: hashlib.sha256(text).hexdigest()[:32],
    }
    return {**obj, "metadata": metadata}


class Upkeep:
    """Of the objects of all jobs, pods excepted."""

    def __init__(
        self, client: KubeClient, writer: ChildWriter, caches: Caches, *, field_manager: str
    ) -> None:
        self._client = client
        self._writer = writer
        self._caches = caches
        self._field_manager = field_manager

    async def keep(self, job: Obj, wanted: Sequence[Child]) -> None:
        """Make what is wanted be there, and nothing else of the job."""
        steps = [child for child in wanted if not self._is_right(job, child)]
        await at_once(lambda child: self._write(job, child), steps)
        await at_once(lambda child: self._writer.delete(*child), self._unwanted(job, wanted))

    def _is_right(self, job: Obj, child: Child) -> bool:
        known = self._cached(child)
        if known is None or not is_controlled_by(known, job) or is_being_deleted(known):
            return False
        return child.resource in _WRITTEN_ONCE or contains(known, stamped(child.obj))

    def _unwanted(self, job: Obj, wanted: Sequence[Child]) -> list[tuple[Resource, Obj]]:
        """Objects under the names that a job uses, which it does not use (any more)."""
        kept = {(child.resource, child.obj["metadata"]["name"]) for child in wanted}
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        found: list[tuple[Resource, Obj]] = []
        for resource in self._caches.children:
            if resource in _WRITTEN_ONCE or (resource, name) in kept:
                continue
            known = self._caches.child(resource, namespace, name)
            if known and is_controlled_by(known, job) and not is_being_deleted(known):
                found.append((resource, known))
        return found

    def _cached(self, child: Child) -> Obj | None:
        metadata = child.obj["metadata"]
        return self._caches.child(child.resource, metadata["namespace"], metadata["name"])

    # --- writing ---------------------------------------------------------------------------------

    async def _write(self, job: Obj, child: Child) -> None:
        known = self._cached(child)
        if known is None:
            await self._create(job, child)
        else:
            self._must_be_ours(job, child.resource, known)
            await self._apply(job, child)

    async def _create(self, job: Obj, child: Child) -> None:
        try:
            await self._writer.create(job, child.resource, stamped(child.obj))
        except errors.AlreadyExists:
            metadata = child.obj["metadata"]
            live = await self._get(child.resource, metadata["namespace"], metadata["name"])
            self._must_be_ours(job, child.resource, live)
            # The cache has yet to see it; whether it is right is a question for the next time.
            self._note(job, child.resource, live)

    async def _get(self, resource: Resource, namespace: str, name: str) -> Obj:
        try:
            return await self._client.get(resource, name, namespace=namespace)
        except errors.NotFound:
            raise StillThere(resource, name) from None  # it went at this very moment

    def _must_be_ours(self, job: Obj, resource: Resource, found: Obj) -> None:
        name = job["metadata"]["name"]
        if is_controlled_by(found, job) and not is_being_deleted(found):
            return
        if is_of_job(found, name):
            raise StillThere(resource, found["metadata"]["name"])
        raise NameTaken(resource, found)

    async def _apply(self, job: Obj, child: Child) -> None:
        metadata = child.obj["metadata"]
        await self._adopt(child.resource, metadata["namespace"], metadata["name"])
        await self._writer.apply(job, child.resource, stamped(child.obj))

    async def _adopt(self, resource: Resource, namespace: str, name: str) -> None:
        """Let apply own the fields that our create set, so that it can also take them away."""
        live = await self._get(resource, namespace, name)
        entries = live["metadata"].get("managedFields") or []
        renamed = [
            {**entry, "operation": "Apply"} if self._is_creation(entry) else entry
            for entry in entries
        ]
        if renamed == entries:
            return
        guard = {"resourceVersion": version_of(live), "managedFields": renamed}
        await self._client.patch(
            resource,
            name,
            namespace=namespace,
            patch={"metadata": guard},
            field_manager=self._field_manager,
        )

    def _is_creation(self, entry: Obj) -> bool:
        return (
            entry.get("manager") == self._field_manager
            and entry.get("operation") == "Update"
            and not entry.get("subresource")
        )

    def _note(self, job: Obj, resource: Resource, written: Obj) -> None:
        self._caches.consistency.wrote_at(key_of(job), uid_of(job), resource, version_of(written))
