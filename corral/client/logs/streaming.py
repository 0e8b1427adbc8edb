"""What the pods of a job write, as one stream that can be gone on with at any place.

Guarantees of `read_logs`:
- Every line of every pod that is asked for, once; the lines of a pod in their order, and never
  mixed with those of another within a line. Only a line of more than a megabyte comes in parts.
- ``follow`` goes on until the job is over and its pods have ended: pods that are made meanwhile
  and containers that are started again appear by themselves, from their first line.
- ``position`` of a chunk is the place after it. A query with that position gives what comes after,
  over another connection, from another process, as another user.
- Memory is bounded: readers wait for whoever takes the chunks.

What a node no longer has cannot be given: most keep two attempts of a container and ten megabytes
or so of the present one. See docs/logs.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

from corral.client.errors import Expired, NotFound, NotSupported, ServerError, Unavailable
from corral.client.kinds import JobKind
from corral.client.logs.marks import Mark, Position, SourceKey
from corral.client.logs.pipe import Pipe
from corral.client.logs.pods import PodView, PodWatch, containers_of, list_pods
from corral.client.logs.query import LogChunk, LogQuery
from corral.client.logs.reach import MAX_FAILURES, ReadContext
from corral.client.logs.source import LogSource
from corral.client.phases import section, text
from corral.client.roles import Role
from corral.client.watching import Scope, changes
from corral.kube.client import KubeClient
from corral.kube.types import Obj

__all__ = ["read_logs"]

BUFFER: Final = 4 << 20
"""Bytes on the way between the readers of pods and whoever takes the chunks."""
SETTLE: Final = 2.0
"""Seconds after a job's end in which containers that still run may say their last words."""
MAX_SETTLE: Final = 60.0
"""The same for pods that are being deleted."""


_Piece = tuple[LogSource, bytes, Mark | None]
"""Without a mark: its pod is gone, and nobody will ask for it again."""


