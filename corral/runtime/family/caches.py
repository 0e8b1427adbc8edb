"""Caches: what a family knows of the cluster without asking it, made of its declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.runtime.family.declaration import Family, Owned
from corral.runtime.informers.consistency import ConsistencyStore
from corral.runtime.informers.informer import Informer
from corral.runtime.keys import join_key, key_of, uid_of
from corral.runtime.manager import Manager
from corral.runtime.owners import (
    CONTROLLER_UID_INDEX,
    index_by_controller_uid,
    is_controlled_by,
)

__all__ = ["Caches"]


class Caches:
    """The informers, shared with everybody who asks the manager for the same.

    Objects in them are shared: copy before a change.
    """

    def __init__(self, manager: Manager, family: Family[Any, Any]) -> None:
        self.resource = family.kind.resource()
        self.objects = manager.informer(self.resource)
        self._informers: dict[Resource, Informer] = {self.resource: self.objects}
        for owned in family.owns:
            self._informers[owned.resource] = _owned_informer(manager, owned)
        for watched in family.watches:
            if watched.resource not in self._informers:
                self._informers[watched.resource] = manager.informer(watched.resource)
        own = {owned.resource: self._informers[owned.resource] for owned in family.owns}
        self.consistency = ConsistencyStore({self.resource: self.objects, **own})
        self._indexes = {
            owned.resource: _index_of(owned.keys) for owned in family.owns if owned.keys
        }

    def informer(self, resource: Resource) -> Informer:
        """Of an owned or watched kind, or of the family's own."""
        return self._informers[resource]

    def get(self, resource: Resource, namespace: str, name: str) -> Obj | None:
        """An object by name, stamped with its kind."""
        found = self._informers[resource].store.get(join_key(namespace, name))
        return resource.stamp(found) if found is not None else None

    def neighbours(self, resource: Resource, obj: Obj) -> Iterator[Obj]:
        """All objects of a kind in the namespace of an object."""
        for found in self._informers[resource].store.objects(obj["metadata"]["namespace"]):
            yield resource.stamp(found)

    def children(self, resource: Resource, owner: Obj) -> list[Obj]:
        """The owned objects that this very owner controls, by name."""
        found = self._informers[resource].store.by_index(CONTROLLER_UID_INDEX, uid_of(owner))
        return sorted(map(resource.stamp, found), key=lambda obj: str(obj["metadata"]["name"]))

    def child(self, resource: Resource, owner: Obj, name: str) -> Obj | None:
        """One of them; None where there is none, or it is somebody else's."""
        found = self.get(resource, owner["metadata"]["namespace"], name)
        return found if found is not None and is_controlled_by(found, owner) else None

    def labelled(self, resource: Resource, owner: Obj) -> list[Obj]:
        """The owned objects whose labels say that they are of the owner (see `Owned.keys`).

        Such are pods of a child: they are controlled by that and not by the owner itself.
        """
        index = self._indexes[resource]
        return self._informers[resource].store.by_index(index, key_of(owner))


def _owned_informer(manager: Manager, owned: Owned) -> Informer:
    informer = manager.informer(owned.resource, label_selector=owned.label)
    informer.add_index(CONTROLLER_UID_INDEX, index_by_controller_uid)
    if owned.keys is not None:
        informer.add_index(_index_of(owned.keys), owned.keys)
    return informer


def _index_of(keys: Callable[[Obj], Iterable[str]]) -> str:
    """The name of the index of a function: informers are shared, so it must be the same one's."""
    return f"{keys.__module__}.{keys.__qualname__}"
