"""`Access`: what can be asked about jobs, whoever answers.

There are two: `corral.client.jobs.Jobs` asks a Kubernetes API, ours or any other, and
`corral.client.gateway.jobs.GatewayJobs` asks a Corral gateway. Both answer alike and raise the
errors of `corral.client.errors`; one suite of cases holds them to it. The command line, the SDK and
the gateway are views on this.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from corral.kube.types import Obj

if TYPE_CHECKING:
    from corral.client.explain.explanation import Explanation
    from corral.client.kinds import JobKind
    from corral.client.logs.query import LogChunk, LogQuery
    from corral.client.queries import ListQuery, Page
    from corral.client.summary import Summary
    from corral.client.watching import Change
    from corral.kube.client import KubeClient

__all__ = ["Access"]


class Access(Protocol):
    """Jobs of one cluster, as one user sees them; `Jobs` says what each method does."""

    @property
    def client(self) -> KubeClient | None:
        """The cluster itself; none behind a gateway, which knows jobs only."""

    @property
    def namespace(self) -> str:
        """Where things are unless it is said."""

    @property
    def where(self) -> str:
        """What it talks to, for people."""

    async def get(self, kind: JobKind, namespace: str, name: str) -> Obj: ...
    async def list(
        self, kind: JobKind, namespace: str | None, query: ListQuery | None = None
    ) -> Page: ...
    async def summary(self, kind: JobKind, namespace: str, name: str) -> Summary: ...
    async def events(self, kind: JobKind, namespace: str, name: str) -> builtins.list[Obj]: ...
    async def explain(self, kind: JobKind, namespace: str, name: str) -> Explanation: ...
    async def metrics(self, kind: JobKind, namespace: str, name: str) -> Obj: ...
    async def create(
        self, kind: JobKind, namespace: str, obj: Obj, *, dry_run: bool = False
    ) -> Obj: ...
    async def apply(
        self, obj: Obj, *, field_manager: str, namespace: str, dry_run: bool = False
    ) -> Obj: ...
    async def delete(
        self, kind: JobKind, namespace: str, name: str, *, uid: str | None = None
    ) -> Obj: ...
    async def restart(
        self, kind: JobKind, namespace: str, name: str, *, force: bool = False
    ) -> Obj: ...
    async def suspend(self, kind: JobKind, namespace: str, name: str) -> Obj: ...
    async def resume(self, kind: JobKind, namespace: str, name: str) -> Obj: ...
    async def scale(self, kind: JobKind, namespace: str, name: str, *, replicas: int) -> Obj: ...
    def watch(
        self,
        kind: JobKind,
        namespace: str | None,
        name: str | None = None,
        *,
        query: ListQuery | None = None,
    ) -> AsyncGenerator[Change, None]: ...
    async def wait(
        self,
        kind: JobKind,
        namespace: str,
        name: str,
        until: Callable[[Obj], bool] | str | Iterable[str],
        *,
        timeout: float,  # noqa: ASYNC109  # the error says what was seen until then
    ) -> Obj: ...
    def logs(
        self,
        kind: JobKind,
        namespace: str,
        name: str,
        query: LogQuery | None = None,
        *,
        job: Obj | None = None,
    ) -> AsyncGenerator[LogChunk, None]: ...
    async def close(self) -> None: ...
