"""Finalizers: what has to be cleaned up before an object may go.

Add one before the first side effect outside the cluster and return; the write brings the object
back to the reconciler. When ``deletionTimestamp`` is set, clean up (so that doing it twice does no
harm) and remove it. Both writes are bound to the version that was read: `Conflict` means that the
object has changed and the reconcile should be tried again.
"""

from __future__ import annotations

from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.runtime.keys import version_of

__all__ = ["add_finalizer", "has_finalizer", "is_being_deleted", "remove_finalizer"]


def has_finalizer(obj: Obj, finalizer: str) -> bool:
    return finalizer in (obj["metadata"].get("finalizers") or ())


def is_being_deleted(obj: Obj) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


async def add_finalizer(
    client: KubeClient, resource: Resource, obj: Obj, *, finalizer: str, field_manager: str = ""
) -> Obj:
    """The object with the finalizer; writes only if it is not there.

    Raises:
        Conflict: the object is not the newest.
    """
    if has_finalizer(obj, finalizer):
        return obj
    wanted = [*(obj["metadata"].get("finalizers") or ()), finalizer]
    return await _write(client, resource, obj, finalizers=wanted, field_manager=field_manager)


async def remove_finalizer(
    client: KubeClient, resource: Resource, obj: Obj, *, finalizer: str, field_manager: str = ""
) -> Obj | None:
    """The object without the finalizer; ``None`` if it does not exist any more.

    Raises:
        Conflict: the object is not the newest.
    """
    if not has_finalizer(obj, finalizer):
        return obj
    wanted = [known for known in obj["metadata"]["finalizers"] if known != finalizer]
    try:
        return await _write(client, resource, obj, finalizers=wanted, field_manager=field_manager)
    except NotFound:
        return None


async def _write(
    client: KubeClient, resource: Resource, obj: Obj, *, finalizers: list[str], field_manager: str
) -> Obj:
    metadata = {"resourceVersion": version_of(obj), "finalizers": finalizers}
    return await client.patch(
        resource,
        obj["metadata"]["name"],
        namespace=obj["metadata"].get("namespace"),
        patch={"metadata": metadata},
        field_manager=field_manager,
    )
