"""Writing planned EndpointSlices, and telling our own writes from those of others.

A slice of which the deletion was accepted counts as gone at once, before the cache has heard of it;
creations and updates are noted for ``ConsistencyStore``. Together a plan is never made from a cache
that lacks our own last writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from corral.cluster.workloads.endpoints.slices import MANAGED_BY, SERVICE_NAME, SlicePlan
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import ENDPOINTSLICES
from corral.kube.types import Obj
from corral.runtime import (
    Change,
    ConsistencyStore,
    Informer,
    is_being_deleted,
    join_key,
    key_of,
    uid_of,
    version_of,
)

__all__ = ["SliceWriter", "namespace_terminating"]

_BY_SERVICE: Final = "endpoints/service"


def _by_service(one: Obj) -> tuple[str, ...]:
    meta = one["metadata"]
    labels = meta.get("labels") or {}
    name = labels.get(SERVICE_NAME)
    if not name or not labels.get(MANAGED_BY):
        return ()
    return (f"{labels[MANAGED_BY]}/{meta.get('namespace', '')}/{name}",)


class SliceWriter:
    """The slices of one controller."""

    def __init__(
        self,
        client: KubeClient,
        slices: Informer,
        consistency: ConsistencyStore,
        *,
        controller: str,
        field_manager: str,
        on_foreign: Callable[[str], None],
    ) -> None:
        """``on_foreign`` is told the service of every slice that somebody else changed."""
        self._client = client
        self._store = slices.store
        self._consistency = consistency
        self._controller = controller
        self._field_manager = field_manager
        self._deleted: set[str] = set()
        """UIDs of slices whose deletion was accepted and is not in the cache yet."""
        self._written: dict[str, str] = {}
        """Key of a slice → the version of our last write of it."""
        self._on_foreign = on_foreign
        slices.add_index(_BY_SERVICE, _by_service)
        slices.add_handler(self._on_change)

    def slices_of(self, key: str) -> list[Obj]:
        """The slices of a service (by its key) that exist and will stay, unless we delete them."""
        return [
            one
            for one in self._store.by_index(_BY_SERVICE, f"{self._controller}/{key}")
            if uid_of(one) not in self._deleted and not is_being_deleted(one)
        ]

    def _on_change(self, change: Change) -> None:
        if not change.is_initial:
            for key in self._touched(change):
                self._on_foreign(key)
        if change.new is None:
            self._deleted.discard(uid_of(change.object))
            self._written.pop(change.key, None)

    def _touched(self, change: Change) -> set[str]:
        """The services for which a change of a slice matters; none for our own writes."""
        if change.new is None and uid_of(change.object) in self._deleted:
            return set()
        if change.new and self._written.get(change.key) == version_of(change.new):
            return set()
        return {
            join_key(one["metadata"].get("namespace", ""), labels[SERVICE_NAME])
            for one in (change.old, change.new)
            if one is not None
            and (labels := one["metadata"].get("labels") or {}).get(MANAGED_BY) == self._controller
            and labels.get(SERVICE_NAME)
        }

    async def write(self, owner: Obj, plan: SlicePlan) -> None:
        """Carry out a plan for a service (or the Endpoints that are mirrored).

        Raises:
            ApiError: the server refused one; the rest comes with the next try.
        """
        for one in plan.create:
            try:
                made = await self._client.create(
                    ENDPOINTSLICES, one, field_manager=self._field_manager
                )
            except errors.Forbidden as err:
                if namespace_terminating(err):
                    return  # the namespace takes everything with it
                raise
            self._note(owner, made)
        for one in plan.update:
            self._note(
                owner,
                await self._client.replace(ENDPOINTSLICES, one, field_manager=self._field_manager),
            )
        for one in plan.delete:
            await self.delete(one)

    async def delete(self, one: Obj) -> None:
        """Delete this very slice; it may be gone already."""
        meta = one["metadata"]
        uid = uid_of(one)
        self._deleted.add(uid)
        try:
            await self._client.delete(
                ENDPOINTSLICES, meta["name"], namespace=meta.get("namespace"), uid=uid
            )
        except (errors.NotFound, errors.Conflict):
            if key_of(one) not in self._store:
                self._deleted.discard(uid)
        except BaseException:
            self._deleted.discard(uid)
            raise

    def _note(self, owner: Obj, written: Obj) -> None:
        self._written[key_of(written)] = version_of(written)
        self._consistency.wrote_at(
            key_of(owner), uid_of(owner), ENDPOINTSLICES, version_of(written)
        )


def namespace_terminating(err: errors.ApiError) -> bool:
    """Whether a creation was refused because the namespace is going."""
    causes = err.details.get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
