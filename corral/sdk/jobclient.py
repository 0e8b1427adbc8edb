"""`AsyncJobClient`: what can be asked about jobs of any kind, as async methods.

Names follow Kubeflow's TrainerClient where it has one. A job is named by its name or by the `Job`
itself. Waiting is by watch: no state that a job was in is missed, and nothing is polled. Errors
are those of `corral.sdk.errors`.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypedDict, Unpack

from corral.client.access import Access
from corral.client.errors import BadRequest, NotFound, WaitTimeout
from corral.client.kinds import JobKind, kind_of, kind_of_object
from corral.client.queries import ListQuery
from corral.client.watching import Change
from corral.kube.types import Obj
from corral.sdk.connect import Connection, connect
from corral.sdk.errors import JobFailed
from corral.sdk.explained import Explained
from corral.sdk.learning import Metrics
from corral.sdk.views import Event, Events, Job, Jobs, LogLine, jobs_of

__all__ = ["AsyncJobClient", "Callback", "ClientOptions", "Name", "Path"]

Name = str | Job
Path = str | os.PathLike[str]
Callback = Callable[[Job], Any]
"""Called with the job whenever it changes; what it returns is awaited where it can be."""
_KUBEFLOW_WORDS: Final = {"complete": "Succeeded", "created": "Pending"}
"""Kubeflow's words for phases, where the kind has no such phase of its own."""
_DELETED: Final = "Deleted"


class ClientOptions(TypedDict, total=False):
    """What every client can be told; where to go is found as `corral.sdk.connect` says."""

    namespace: str | None
    kubeconfig: Path | None
    context: str | None
    gateway: str | None
    token: str | None
    ca_file: Path | None
    access: Access | None


