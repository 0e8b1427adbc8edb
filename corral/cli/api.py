"""What commands ask about jobs, whatever answers: `corral.client.Jobs`, or a gateway."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from corral.kube.types import Obj

if TYPE_CHECKING:
    from corral.client import Change, Explanation, ListQuery, LogChunk, LogQuery, Page, Summary
    from corral.client.kinds import JobKind

__all__ = ["JobApi"]


class JobApi(Protocol):
    """As `corral.client.Jobs`, which has the words; every error is a `JobError`."""

    async def get(self, kind: JobKind, namespace: str, name: str) -> Obj: ...
    async def list(self, kind: JobKind, namespace: str | None, query: ListQuery) -> Page: ...
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
    ) -> object: ...
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
        timeout: float,  # noqa: ASYNC109  # as Jobs.wait has it
    ) -> Obj: ...
    def logs(
        self, kind: JobKind, namespace: str, name: str, query: LogQuery, *, job: Obj | None = None
    ) -> AsyncGenerator[LogChunk, None]: ...
