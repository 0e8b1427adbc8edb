"""Writing the objects that belong to another one, and a status.

`ChildWriter` makes the owner the controller of every child, writes under one fixed field manager,
and notes each write for `ConsistencyStore`. `write_status` sends the difference only, and nothing
if there is none.
"""

from __future__ import annotations

from typing import Any

from corral.kube.client import KubeClient, Propagation
from corral.kube.errors import Forbidden, NotFound
from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.runtime.informers.consistency import ConsistencyStore
from corral.runtime.keys import key_of, uid_of, version_of
from corral.runtime.owners import is_controlled_by, set_controller

__all__ = ["ChildWriter", "NameTaken", "merge_diff", "write_status"]


class NameTaken(Forbidden):
    """An object has the name that a child would have, and is not its owner's: it is left alone."""

    def __init__(self, owner: Obj, resource: Resource, name: str) -> None:
        whose = f"{owner.get('kind', 'object')} {owner['metadata']['name']}"
        super().__init__(
            f'{resource.kind} "{name}" exists and is not controlled by {whose}: '
            "delete it, or choose another name"
        )


class ChildWriter:
    """Writes for one kind of owner."""

    def __init__(
        self,
        client: KubeClient,
        *,
        field_manager: str,
        consistency: ConsistencyStore | None = None,
    ) -> None:
        self._client = client
        self._field_manager = field_manager
        self._consistency = consistency

    async def apply(self, owner: Obj, resource: Resource, child: Obj) -> Obj:
        """Server-side apply: the child exists and has these fields afterwards.

        The owner becomes its controller (``child`` is changed for that); fields of other managers
        that are not named stay as they are. It takes over whatever has the name: see `put`.

        Raises:
            OwnershipError: the child says that it belongs to another owner or namespace.
        """
        set_controller(child, owner)
        written = await self._client.apply(
            resource, child, field_manager=self._field_manager, force=True
        )
        self._note(owner, resource, written)
        return written

    async def put(self, owner: Obj, resource: Resource, child: Obj) -> Obj:
        """Apply a child that does not exist, or that the owner controls already.

        Raises:
            NameTaken: there is one of its name that belongs to somebody else, or to nobody.
        """
        metadata = child["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace")
        try:
            live = await self._client.get(
                resource, name, namespace=namespace or owner["metadata"].get("namespace")
            )
        except NotFound:
            return await self.apply(owner, resource, child)
        if not is_controlled_by(live, owner):
            raise NameTaken(owner, resource, name)
        return await self.apply(owner, resource, child)

    async def create(self, owner: Obj, resource: Resource, child: Obj) -> Obj:
        """Create the child, controlled by the owner; ``generateName`` works.

        Raises:
            AlreadyExists: it is there; another write of ours has not reached the cache, or it
                belongs to somebody else.
        """
        set_controller(child, owner)
        written = await self._client.create(resource, child, field_manager=self._field_manager)
        self._note(owner, resource, written)
        return written

    async def delete(
        self,
        resource: Resource,
        child: Obj,
        *,
        propagation: Propagation | None = "Background",
        grace_seconds: int | None = None,
    ) -> bool:
        """Delete this very child (by UID); whether it was still there."""
        metadata = child["metadata"]
        try:
            await self._client.delete(
                resource,
                metadata["name"],
                namespace=metadata.get("namespace"),
                uid=uid_of(child),
                propagation=propagation,
                grace_seconds=grace_seconds,
            )
        except NotFound:
            return False
        return True

    def _note(self, owner: Obj, resource: Resource, written: Obj) -> None:
        if self._consistency is not None:
            self._consistency.wrote_at(key_of(owner), uid_of(owner), resource, version_of(written))


def merge_diff(old: Any, new: Any) -> Any:
    """The JSON merge patch that makes ``new`` of ``old``; ``{}`` if they are equal.

    Lists are replaced whole, and a null cannot be set: both are limits of merge patches.
    """
    if not isinstance(old, dict) or not isinstance(new, dict):
        return {} if old == new else new
    patch: Obj = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif old[key] != value:
            nested = isinstance(old[key], dict) and isinstance(value, dict)
            patch[key] = merge_diff(old[key], value) if nested else value
    return patch


async def write_status(
    client: KubeClient,
    resource: Resource,
    old: Obj,
    status: Obj,
    *,
    guarded: bool = True,
    field_manager: str = "",
) -> Obj:
    """Write the new status if it differs; the object as it is afterwards.

    ``guarded``: only if the object has not changed since ``old`` was read.

    Raises:
        Conflict: it has.
    """
    patch = merge_diff(old.get("status") or {}, status)
    if not patch:
        return old
    body: Obj = {"status": patch}
    if guarded:
        body["metadata"] = {"resourceVersion": version_of(old)}
    return await client.patch(
        resource,
        old["metadata"]["name"],
        namespace=old["metadata"].get("namespace"),
        patch=body,
        subresource="status",
        field_manager=field_manager,
    )