class AsyncJobClient:
    """Jobs of a cluster, or behind a gateway; use as an async context manager or `close` it."""

    kind: ClassVar[str] = "trainingjobs"
    """What a name means where no kind is given."""

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        """Nothing is asked of anybody before the first call."""
        chosen: dict[str, Any] = {**options}
        self._namespace: str | None = chosen.pop("namespace", None)
        self._found: Access | None = chosen.pop("access", None)
        self._connection = Connection(**chosen)

    @property
    def _access(self) -> Access:
        if self._found is None:
            self._found = connect(self._connection)
        return self._found

    @property
    def namespace(self) -> str:
        """Where jobs are unless a call says otherwise."""
        return self._namespace or self._access.namespace

    async def close(self) -> None:
        """Close the connections."""
        if self._found is not None:
            await self._found.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        where = self._found.where if self._found is not None else "not connected yet"
        return f"<{type(self).__name__}: {where}>"

    def _at(self, kind: str | None, namespace: str | None) -> tuple[JobKind, str]:
        return kind_of(kind or self.kind), namespace or self.namespace

    # -- reading -----------------------------------------------------------------------------------

    async def get_job(
        self, name: Name, *, namespace: str | None = None, kind: str | None = None
    ) -> Job:
        """A job as it is now. Raises NotFound."""
        known, where = self._at(kind, namespace)
        return Job.read(known, await self._access.get(known, where, str(name)))

    async def list_jobs(
        self,
        *,
        namespace: str | None = None,
        all_namespaces: bool = False,
        kind: str | None = None,
        labels: str = "",
        phase: str | tuple[str, ...] = (),
        name: str = "",
        since: datetime | None = None,
        sort: str = "-created",
        limit: int | None = None,
    ) -> Jobs:
        """Jobs that match, the newest first; ``limit`` gives the first ones only."""
        known, where = self._at(kind, namespace)
        query = ListQuery(labels, phase, name, since, sort, limit)
        page = await self._access.list(known, None if all_namespaces else where, query)
        items = list(page.items)
        while page.token and limit is None:  # a server may have a limit of its own
            query = ListQuery(labels, phase, name, since, sort, limit, page.token)
            page = await self._access.list(known, None if all_namespaces else where, query)
            items += page.items
        return jobs_of(known, items)

    async def get_job_events(
        self, name: Name, *, namespace: str | None = None, kind: str | None = None
    ) -> Events:
        """What happened to the job and to its pods, oldest first."""
        known, where = self._at(kind, namespace)
        found = await self._access.events(known, where, str(name))
        return Events(Event.read(obj) for obj in found)

    async def explain_job(
        self, name: Name, *, namespace: str | None = None, kind: str | None = None
    ) -> Explained:
        """What the job waits for, or why it failed, in plain words."""
        known, where = self._at(kind, namespace)
        return Explained.of(await self._access.explain(known, where, str(name)))

    async def get_job_metrics(self, name: Name, *, namespace: str | None = None) -> Metrics:
        """What a FederatedJob has learned: by round and by proplet, as plain data."""
        known, where = self._at("federatedjobs", namespace)
        return Metrics(await self._access.metrics(known, where, str(name)))

    async def get_job_logs(
        self,
        name: Name,
        *,
        follow: bool = False,
        replica: int | None = None,
        role: str | None = None,
        container: str | None = None,
        tail_lines: int | None = None,
        since: datetime | None = None,
        timestamps: bool = False,
        previous: bool = False,
        namespace: str | None = None,
        kind: str | None = None,
    ) -> AsyncGenerator[LogLine, None]:
        """Lines that the pods wrote, of all of them or of one replica or role.

        With ``follow`` it goes on until the job is over. Each line says whose it is.
        """
        from corral.client.logs.query import LogQuery

        known, where = self._at(kind, namespace)
        query = LogQuery(
            roles=_roles(known, role, replica),
            container=container,
            follow=follow,
            tail_lines=tail_lines,
            since_time=since.isoformat() if since is not None else None,
            timestamps=timestamps,
            previous=previous,
        )
        async with aclosing(self._access.logs(known, where, str(name), query)) as pieces:
            async for piece in pieces:
                for line in piece.data.decode(errors="replace").removesuffix("\n").split("\n"):
                    yield LogLine(line, pod=piece.pod, role=piece.role, container=piece.container)

    # -- following ---------------------------------------------------------------------------------

    async def watch_job(
        self, name: Name, *, namespace: str | None = None, kind: str | None = None
    ) -> AsyncGenerator[Job, None]:
        """The job as it is, then again whenever it changes, until it is over or deleted."""
        known, where = self._at(kind, namespace)
        async with aclosing(self._access.watch(known, where, str(name))) as changes:
            async for change in changes:
                if change.type == "DELETED":
                    return
                job = Job.read(known, change.object)
                yield job
                if job.finished:
                    return

    async def follow_to(
        self,
        name: Name,
        status: str | Iterable[str] = "Succeeded",
        *,
        timeout: float = 600.0,  # noqa: ASYNC109  # Kubeflow's name for it
        namespace: str | None = None,
        kind: str | None = None,
    ) -> AsyncGenerator[Job, None]:
        """The job at every change until it is in one of these phases; the last one is that.

        ``Deleted`` is the phase of a job that is gone.

        Raises:
            JobFailed: it has ended in another phase, and will not get there.
            WaitTimeout: it took longer than ``timeout`` seconds.
            NotFound: there is no such job, or it was deleted meanwhile.
        """
        known, where = self._at(kind, namespace)
        wanted = _phases(known, status)
        deadline = asyncio.get_running_loop().time() + timeout
        job: Job | None = None
        async with aclosing(self._access.watch(known, where, str(name))) as changes:
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        change = await anext(changes)
                except NotFound:
                    if _DELETED not in wanted:
                        raise
                    change = Change("DELETED", _bare(known, str(name), where), _DELETED)
                except (TimeoutError, StopAsyncIteration) as err:
                    raise _late(known, str(name), wanted, job, timeout) from err
                job = Job.read(known, change.object)
                if change.type == "DELETED":
                    if _DELETED not in wanted:
                        raise NotFound(f"{known.kind} {name!s} in {where} was deleted")
                    job = replace(job, phase=_DELETED, finished=True)
                yield job
                if job.phase in wanted:
                    return
                if job.finished and _DELETED not in wanted:
                    raise await self._failed(known, job, wanted)

    async def wait_for_job_status(
        self,
        name: Name,
        status: str | Iterable[str] = "Succeeded",
        *,
        timeout: float = 600.0,  # noqa: ASYNC109  # Kubeflow's name for it
        callbacks: Iterable[Callback] = (),
        namespace: str | None = None,
        kind: str | None = None,
    ) -> Job:
        """The job as soon as it is in one of these phases; see `follow_to` for the errors.

        Every callback is called with the job now and at every change.
        """
        called = tuple(callbacks)
        job: Job | None = None
        steps = self.follow_to(name, status, timeout=timeout, namespace=namespace, kind=kind)
        async with aclosing(steps) as jobs:
            async for job in jobs:
                for callback in called:
                    detail = callback(job)
                    if inspect.isawaitable(detail):
                        await detail
        assert job is not None  # it ends with the job that was waited for
        return job

    async def _failed(self, kind: JobKind, job: Job, wanted: frozenset[str]) -> JobFailed:
        explanation = Explained.of(await self._access.explain(kind, job.namespace, job.name))
        detail = f": {job.message}" if job.message else ""
        words = " or ".join(sorted(wanted))
        return JobFailed(
            f"{job.kind} {job.name} is {job.phase} and will not be {words}{detail}",
            job=job,
            explanation=explanation,
        )

    # -- writing -----------------------------------------------------------------------------------

    async def create_job(
        self, manifest: Obj, *, namespace: str | None = None, dry_run: bool = False
    ) -> Job:
        """Create a job of any kind from its manifest."""
        known = kind_of_object(manifest) or kind_of(str(manifest.get("kind") or self.kind))
        own = (manifest.get("metadata") or {}).get("namespace")
        where = namespace or own or self.namespace
        return Job.read(known, await self._access.create(known, where, manifest, dry_run=dry_run))

    async def delete_job(
        self, name: Name, *, namespace: str | None = None, kind: str | None = None
    ) -> None:
        """Delete a job and everything that was made for it."""
        known, where = self._at(kind, namespace)
        await self._access.delete(known, where, str(name))

    async def suspend_job(
        self, name: Name, *, namespace: str | None = None, kind: str | None = None
    ) -> Job:
        """Take its pods away; progress is kept where there are checkpoints."""
        known, where = self._at(kind, namespace)
        return Job.read(known, await self._access.suspend(known, where, str(name)))

    async def resume_job(
        self, name: Name, *, namespace: str | None = None, kind: str | None = None
    ) -> Job:
        known, where = self._at(kind, namespace)
        return Job.read(known, await self._access.resume(known, where, str(name)))

    async def restart_job(
        self,
        name: Name,
        *,
        force: bool = False,
        namespace: str | None = None,
        kind: str | None = None,
    ) -> Job:
        """Run it again from its spec; one that is not over only with ``force``."""
        known, where = self._at(kind, namespace)
        return Job.read(known, await self._access.restart(known, where, str(name), force=force))

    async def scale_job(
        self,
        name: Name,
        replicas: int,
        *,
        namespace: str | None = None,
        kind: str | None = None,
    ) -> Job:
        """Change how many replicas (or workers) it has."""
        known, where = self._at(kind, namespace)
        return Job.read(known, await self._access.scale(known, where, str(name), replicas=replicas))


