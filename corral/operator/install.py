"""Installing and removing the operator: server-side apply in order, then waiting for its effect.

An installation can be repeated: an upgrade is one. Removing it leaves definitions and jobs alone
unless they are asked for; then they go first, while the operator is there to clean up after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing

from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import CUSTOMRESOURCEDEFINITIONS, DEPLOYMENTS, NAMESPACES, Resource
from corral.kube.types import Obj
from corral.operator import rbac

__all__ = [
    "FIELD_MANAGER",
    "NotInTime",
    "apply_objects",
    "remove_objects",
    "wait_served",
    "wait_serving",
]

FIELD_MANAGER = "corral-install"
Say = Callable[[str], None]


class NotInTime(Exception):
    """Something did not come about in time; the words say what."""


async def apply_objects(
    client: KubeClient, objects: Iterable[Obj], *, dry_run: bool = False, say: Say = lambda _: None
) -> None:
    """Have the API server hold these objects.

    Raises:
        ApiError: one of them is refused.
    """
    for obj in objects:
        resource = await client.resource_for(obj["apiVersion"], obj["kind"])
        await client.apply(resource, obj, field_manager=FIELD_MANAGER, dry_run=dry_run)
        say(f"{_name(obj)} {'would be ' if dry_run else ''}applied")


async def wait_served(client: KubeClient, definitions: Sequence[str], *, within: float) -> None:
    """Wait until definitions are established.

    Raises:
        NotInTime: they are not.
    """
    for name in definitions:
        await _until(
            client, CUSTOMRESOURCEDEFINITIONS, name, lambda obj: _has(obj, "Established"),
            what=f"the definition {name} is not established", within=within,
        )  # fmt: skip


async def wait_serving(client: KubeClient, namespace: str, *, within: float) -> None:
    """Wait until every replica of the operator is ready.

    Raises:
        NotInTime: they are not.
    """

    def complete(obj: Obj) -> bool:
        status, wanted = obj.get("status") or {}, obj["spec"]["replicas"]
        if status.get("observedGeneration", 0) < obj["metadata"]["generation"]:
            return False
        ready, updated = status.get("readyReplicas", 0), status.get("updatedReplicas", 0)
        return bool(ready >= wanted and updated >= wanted)

    await _until(
        client, DEPLOYMENTS, rbac.NAME, complete, namespace=namespace, within=within,
        what=f"deployment {namespace}/{rbac.NAME} does not serve",
    )  # fmt: skip


async def remove_objects(
    client: KubeClient, objects: Sequence[Obj], *, within: float, say: Say = lambda _: None
) -> None:
    """Delete objects, the last first, and wait until they are gone.

    Definitions are the exception: they go first, with every object of theirs.

    Raises:
        NotInTime: something is still there.
        ApiError: something may not be deleted.
    """
    definitions = [o for o in objects if o["kind"] == CUSTOMRESOURCEDEFINITIONS.kind]
    others = [o for o in reversed(objects) if o["kind"] != CUSTOMRESOURCEDEFINITIONS.kind]
    for obj in definitions:
        await _remove(client, obj, within=within, wait=True, say=say)
    for obj in others:
        is_last = obj["kind"] == NAMESPACES.kind
        await _remove(client, obj, within=within, wait=is_last, say=say)


async def _remove(client: KubeClient, obj: Obj, *, within: float, wait: bool, say: Say) -> None:
    resource = await client.resource_for(obj["apiVersion"], obj["kind"])
    meta = obj["metadata"]
    namespace = meta.get("namespace")
    try:
        await client.delete(resource, meta["name"], namespace=namespace, propagation="Background")
    except NotFound:
        return
    if wait:
        await _until(
            client, resource, meta["name"], None, namespace=namespace, within=within,
            what=f"{_name(obj)} is still there",
        )  # fmt: skip
    say(f"{_name(obj)} deleted")


async def _until(
    client: KubeClient,
    resource: Resource,
    name: str,
    done: Callable[[Obj], bool] | None,
    *,
    what: str,
    within: float,
    namespace: str | None = None,
) -> None:
    """Watch one object until it is as wanted; without ``done``, until it is gone."""
    try:
        async with asyncio.timeout(within):
            while not await _seen(client, resource, name, done, namespace=namespace):
                continue  # the watch ended; the next one begins with the present state
    except TimeoutError:
        raise NotInTime(f"{what} after {within:g} s") from None


async def _seen(
    client: KubeClient,
    resource: Resource,
    name: str,
    done: Callable[[Obj], bool] | None,
    *,
    namespace: str | None,
) -> bool:
    found = await client.list_all(resource, namespace, field_selector=f"metadata.name={name}")
    items = found["items"]
    if not items if done is None else items and done(items[0]):
        return True
    watch = client.watch(
        resource,
        namespace,
        field_selector=f"metadata.name={name}",
        resource_version=found["metadata"]["resourceVersion"],
    )
    async with aclosing(watch) as events:
        async for event in events:
            if done is None and event.type == "DELETED":
                return True
            if done is not None and event.type in ("ADDED", "MODIFIED") and done(event.object):
                return True
    return False


def _has(obj: Obj, condition: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)


def _name(obj: Obj) -> str:
    return f"{obj['kind'].lower()}/{obj['metadata']['name']}"
