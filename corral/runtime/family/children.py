"""Children: deletes, applies and creates what decisions name."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from typing import Any, Final

import orjson

from corral.kube.client import KubeClient
from corral.kube.errors import AlreadyExists, Conflict
from corral.kube.types import Obj
from corral.runtime.children import ChildWriter, NameTaken
from corral.runtime.family.caches import Caches
from corral.runtime.family.comparison import contains
from corral.runtime.family.decision import Child, Deletion
from corral.runtime.family.declaration import Family
from corral.runtime.finalizers import is_being_deleted
from corral.runtime.informers.consistency import NotYetConsistent
from corral.runtime.keys import version_of
from corral.runtime.owners import is_controlled_by

__all__ = ["Children"]

logger = logging.getLogger(__name__)


class Children:
    """Of all objects of one family."""

    def __init__(
        self,
        client: KubeClient,
        family: Family[Any, Any],
        caches: Caches,
        writer: ChildWriter,
    ) -> None:
        self._client = client
        self._family = family
        self._caches = caches
        self._writer = writer
        self._cached: Final = frozenset(owned.resource for owned in family.owns)

    async def delete(self, deletions: Iterable[Deletion]) -> None:
        """Delete these very objects; one that is gone, or was made anew, is left alone."""
        for deletion in deletions:
            try:
                await self._writer.delete(
                    deletion.resource,
                    deletion.obj,
                    propagation=deletion.propagation,
                    grace_seconds=deletion.grace_seconds,
                )
            except Conflict:
                name = deletion.obj["metadata"]["name"]
                logger.debug("%s %s is another by now", deletion.resource.kind, name)

    async def apply(self, owner: Obj, child: Child, observed: Any, applied: dict[str, str]) -> None:
        """Apply a child, unless this process has applied the same and it is still like that.

        ``applied`` is kept by owner. What is not in a cache is applied when it should change.

        Raises:
            NameTaken: there is one of its name that belongs to somebody else.
        """
        manifest = self._family.build(child, observed)
        digest = hashlib.sha256(orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS)).hexdigest()
        key = f"{child.resource.qualified}/{child.name}"
        if applied.get(key) == digest and self._is_there(owner, child, manifest):
            return
        await self._writer.put(owner, child.resource, manifest)
        applied[key] = digest

    def _is_there(self, owner: Obj, child: Child, manifest: Obj) -> bool:
        if child.resource not in self._cached:
            return True
        found = self._caches.child(child.resource, owner, child.name)
        return found is not None and contains(found, manifest)

    async def create(self, owner: Obj, child: Child, observed: Any) -> None:
        """Create a child.

        Raises:
            NotYetConsistent: it is there and not in the cache yet; or another one is going.
            NameTaken: there is one of its name that belongs to somebody else.
        """
        manifest = self._family.build(child, observed)
        try:
            await self._writer.create(owner, child.resource, manifest)
        except AlreadyExists:
            await self._explain(owner, child)

    async def _explain(self, owner: Obj, child: Child) -> None:
        live = await self._client.get(
            child.resource, child.name, namespace=owner["metadata"].get("namespace")
        )
        if not is_controlled_by(live, owner) and not is_being_deleted(live):
            raise NameTaken(owner, child.resource, child.name) from None
        raise NotYetConsistent(child.resource, "unknown", version_of(live)) from None
