"""`Access`: what the SDK asks of whatever it talks to, and how it does so on a cluster.

There are two: `ClusterAccess` (any Kubernetes, ours included, through `corral.client`) and
`corral.sdk.gateway.GatewayAccess` (REST). Both answer alike and raise the errors of
`corral.client.errors`; one suite of cases holds them to it.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from corral.client.explain.explanation import Explanation
from corral.client.jobs import Jobs
from corral.client.kinds import JobKind
from corral.client.queries import ListQuery, Page
from corral.client.translate import Asked, telling
from corral.client.watching import Change
from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig
from corral.kube.resources import CONFIGMAPS
from corral.kube.types import Obj
from corral.sdk.programs.shipping import LIMIT, Shipped, ship, ship_archive

if TYPE_CHECKING:
    from corral.client.logs.query import LogChunk, LogQuery

__all__ = ["Access", "ClusterAccess"]


class Access(Protocol):
    """Jobs of one cluster, as one user sees them."""

    @property
    def namespace(self) -> str:
        """Where things are unless it is said."""

    @property
    def where(self) -> str:
        """What it talks to, for people."""

    async def get(self, kind: JobKind, namespace: str, name: str) -> Obj: ...
    async def list(self, kind: JobKind, namespace: str | None, query: ListQuery) -> Page: ...
    async def events(self, kind: JobKind, namespace: str, name: str) -> builtins.list[Obj]: ...
    async def explain(self, kind: JobKind, namespace: str, name: str) -> Explanation: ...
    async def metrics(self, kind: JobKind, namespace: str, name: str) -> Obj: ...
    async def create(
        self, kind: JobKind, namespace: str, obj: Obj, *, dry_run: bool = False
    ) -> Obj: ...
    async def delete(self, kind: JobKind, namespace: str, name: str) -> None: ...
    async def restart(
        self, kind: JobKind, namespace: str, name: str, *, force: bool = False
    ) -> Obj: ...
    async def suspend(self, kind: JobKind, namespace: str, name: str) -> Obj: ...
    async def resume(self, kind: JobKind, namespace: str, name: str) -> Obj: ...
    async def scale(self, kind: JobKind, namespace: str, name: str, *, replicas: int) -> Obj: ...
    def watch(self, kind: JobKind, namespace: str, name: str) -> AsyncGenerator[Change, None]: ...
    def logs(
        self, kind: JobKind, namespace: str, name: str, query: LogQuery
    ) -> AsyncGenerator[LogChunk, None]: ...
    async def ship(self, namespace: str, name: str, source: Path | bytes) -> Shipped:
        """Bring code to the pods of a job that is about to be created."""

    async def adopt(self, shipped: Shipped, job: Obj) -> None:
        """The job was created: what was made for its code is its own."""

    async def discard(self, shipped: Shipped) -> None:
        """No job came of it."""

    async def close(self) -> None: ...


class ClusterAccess:
    """A Kubernetes API, with somebody's kubeconfig or service account."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._client = KubeClient(config)
        self._jobs = Jobs(self._client)

    @property
    def namespace(self) -> str:
        return self._config.namespace

    @property
    def where(self) -> str:
        return self._config.context or self._config.server

    async def get(self, kind: JobKind, namespace: str, name: str) -> Obj:
        return await self._jobs.get(kind, namespace, name)

    async def list(self, kind: JobKind, namespace: str | None, query: ListQuery) -> Page:
        return await self._jobs.list(kind, namespace, query)

    async def events(self, kind: JobKind, namespace: str, name: str) -> builtins.list[Obj]:
        return await self._jobs.events(kind, namespace, name)

    async def explain(self, kind: JobKind, namespace: str, name: str) -> Explanation:
        return await self._jobs.explain(kind, namespace, name)

    async def metrics(self, kind: JobKind, namespace: str, name: str) -> Obj:
        return await self._jobs.metrics(kind, namespace, name)

    async def create(
        self, kind: JobKind, namespace: str, obj: Obj, *, dry_run: bool = False
    ) -> Obj:
        return await self._jobs.create(kind, namespace, obj, dry_run=dry_run)

    async def delete(self, kind: JobKind, namespace: str, name: str) -> None:
        await self._jobs.delete(kind, namespace, name)

    async def restart(
        self, kind: JobKind, namespace: str, name: str, *, force: bool = False
    ) -> Obj:
        return await self._jobs.restart(kind, namespace, name, force=force)

    async def suspend(self, kind: JobKind, namespace: str, name: str) -> Obj:
        return await self._jobs.suspend(kind, namespace, name)

    async def resume(self, kind: JobKind, namespace: str, name: str) -> Obj:
        return await self._jobs.resume(kind, namespace, name)

    async def scale(self, kind: JobKind, namespace: str, name: str, *, replicas: int) -> Obj:
        return await self._jobs.scale(kind, namespace, name, replicas=replicas)

    def watch(self, kind: JobKind, namespace: str, name: str) -> AsyncGenerator[Change, None]:
        return self._jobs.watch(kind, namespace, name)

    def logs(
        self, kind: JobKind, namespace: str, name: str, query: LogQuery
    ) -> AsyncGenerator[LogChunk, None]:
        return self._jobs.logs(kind, namespace, name, query)

    async def ship(self, namespace: str, name: str, source: Path | bytes) -> Shipped:
        with telling(Asked("create", CONFIGMAPS, namespace)):
            if isinstance(source, bytes):
                return await ship_archive(self._client, namespace, name, source, limit=LIMIT)
            return await ship(self._client, namespace, name, source)

    async def adopt(self, shipped: Shipped, job: Obj) -> None:
        await shipped.adopt(self._client, job)

    async def discard(self, shipped: Shipped) -> None:
        await shipped.discard(self._client)

    async def close(self) -> None:
        await self._client.close()
