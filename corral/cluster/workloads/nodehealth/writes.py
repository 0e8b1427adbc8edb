"""What node health writes, each write bound to what it was decided on.

A node that changed meanwhile is read again and decided about again; what is gone needs no write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from corral.kube.client import KubeClient
from corral.kube.errors import Conflict, NotFound
from corral.kube.resources import NODES, PODS
from corral.kube.types import Obj
from corral.runtime import version_of

__all__ = ["Writes", "at_most"]

T = TypeVar("T")
TRIES: Final = 5


class Writes:
    """Writes about nodes and their pods, under one field manager."""

    def __init__(self, client: KubeClient, *, field_manager: str) -> None:
        self._client = client
        self._field_manager = field_manager

    async def taints(self, node: Obj, decide: Callable[[Obj], list[Obj] | None]) -> bool:
        """Give a node the taints that ``decide`` makes of it; whether there was something to do.

        Raises:
            Conflict: it changed faster than we could write.
        """
        name = node["metadata"]["name"]
        for attempt in range(1, TRIES + 1):
            taints = decide(node)
            if taints is None:
                return False
            try:
                await self.node(node, taints=taints)
                return True
            except NotFound:
                return False
            except Conflict:
                if attempt == TRIES:
                    raise
            try:
                node = await self._client.get(NODES, name)
            except NotFound:
                return False
        return False

    async def node(
        self, node: Obj, *, taints: list[Obj] | None = None, labels: dict[str, str] | None = None
    ) -> None:
        """Write taints and labels in one go. Raises Conflict when the node has changed."""
        patch: Obj = {"metadata": {"resourceVersion": version_of(node)}}
        if labels:
            patch["metadata"]["labels"] = labels
        if taints is not None:
            patch["spec"] = {"taints": taints or None}
        name = node["metadata"]["name"]
        await self._client.patch(NODES, name, patch=patch, field_manager=self._field_manager)

    async def node_status(self, node: Obj, patch: Obj) -> Obj:
        """Raises Conflict when the node has changed, NotFound when it is gone."""
        return await self._client.patch(
            NODES,
            node["metadata"]["name"],
            patch=patch,
            kind="strategic",
            subresource="status",
            field_manager=self._field_manager,
        )

    async def pod_status(self, pod: Obj, patch: Obj) -> bool:
        """Whether this very pod was still there."""
        metadata = pod["metadata"]
        try:
            await self._client.patch(
                PODS,
                metadata["name"],
                namespace=metadata["namespace"],
                patch=patch,
                kind="strategic",
                subresource="status",
                field_manager=self._field_manager,
            )
        except (NotFound, Conflict):
            return False  # gone, or another one of this name
        return True

    async def delete_pod(self, pod: Obj, *, grace_seconds: int | None = None) -> bool:
        """Delete this very pod; whether it was still there."""
        metadata = pod["metadata"]
        try:
            await self._client.delete(
                PODS,
                metadata["name"],
                namespace=metadata["namespace"],
                uid=metadata["uid"],
                grace_seconds=grace_seconds,
            )
        except (NotFound, Conflict):
            return False
        return True


async def at_most(limit: int, works: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """Do all of this, ``limit`` at a time; raises what the first failure raised, after the rest."""
    gate = asyncio.Semaphore(limit)

    async def one(work: Callable[[], Awaitable[T]]) -> T:
        async with gate:
            return await work()

    done = await asyncio.gather(*(one(work) for work in works), return_exceptions=True)
    results: list[T] = []
    for result in done:
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results
