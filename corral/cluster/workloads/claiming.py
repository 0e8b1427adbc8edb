"""Keeping true which children belong to which owner: lookup, wake-up, adoption, release.

Everything is found through indexes: the children of an owner by its uid, orphans by namespace,
and the owners that would take an orphan by one label of their selector. A child that changes
hands wakes both owners; an orphan wakes those who would adopt it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from corral.cluster.workloads.pods import Claims, controller_of, is_deleting, uid
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.selectors import Selector
from corral.kube.types import Obj
from corral.runtime import (
    CONTROLLER_UID_INDEX,
    UID_INDEX,
    Change,
    ConsistencyStore,
    IndexFunction,
    Informer,
    NotYetConsistent,
    index_by_controller_uid,
    index_by_uid,
    key_of,
    version_of,
)

__all__ = ["Family", "is_claimed", "object_selector", "plain_selector"]

ORPHAN_INDEX: Final = "orphans-by-namespace"
SELECTOR_INDEX: Final = "selector-label"

SelectorOf = Callable[[Obj], Mapping[str, Any] | None]


def object_selector(owner: Obj) -> Mapping[str, Any] | None:
    """The selector of most owners, as it is."""
    found: Mapping[str, Any] | None = owner["spec"].get("selector")
    return found


def plain_selector(owner: Obj) -> Mapping[str, Any] | None:
    """The selector of a ReplicationController, which is a map of labels."""
    labels = owner["spec"].get("selector")
    return {"matchLabels": labels} if labels else None


def index_orphans(obj: Obj) -> tuple[str, ...]:
    """For `Store.add_index`: what nobody controls and is not going, by namespace."""
    if is_deleting(obj) or controller_of(obj) is not None:
        return ()
    return (obj["metadata"].get("namespace") or "",)


def _selector_value(owner: Obj, selector: Mapping[str, Any] | None) -> tuple[str, ...]:
    namespace = owner["metadata"].get("namespace") or ""
    labels = (selector or {}).get("matchLabels") or {}
    if not labels:
        return (f"{namespace}/",)
    key = min(labels)
    return (f"{namespace}/{key}={labels[key]}",)


def _index_object_selector(owner: Obj) -> tuple[str, ...]:
    return _selector_value(owner, object_selector(owner))


def _index_plain_selector(owner: Obj) -> tuple[str, ...]:
    return _selector_value(owner, plain_selector(owner))


_SELECTOR_INDEXES: Final[dict[SelectorOf, IndexFunction]] = {
    object_selector: _index_object_selector,
    plain_selector: _index_plain_selector,
}


def is_claimed(owner: Obj, obj: Obj, selector: Selector) -> bool:
    """Controlled by the owner and selected by it."""
    reference = controller_of(obj)
    if reference is None or reference.get("uid") != uid(owner):
        return False
    return selector.matches(obj["metadata"].get("labels") or {})


class Family:
    """The owners of one kind and their children of one kind."""

    def __init__(
        self,
        client: KubeClient,
        owners: Informer,
        children: Informer,
        *,
        consistency: ConsistencyStore,
        field_manager: str,
        selector_of: SelectorOf = object_selector,
    ) -> None:
        self._client = client
        self._owners, self._children = owners, children
        self._consistency = consistency
        self._field_manager = field_manager
        self._selector_of = selector_of
        owners.add_index(UID_INDEX, index_by_uid)
        owners.add_index(SELECTOR_INDEX, _SELECTOR_INDEXES[selector_of])
        children.add_index(CONTROLLER_UID_INDEX, index_by_controller_uid)
        children.add_index(ORPHAN_INDEX, index_orphans)

    # --- lookup ----------------------------------------------------------------------------------

    def children_of(self, owner: Obj) -> list[Obj]:
        """What the owner controls."""
        return self._children.store.by_index(CONTROLLER_UID_INDEX, uid(owner))

    def candidates(self, owner: Obj) -> list[Obj]:
        """What the owner controls, and what it might adopt."""
        namespace = owner["metadata"].get("namespace") or ""
        orphans = self._children.store.by_index(ORPHAN_INDEX, namespace)
        return [*self.children_of(owner), *orphans]

    def owner_of(self, child: Obj) -> Obj | None:
        """The known controller of a child."""
        reference = controller_of(child)
        if reference is None or reference.get("kind") != self._owners.scope.resource.kind:
            return None
        found = self._owners.store.by_index(UID_INDEX, str(reference.get("uid", "")))
        return found[0] if found else None

    def owners_of(self, change: Change) -> list[str]:
        """A mapper: whom to wake when a child changes."""
        states = [state for state in (change.old, change.new) if state is not None]
        owners = [owner for owner in map(self.owner_of, states) if owner is not None]
        if change.new is not None and _is_new_orphan(change.old, change.new):
            owners += self._takers(change.new)
        return list(dict.fromkeys(map(key_of, owners)))

    def _takers(self, orphan: Obj) -> list[Obj]:
        """The owners whose selector matches."""
        meta = orphan["metadata"]
        namespace, labels = meta.get("namespace") or "", meta.get("labels") or {}
        values = [f"{namespace}/", *(f"{namespace}/{key}={labels[key]}" for key in labels)]
        store = self._owners.store
        return [
            owner
            for value in values
            for owner in store.by_index(SELECTOR_INDEX, value)
            if Selector.from_object(self._selector_of(owner)).matches(labels)
        ]

    # --- changing hands --------------------------------------------------------------------------

    async def settle(self, owner: Obj, claims: Claims) -> list[Obj]:
        """Adopt and release; what the owner controls afterwards.

        Raises:
            NotYetConsistent: there is something to adopt, but the owner is gone or going.
            ApiError: a write was refused.
        """
        if not claims.adopt and not claims.release:
            return list(claims.owned)
        if claims.adopt:
            await self._check_owner(owner)
        adopted = await asyncio.gather(*(self._adopt(owner, *pair) for pair in claims.adopt))
        await asyncio.gather(*(self._release(owner, *pair) for pair in claims.release))
        return [*claims.owned, *(child for child in adopted if child is not None)]

    async def _check_owner(self, owner: Obj) -> None:
        """The garbage collector must not be raced: ask the server, not the cache."""
        resource, meta = self._owners.scope.resource, owner["metadata"]
        fresh = await self._client.get(resource, meta["name"], namespace=meta.get("namespace"))
        if uid(fresh) != uid(owner) or is_deleting(fresh):
            raise NotYetConsistent(resource, version_of(owner), version_of(fresh))

    async def _adopt(self, owner: Obj, child: Obj, patch: Obj) -> Obj | None:
        try:
            return await self._patch(owner, child, patch)
        except errors.NotFound:
            return None

    async def _release(self, owner: Obj, child: Obj, patch: Obj) -> None:
        try:
            await self._patch(owner, child, patch)
        except (errors.NotFound, errors.Invalid):
            return  # gone, or another of the same name, or released by somebody else

    async def _patch(self, owner: Obj, child: Obj, patch: Obj) -> Obj:
        resource, meta = self._children.scope.resource, child["metadata"]
        written = await self._client.patch(
            resource,
            meta["name"],
            namespace=meta.get("namespace"),
            patch=patch,
            kind="strategic",
            field_manager=self._field_manager,
        )
        self._consistency.wrote_at(key_of(owner), uid(owner), resource, version_of(written))
        return written


def _is_new_orphan(old: Obj | None, new: Obj) -> bool:
    """Nobody controls it, and that or its labels are news."""
    if is_deleting(new) or controller_of(new) is not None:
        return False
    if old is None or controller_of(old) is not None:
        return True
    return bool(old["metadata"].get("labels") != new["metadata"].get("labels"))
