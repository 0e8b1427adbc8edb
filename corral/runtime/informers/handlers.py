"""From a change to the keys that must be reconciled, and which changes matter. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.runtime.informers.informer import Change, Informer
from corral.runtime.keys import join_key, key_of
from corral.runtime.owners import UID_INDEX, controller_of, index_by_uid, refers_to

__all__ = [
    "Mapper",
    "all_of",
    "any_of",
    "generation_changed",
    "ignore_creates",
    "mapped",
    "metadata_changed",
    "owner_by_uid",
    "owner_of",
    "same_object",
    "spec_changed",
    "spec_or_metadata_changed",
]

Mapper = Callable[[Change], Iterable[str]]
Predicate = Callable[[Change], bool]


def same_object(change: Change) -> list[str]:
    """Reconcile the object itself."""
    return [change.key]


def mapped(function: Callable[[Obj], Iterable[str]]) -> Mapper:
    """Reconcile what a function makes of the old and of the new state of an object."""

    def keys(change: Change) -> list[str]:
        states = [state for state in (change.old, change.new) if state is not None]
        return list(dict.fromkeys(key for state in states for key in function(state)))

    return keys


def owner_of(owners: Resource) -> Mapper:
    """Reconcile the controller of an object (the old one too, if it changed hands), by name."""

    def keys(obj: Obj) -> list[str]:
        reference = controller_of(obj)
        if reference is None or not refers_to(reference, owners.group, owners.kind):
            return []
        namespace = obj["metadata"].get("namespace") if owners.namespaced else None
        return [join_key(namespace, reference["name"])]

    return mapped(keys)


def owner_by_uid(owners: Informer) -> Mapper:
    """Reconcile the controller of an object, found by UID among the owners.

    Unlike `owner_of` it wakes nobody for a reference to an owner of the same name that is gone. An
    owner that is not known yet is reconciled when it comes.
    """
    owners.add_index(UID_INDEX, index_by_uid)
    resource = owners.scope.resource

    def keys(obj: Obj) -> list[str]:
        reference = controller_of(obj)
        if reference is None or not refers_to(reference, resource.group, resource.kind):
            return []
        return [key_of(owner) for owner in owners.store.by_index(UID_INDEX, reference["uid"])]

    return mapped(keys)


# --- which changes matter ------------------------------------------------------------------------


def generation_changed(change: Change) -> bool:
    """Not for updates that changed neither the spec nor the deletion: status writes, mostly."""
    if change.old is None or change.new is None:
        return True
    old, new = change.old["metadata"], change.new["metadata"]
    return bool(
        old.get("generation") != new.get("generation")
        or old.get("deletionTimestamp") != new.get("deletionTimestamp")
    )


def metadata_changed(change: Change) -> bool:
    """For updates: labels, annotations, finalizers or owners changed."""
    if change.old is None or change.new is None:
        return True
    fields = ("labels", "annotations", "finalizers", "ownerReferences")
    old, new = change.old["metadata"], change.new["metadata"]
    return any(old.get(field) != new.get(field) for field in fields)


def spec_changed(change: Change) -> bool:
    """For what a controller looks after: its spec or deletion changed, or everything is due.

    Status writes, labels and annotations wake nobody.
    """
    return change.is_initial or generation_changed(change)


def spec_or_metadata_changed(change: Change) -> bool:
    """`spec_changed`, or labels, annotations, finalizers or owners did."""
    return spec_changed(change) or metadata_changed(change)


def ignore_creates(change: Change) -> bool:
    """For children: not for what a controller has just created itself."""
    return change.is_initial or change.type != "added"


def any_of(*predicates: Predicate) -> Predicate:
    return lambda change: any(predicate(change) for predicate in predicates)


def all_of(*predicates: Predicate) -> Predicate:
    return lambda change: all(predicate(change) for predicate in predicates)