async def read_logs(
    client: KubeClient, kind: JobKind, job: Obj, query: LogQuery
) -> AsyncGenerator[LogChunk, None]:
    """The logs of a job that was read; leave it early through ``contextlib.aclosing``.

    Raises:
        JobError: its kind has no pods, rights are missing, the query is wrong, or the cluster
            cannot be reached for long.
    """
    position, query = _position(query), query.checked()
    if kind.pod_selector is None:
        raise NotSupported(f"a {kind.kind} has no pods, so it has no logs")
    reader = _Reader(client, kind, job, query=query, position=position)
    marks, began = dict(position.marks), position.began
    task = asyncio.create_task(reader.run())
    try:
        while (piece := await reader.pipe.get()) is not None:
            source, data, mark = piece
            key = source.key
            if mark is None:
                marks.pop(key, None)
                continue
            marks[key] = mark
            yield LogChunk(key.pod, source.role, key.container, data, Position(marks, began))
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _position(query: LogQuery) -> Position:
    given = query.position
    if isinstance(given, str):
        given = Position.parse(given) if given else None
    return given or Position(began=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


class _Reader:
    """The sources of one query, and who takes what they give."""

    def __init__(
        self,
        client: KubeClient,
        kind: JobKind,
        job: Obj,
        *,
        query: LogQuery,
        position: Position,
    ) -> None:
        self.pipe: Pipe[_Piece] = Pipe(BUFFER)
        self._kind = kind
        self._job = job
        self._query = query
        self._position = position
        self._reach = ReadContext(client, text(section(job, "metadata").get("namespace")))
        self._sources: dict[SourceKey, LogSource] = {}
        self._reading: dict[SourceKey, asyncio.Task[None]] = {}
        self._watches: dict[str, tuple[PodWatch, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Everything, into the pipe; closes it. Raises JobError."""
        try:
            if self._query.follow:
                await self._follow()
            else:
                await self._read_once()
        except BaseExceptionGroup as group:
            raise _first(group) from None
        finally:
            self.pipe.close()

    async def _emit(self, source: LogSource, data: bytes, mark: Mark) -> None:
        await self.pipe.put((source, data, mark), len(data))

    # -- what is there ----------------------------------------------------------------------------

    async def _read_once(self) -> None:
        """Pod after pod: launchers first, then by index."""
        _, pods = await list_pods(self._reach, self._selector(self._job))
        found = [source for pod in pods for source in self._sources_of(PodView(pod))]
        found.sort(key=lambda source: (source.role.order, source.key.pod))
        for source in found:
            await source.run(self._emit)

    def _selector(self, job: Obj) -> str:
        assert self._kind.pod_selector is not None
        return self._kind.pod_selector(job)

    def _sources_of(self, view: PodView, *, new: bool = False) -> list[LogSource]:
        """``new``: it came after the logs were first asked for."""
        role = self._kind.role(view.pod)
        wanted = self._query.roles
        if wanted is not None and wanted != (role.name, role.index)[: len(wanted)]:
            return []
        names = containers_of(view.pod, self._query.container)
        return [self._source(view, container, role, new=new) for container in names]

    def _source(self, view: PodView, container: str, role: Role, *, new: bool) -> LogSource:
        mark = self._position.marks.get(SourceKey(view.name, view.uid, container))
        if mark is None and (new or self._is_younger(view.pod)):
            mark = Mark(restarts=0)  # nothing of it is left out
        return LogSource(self._reach, view, container, role=role, query=self._query, mark=mark)

    def _is_younger(self, pod: Obj) -> bool:
        """Whether a reader before us, who left a position, asked before it was made."""
        made = text(section(pod, "metadata").get("creationTimestamp"))
        return self._query.position is not None and made > self._position.began

    # -- what comes -------------------------------------------------------------------------------

    async def _follow(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._watch(group, self._selector(self._job))
            await self._until_over(group)
            for pods, _ in list(self._watches.values()):
                await pods.catch_up()  # a pod that came last may not have been told of yet
            await self._settle()
            for _, watching in self._watches.values():
                watching.cancel()

    def _watch(self, group: asyncio.TaskGroup, selector: str) -> None:
        """Pods of this selector from now on; a job of rounds has another one for each."""
        if selector in self._watches:
            return

        def found(view: PodView, beginning: bool) -> None:
            for source in self._sources_of(view, new=not beginning):
                if source.key not in self._sources:
                    self._sources[source.key] = source
                    self._reading[source.key] = group.create_task(self._run(source))

        pods = PodWatch(self._reach, selector, on_pod=found)
        self._watches[selector] = pods, group.create_task(pods.run())

    async def _run(self, source: LogSource) -> None:
        await source.run(self._emit)
        if source.gone:
            await self.pipe.put((source, b"", None), 0)

    async def _until_over(self, group: asyncio.TaskGroup) -> None:
        """Watches the job from the version that was read; what that one needs runs already."""
        if self._kind.finished(self._job):
            return
        metadata, failures = section(self._job, "metadata"), 0
        since = text(metadata.get("resourceVersion"))
        scope = Scope(self._kind, self._reach.namespace, text(metadata.get("name")))
        while True:
            try:
                watch = changes(self._reach.client, scope, since=since)
                async with aclosing(watch) as found:
                    async for change in found:
                        since, failures = "", 0
                        if change.type == "DELETED" or self._kind.finished(change.object):
                            return
                        self._watch(group, self._selector(change.object))
            except NotFound:
                return
            except Expired:
                since = ""  # that version is no longer kept: begin with the job as it is
            except (Unavailable, ServerError):
                failures += 1
                if failures > MAX_FAILURES:
                    raise
                await self._reach.pause(failures)

    async def _settle(self) -> None:
        """The job is over: its containers end by themselves, or have nothing more to say."""
        clock = asyncio.get_running_loop().time
        end = clock() + MAX_SETTLE
        while left := [t for t in self._reading.values() if not t.done()]:
            await asyncio.wait(left, timeout=SETTLE)
            reading = [s for k, s in self._sources.items() if not self._reading[k].done()]
            if not any(source.deleting for source in reading) or clock() > end:
                for source in reading:
                    source.close()
                break
        if left := [t for t in self._reading.values() if not t.done()]:
            await asyncio.wait(left)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