# -- words -----------------------------------------------------------------------------------------


def _phases(kind: JobKind, status: str | Iterable[str]) -> frozenset[str]:
    """The phases that are meant. Raises BadRequest."""
    words = (status,) if isinstance(status, str) else tuple(status)
    known = {phase.lower(): phase for phase in (*kind.phases, _DELETED)}
    meant = {**{k: v for k, v in _KUBEFLOW_WORDS.items() if v.lower() in known}, **known}
    unknown = [word for word in words if word.lower() not in meant]
    if unknown or not words:
        raise BadRequest(
            f"no {kind.kind} is ever in phase {unknown[0]!r}" if unknown else "no phase was given",
            hint=f"phases are {', '.join(kind.phases)}; {_DELETED} waits until it is gone",
        )
    return frozenset(meant[word.lower()] for word in words)


def _bare(kind: JobKind, name: str, namespace: str) -> Obj:
    """All that is known of a job that is not there."""
    return kind.resource.stamp({"metadata": {"name": name, "namespace": namespace}})


def _late(
    kind: JobKind, name: str, wanted: frozenset[str], job: Job | None, timeout: float
) -> WaitTimeout:
    now = f"it is {job.phase}" + (f" ({job.message})" if job.message else "") if job else ""
    return WaitTimeout(
        f"{kind.kind} {name} was not {' or '.join(sorted(wanted))} within {timeout:g} s: "
        + (now or "nothing was seen of it"),
        hint="it goes on; explain_job says what it waits for",
        obj=job.manifest if job else None,
    )


def _roles(
    kind: JobKind, role: str | None, replica: int | None
) -> tuple[str] | tuple[str, int] | None:
    if role is None and replica is None:
        return None
    word = role or ("worker" if kind.family == "mpijob" else "replica")
    return (word,) if replica is None else (word, replica)
