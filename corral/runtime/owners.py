"""Owner references: who made an object, and whom to wake when it changes. No I/O.

An object has at most one controller; owners are in the namespace of what they own, or have none.
"""

from __future__ import annotations

from corral.kube.resources import split_api_version
from corral.kube.types import Obj
from corral.runtime.keys import uid_of

__all__ = [
    "CONTROLLER_UID_INDEX",
    "UID_INDEX",
    "AlreadyOwned",
    "OwnershipError",
    "controller_of",
    "index_by_controller_uid",
    "index_by_uid",
    "is_controlled_by",
    "owner_reference",
    "refers_to",
    "set_controller",
    "set_owner",
]

UID_INDEX = "uid"
CONTROLLER_UID_INDEX = "controller-uid"


class OwnershipError(ValueError):
    """The owner reference would not be allowed."""


class AlreadyOwned(OwnershipError):
    """Another controller has the object already."""


def owner_reference(owner: Obj, *, controller: bool = True) -> Obj:
    """A reference to an owner that was read from the API."""
    reference: Obj = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    if controller:
        reference |= {"controller": True, "blockOwnerDeletion": True}
    return reference


def controller_of(obj: Obj) -> Obj | None:
    """The reference to the controller of an object."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return None


def is_controlled_by(obj: Obj, owner: Obj) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference.get("uid") == uid_of(owner)


def set_controller(obj: Obj, owner: Obj) -> None:
    """Make the owner the controller of an object, which is changed in place.

    Raises:
        AlreadyOwned: the object has another controller.
        OwnershipError: the owner is in another namespace.
    """
    present = controller_of(obj)
    if present is not None and present.get("uid") != uid_of(owner):
        name = obj["metadata"].get("name") or obj["metadata"].get("generateName", "")
        raise AlreadyOwned(
            f"{name} is controlled by {present.get('kind')} {present.get('name')} already"
        )
    _put_reference(obj, owner, owner_reference(owner))


def set_owner(obj: Obj, owner: Obj) -> None:
    """Make the owner one that keeps the object alive without controlling it; in place.

    Raises:
        OwnershipError: the owner is in another namespace.
    """
    _put_reference(obj, owner, owner_reference(owner, controller=False))


def _put_reference(obj: Obj, owner: Obj, reference: Obj) -> None:
    namespace = owner["metadata"].get("namespace")
    metadata = obj.setdefault("metadata", {})
    if namespace and metadata.setdefault("namespace", namespace) != namespace:
        raise OwnershipError(
            f"an owner in namespace {namespace} cannot own an object in {metadata['namespace']}"
        )
    kept = [
        known
        for known in metadata.get("ownerReferences") or ()
        if known.get("uid") != reference["uid"]
    ]
    metadata["ownerReferences"] = [*kept, reference]


def refers_to(reference: Obj, group: str, kind: str) -> bool:
    """Whether a reference is to this kind, in whatever version."""
    return (
        reference.get("kind") == kind
        and split_api_version(reference.get("apiVersion", ""))[0] == group
    )


def index_by_uid(obj: Obj) -> tuple[str, ...]:
    """For `Store.add_index`: find an object by its UID."""
    return (uid_of(obj),)


def index_by_controller_uid(obj: Obj) -> tuple[str, ...]:
    """For `Store.add_index`: find the objects that a controller made."""
    reference = controller_of(obj)
    return (str(reference.get("uid", "")),) if reference is not None else ()
