"""Whether the caches have seen what a controller wrote. No I/O.

A reconcile that works on a cache without its own last writes makes the same children twice. So
every write is noted with the version it got, and a reconcile begins only when every cache is at
least that new:

    store.wrote_at(key, uid, PODS, version_of(created))   # after each write
    …
    store.ensure_ready(key)                               # first thing in a reconcile

Only writes that the informer of the resource will see may be noted: one whose selector leaves the
object out moves on with its next bookmark alone. Nothing is noted about deletions; their version
is that of the deletion and not in the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from corral.kube.resources import Resource
from corral.runtime.keys import InvalidVersion, compare_versions

__all__ = ["ConsistencyStore", "NotYetConsistent", "VersionedCache"]


class VersionedCache(Protocol):
    """A cache that knows how new it is; an `Informer`, for example."""

    @property
    def version(self) -> str:
        """The newest version the cache has taken over; empty if it does not know."""


class NotYetConsistent(Exception):
    """A cache is older than our own last write: try again shortly."""

    def __init__(self, resource: Resource, read: str, wrote: str) -> None:
        super().__init__(
            f"read version: {read} is not as new as written version: {wrote} "
            f"for group resource {resource.qualified}"
        )
        self.resource = resource
        self.read = read
        self.wrote = wrote


class ConsistencyStore:
    """The newest write of every owner to every resource."""

    def __init__(self, caches: Mapping[Resource, VersionedCache]) -> None:
        self._caches = {_group_resource(resource): cache for resource, cache in caches.items()}
        # owner → (UID, group resource → (resource, version)); another UID is another owner.
        self._writes: dict[str, tuple[str, dict[str, tuple[Resource, str]]]] = {}

    def wrote_at(self, owner: str, uid: str, resource: Resource, version: str) -> None:
        """For this owner (key and UID) an object of this resource was written."""
        known = self._writes.get(owner)
        if known is None or known[0] != uid:
            known = self._writes[owner] = (uid, {})
        name = _group_resource(resource)
        before = known[1].get(name)
        if before is None or _is_newer(version, before[1]):
            known[1][name] = (resource, version)

    def ensure_ready(self, owner: str) -> None:
        """Return if every cache has seen the writes of this owner.

        Raises:
            NotYetConsistent: one has not.
        """
        known = self._writes.get(owner)
        if known is None:
            return
        for name, (resource, wrote) in known[1].items():
            cache = self._caches.get(name)
            if cache is None or not cache.version:
                continue
            try:
                behind = compare_versions(wrote, cache.version) > 0
            except InvalidVersion:
                continue  # not comparable: waiting for it would be waiting for ever
            if behind:
                raise NotYetConsistent(resource, cache.version, wrote)
        del self._writes[owner]

    def clear(self, owner: str, uid: str = "") -> None:
        """Forget an owner that is gone; with a UID, only if it is that one."""
        known = self._writes.get(owner)
        if known is not None and uid in ("", known[0]):
            del self._writes[owner]


def _group_resource(resource: Resource) -> str:
    return resource.qualified


def _is_newer(version: str, than: str) -> bool:
    try:
        return compare_versions(version, than) > 0
    except InvalidVersion:
        return True
