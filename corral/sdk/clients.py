"""`AsyncTrainingClient` and `AsyncMPIJobClient`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import ClassVar, Unpack

from corral.client.errors import BadRequest
from corral.client.kinds import kind_of
from corral.kube.types import Obj
from corral.sdk.explained import Explained
from corral.sdk.jobclient import AsyncJobClient, Callback, ClientOptions, Name
from corral.sdk.mpijobs import MPIJob
from corral.sdk.programs.program import Arguments, Target, code_of
from corral.sdk.programs.shipping import create_shipped
from corral.sdk.training import TrainOptions, job_name, training_job
from corral.sdk.views import Events, Job, LogLine

__all__ = ["AsyncMPIJobClient", "AsyncTrainingClient"]

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels: no words by chance."""


def _suffix() -> str:
    return "".join(random.choices(_LETTERS, k=5))


class AsyncTrainingClient(AsyncJobClient):
    """Train functions, scripts and folders with replicas that find each other.

    >>> async with AsyncTrainingClient() as client:
    ...     job = await client.train("train.py", replicas=2)
    ...     await client.wait_for_job_status(job)
    """

    kind: ClassVar[str] = "trainingjobs"

    def __init__(
        self, *, suffix: Callable[[], str] = _suffix, **options: Unpack[ClientOptions]
    ) -> None:
        """``suffix`` makes names unique."""
        super().__init__(**options)
        self._suffix = suffix

    async def train(
        self,
        target: Target,
        args: Arguments | None = None,
        *,
        replicas: int = 1,
        name: str | None = None,
        namespace: str | None = None,
        **options: Unpack[TrainOptions],
    ) -> Job:
        """Start training: a function, a script, or a folder with a ``main.py`` or ``train.py``.

        A function is sent as its source text, and ``args`` (a dict) as JSON; a script takes
        ``args`` as a list of words. The rest is described at `TrainOptions`.

        Raises:
            CannotShip: the code cannot be sent; the words say why.
            BadRequest, Invalid: something that was said about the job is wrong.
        """
        unknown = options.keys() - TrainOptions.__annotations__.keys()
        if unknown:
            raise BadRequest(
                f"train knows no option {sorted(unknown)[0]!r}",
                hint=f"options are {', '.join(sorted(TrainOptions.__annotations__))}",
            )
        code = await asyncio.to_thread(code_of, target, args, directory=options.get("directory"))
        known, where = kind_of(self.kind), namespace or self.namespace
        called = name or job_name(code.title, self._suffix())
        made = await create_shipped(
            self._access,
            known,
            where,
            called,
            source=code.source,
            build=lambda shipped: training_job(
                code, shipped, options, name=called, namespace=where, replicas=replicas
            ),
            dry_run=options.get("dry_run", False),
        )
        return Job.read(known, made)


class AsyncMPIJobClient(AsyncJobClient):
    """Create and follow MPIJobs.

    >>> async with AsyncMPIJobClient() as client:
    ...     await client.create(MPIJob("pi", image="mpi", command="mpirun pi", workers=2))
    ...     await client.wait("pi")
    """

    kind: ClassVar[str] = "mpijobs"

    async def create(
        self, job: MPIJob | Obj, *, namespace: str | None = None, dry_run: bool = False
    ) -> MPIJob:
        """Create a job from an `MPIJob` or a manifest."""
        manifest = job.to_manifest() if isinstance(job, MPIJob) else job
        made = await self.create_job(manifest, namespace=namespace, dry_run=dry_run)
        return MPIJob.from_manifest(made.manifest)

    async def get(self, name: Name | MPIJob, *, namespace: str | None = None) -> MPIJob:
        return MPIJob.from_manifest((await self.get_job(str(name), namespace=namespace)).manifest)

    async def list(
        self,
        *,
        namespace: str | None = None,
        all_namespaces: bool = False,
        labels: str = "",
        phase: str | tuple[str, ...] = (),
        limit: int | None = None,
    ) -> list[MPIJob]:
        found = await self.list_jobs(
            namespace=namespace,
            all_namespaces=all_namespaces,
            labels=labels,
            phase=phase,
            limit=limit,
        )
        return [MPIJob.from_manifest(job.manifest) for job in found]

    async def delete(self, name: Name | MPIJob, *, namespace: str | None = None) -> None:
        await self.delete_job(str(name), namespace=namespace)

    async def status(self, name: Name | MPIJob, *, namespace: str | None = None) -> Job:
        """Phase, counts and failure."""
        return await self.get_job(str(name), namespace=namespace)

    def logs(
        self,
        name: Name | MPIJob,
        *,
        follow: bool = False,
        worker: int | None = None,
        launcher: bool = False,
        tail_lines: int | None = None,
        namespace: str | None = None,
    ) -> AsyncGenerator[LogLine, None]:
        """Lines of all pods, of the launcher, or of one worker."""
        role = "launcher" if launcher else "worker" if worker is not None else None
        return self.get_job_logs(
            str(name),
            follow=follow,
            role=role,
            replica=worker,
            tail_lines=tail_lines,
            namespace=namespace,
        )

    async def wait(
        self,
        name: Name | MPIJob,
        status: str | Iterable[str] = "Succeeded",
        *,
        timeout: float = 600.0,  # noqa: ASYNC109  # Kubeflow's name for it
        callbacks: Iterable[Callback] = (),
        namespace: str | None = None,
    ) -> MPIJob:
        """The job as soon as it is in one of these phases; raises as `wait_for_job_status` does."""
        job = await self.wait_for_job_status(
            str(name), status, timeout=timeout, callbacks=callbacks, namespace=namespace
        )
        return MPIJob.from_manifest(job.manifest)

    async def events(self, name: Name | MPIJob, *, namespace: str | None = None) -> Events:
        return await self.get_job_events(str(name), namespace=namespace)

    async def explain(self, name: Name | MPIJob, *, namespace: str | None = None) -> Explained:
        return await self.explain_job(str(name), namespace=namespace)

    async def restart(
        self, name: Name | MPIJob, *, force: bool = False, namespace: str | None = None
    ) -> MPIJob:
        job = await self.restart_job(str(name), force=force, namespace=namespace)
        return MPIJob.from_manifest(job.manifest)

    async def suspend(self, name: Name | MPIJob, *, namespace: str | None = None) -> MPIJob:
        return MPIJob.from_manifest(
            (await self.suspend_job(str(name), namespace=namespace)).manifest
        )

    async def resume(self, name: Name | MPIJob, *, namespace: str | None = None) -> MPIJob:
        return MPIJob.from_manifest(
            (await self.resume_job(str(name), namespace=namespace)).manifest
        )

    async def scale(
        self, name: Name | MPIJob, workers: int, *, namespace: str | None = None
    ) -> MPIJob:
        job = await self.scale_job(str(name), workers, namespace=namespace)
        return MPIJob.from_manifest(job.manifest)
