"""`TrainingClient` and `MPIJobClient`: the async clients for everybody else.

One implementation: each method runs that of the async client on a private event loop, so they work
in scripts, threads and notebooks alike. Callbacks run in the thread of the caller.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable, Iterator
from datetime import datetime
from types import TracebackType
from typing import Generic, Self, TypeVar, Unpack
from weakref import WeakSet

from corral.kube.types import Obj
from corral.sdk.access import Access
from corral.sdk.clients import AsyncMPIJobClient, AsyncTrainingClient, Path
from corral.sdk.explained import Explained
from corral.sdk.jobclient import AsyncJobClient, Callback, Name
from corral.sdk.learning import Metrics
from corral.sdk.loop import LoopThread
from corral.sdk.mpijobs import MPIJob
from corral.sdk.programs.program import Arguments, Target
from corral.sdk.training import TrainOptions
from corral.sdk.views import Events, Job, Jobs, LogLine

__all__ = ["JobClient", "MPIJobClient", "TrainingClient"]

C = TypeVar("C", bound=AsyncJobClient)


class _Shared:
    """The loop of all sync clients; made when the first of them is."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._loop: LoopThread | None = None
        self.clients: WeakSet[JobClient[AsyncJobClient]] = WeakSet()

    def loop(self) -> LoopThread:
        with self._guard:
            if self._loop is None:
                self._loop = LoopThread()
                atexit.register(self.close)
            return self._loop

    def close(self) -> None:
        """At the end of the program: whoever forgot to close a client did no harm."""
        for client in list(self.clients):
            client.close()
        if self._loop is not None:
            self._loop.close()


_shared = _Shared()


class JobClient(Generic[C]):
    """What can be asked about jobs of any kind; see `AsyncJobClient` for every method."""

    def __init__(self, client: C) -> None:
        self._client, self._loop = client, _shared.loop()
        self._closed = False
        _shared.clients.add(self)  # type: ignore[arg-type]  # the set takes clients of all kinds

    @property
    def namespace(self) -> str:
        """Where jobs are unless a call says otherwise."""
        return self._client.namespace

    def close(self) -> None:
        """Close the connections; a second time does nothing."""
        if not self._closed:
            self._closed = True
            self._loop.run(self._client.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._client).replace("<Async", "<", 1)

    def get_job(self, name: Name, *, namespace: str | None = None, kind: str | None = None) -> Job:
        """A job as it is now. Raises NotFound."""
        return self._loop.run(self._client.get_job(name, namespace=namespace, kind=kind))

    def list_jobs(
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
        """Jobs that match, the newest first."""
        return self._loop.run(
            self._client.list_jobs(
                namespace=namespace,
                all_namespaces=all_namespaces,
                kind=kind,
                labels=labels,
                phase=phase,
                name=name,
                since=since,
                sort=sort,
                limit=limit,
            )
        )

    def get_job_events(
        self, name: Name, *, namespace: str | None = None, kind: str | None = None
    ) -> Events:
        """What happened to the job and to its pods, oldest first."""
        return self._loop.run(self._client.get_job_events(name, namespace=namespace, kind=kind))

    def explain_job(
        self, name: Name, *, namespace: str | None = None, kind: str | None = None
    ) -> Explained:
        """What the job waits for, or why it failed, in plain words."""
        return self._loop.run(self._client.explain_job(name, namespace=namespace, kind=kind))

    def get_job_metrics(self, name: Name, *, namespace: str | None = None) -> Metrics:
        """What a FederatedJob has learned: by round and by proplet, as plain data."""
        return self._loop.run(self._client.get_job_metrics(name, namespace=namespace))

    def get_job_logs(
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
    ) -> Iterator[LogLine]:
        """Lines that the pods wrote, of all of them or of one replica or role."""
        return self._loop.iterate(
            self._client.get_job_logs(
                name,
                follow=follow,
                replica=replica,
                role=role,
                container=container,
                tail_lines=tail_lines,
                since=since,
                timestamps=timestamps,
                previous=previous,
                namespace=namespace,
                kind=kind,
            )
        )

    def watch_job(
        self, name: Name, *, namespace: str | None = None, kind: str | None = None
    ) -> Iterator[Job]:
        """The job as it is, then again whenever it changes, until it is over or deleted."""
        return self._loop.iterate(self._client.watch_job(name, namespace=namespace, kind=kind))

    def wait_for_job_status(
        self,
        name: Name,
        status: str | Iterable[str] = "Succeeded",
        *,
        timeout: float = 600.0,
        callbacks: Iterable[Callback] = (),
        namespace: str | None = None,
        kind: str | None = None,
    ) -> Job:
        """The job as soon as it is in one of these phases.

        Every callback is called with the job now and at every change.

        Raises:
            JobFailed: it has ended in another phase, and will not get there.
            WaitTimeout: it took longer than ``timeout`` seconds.
            NotFound: there is no such job, or it was deleted meanwhile.
        """
        called = tuple(callbacks)
        steps = self._client.follow_to(
            name, status, timeout=timeout, namespace=namespace, kind=kind
        )
        job: Job | None = None
        for job in self._loop.iterate(steps):
            for callback in called:
                callback(job)
        assert job is not None  # it ends with the job that was waited for
        return job

    def create_job(
        self, manifest: Obj, *, namespace: str | None = None, dry_run: bool = False
    ) -> Job:
        """Create a job of any kind from its manifest."""
        return self._loop.run(
            self._client.create_job(manifest, namespace=namespace, dry_run=dry_run)
        )

    def delete_job(
        self, name: Name, *, namespace: str | None = None, kind: str | None = None
    ) -> None:
        """Delete a job and everything that was made for it."""
        self._loop.run(self._client.delete_job(name, namespace=namespace, kind=kind))

    def suspend_job(
        self, name: Name, *, namespace: str | None = None, kind: str | None = None
    ) -> Job:
        """Take its pods away; progress is kept where there are checkpoints."""
        return self._loop.run(self._client.suspend_job(name, namespace=namespace, kind=kind))

    def resume_job(
        self, name: Name, *, namespace: str | None = None, kind: str | None = None
    ) -> Job:
        """Go on with a job that was suspended."""
        return self._loop.run(self._client.resume_job(name, namespace=namespace, kind=kind))

    def restart_job(
        self,
        name: Name,
        *,
        force: bool = False,
        namespace: str | None = None,
        kind: str | None = None,
    ) -> Job:
        """Run it again from its spec; one that is not over only with ``force``."""
        return self._loop.run(
            self._client.restart_job(name, force=force, namespace=namespace, kind=kind)
        )

    def scale_job(
        self,
        name: Name,
        replicas: int,
        *,
        namespace: str | None = None,
        kind: str | None = None,
    ) -> Job:
        """Change how many replicas (or workers) it has."""
        return self._loop.run(
            self._client.scale_job(name, replicas, namespace=namespace, kind=kind)
        )


class TrainingClient(JobClient[AsyncTrainingClient]):
    """Train functions, scripts and folders with replicas that find each other.

    >>> client = TrainingClient()
    >>> job = client.train("train.py", replicas=2)
    >>> client.wait_for_job_status(job)
    """

    def __init__(
        self,
        *,
        namespace: str | None = None,
        kubeconfig: Path | None = None,
        context: str | None = None,
        gateway: str | None = None,
        token: str | None = None,
        ca_file: Path | None = None,
        access: Access | None = None,
    ) -> None:
        """Where to go is found as `corral.sdk.connect` says."""
        super().__init__(
            AsyncTrainingClient(
                namespace=namespace,
                kubeconfig=kubeconfig,
                context=context,
                gateway=gateway,
                token=token,
                ca_file=ca_file,
                access=access,
            )
        )

    def train(
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
        return self._loop.run(
            self._client.train(
                target, args, replicas=replicas, name=name, namespace=namespace, **options
            )
        )


class MPIJobClient(JobClient[AsyncMPIJobClient]):
    """Create and follow MPIJobs.

    >>> client = MPIJobClient()
    >>> client.create(MPIJob("pi", image="mpi", command="mpirun pi", workers=2))
    >>> client.wait("pi")
    """

    def __init__(
        self,
        *,
        namespace: str | None = None,
        kubeconfig: Path | None = None,
        context: str | None = None,
        gateway: str | None = None,
        token: str | None = None,
        ca_file: Path | None = None,
        access: Access | None = None,
    ) -> None:
        """Where to go is found as `corral.sdk.connect` says."""
        super().__init__(
            AsyncMPIJobClient(
                namespace=namespace,
                kubeconfig=kubeconfig,
                context=context,
                gateway=gateway,
                token=token,
                ca_file=ca_file,
                access=access,
            )
        )

    def create(
        self, job: MPIJob | Obj, *, namespace: str | None = None, dry_run: bool = False
    ) -> MPIJob:
        """Create a job from an `MPIJob` or a manifest."""
        return self._loop.run(self._client.create(job, namespace=namespace, dry_run=dry_run))

    def get(self, name: Name | MPIJob, *, namespace: str | None = None) -> MPIJob:
        """A job as it is now. Raises NotFound."""
        return self._loop.run(self._client.get(name, namespace=namespace))

    def list(
        self,
        *,
        namespace: str | None = None,
        all_namespaces: bool = False,
        labels: str = "",
        phase: str | tuple[str, ...] = (),
        limit: int | None = None,
    ) -> list[MPIJob]:
        """Jobs that match, the newest first."""
        return self._loop.run(
            self._client.list(
                namespace=namespace,
                all_namespaces=all_namespaces,
                labels=labels,
                phase=phase,
                limit=limit,
            )
        )

    def delete(self, name: Name | MPIJob, *, namespace: str | None = None) -> None:
        """Delete a job and everything that was made for it."""
        self._loop.run(self._client.delete(name, namespace=namespace))

    def status(self, name: Name | MPIJob, *, namespace: str | None = None) -> Job:
        """Phase, counts and failure."""
        return self._loop.run(self._client.status(name, namespace=namespace))

    def logs(
        self,
        name: Name | MPIJob,
        *,
        follow: bool = False,
        worker: int | None = None,
        launcher: bool = False,
        tail_lines: int | None = None,
        namespace: str | None = None,
    ) -> Iterator[LogLine]:
        """Lines of all pods, of the launcher, or of one worker."""
        return self._loop.iterate(
            self._client.logs(
                name,
                follow=follow,
                worker=worker,
                launcher=launcher,
                tail_lines=tail_lines,
                namespace=namespace,
            )
        )

    def wait(
        self,
        name: Name | MPIJob,
        status: str | Iterable[str] = "Succeeded",
        *,
        timeout: float = 600.0,
        callbacks: Iterable[Callback] = (),
        namespace: str | None = None,
    ) -> MPIJob:
        """The job as soon as it is in one of these phases; raises as `wait_for_job_status` does."""
        job = self.wait_for_job_status(
            str(name), status, timeout=timeout, callbacks=callbacks, namespace=namespace
        )
        return MPIJob.from_manifest(job.manifest)

    def events(self, name: Name | MPIJob, *, namespace: str | None = None) -> Events:
        """What happened to the job and to its pods, oldest first."""
        return self._loop.run(self._client.events(name, namespace=namespace))

    def explain(self, name: Name | MPIJob, *, namespace: str | None = None) -> Explained:
        """What the job waits for, or why it failed, in plain words."""
        return self._loop.run(self._client.explain(name, namespace=namespace))

    def restart(
        self, name: Name | MPIJob, *, force: bool = False, namespace: str | None = None
    ) -> MPIJob:
        """Run it again from its spec; one that is not over only with ``force``."""
        return self._loop.run(self._client.restart(name, force=force, namespace=namespace))

    def suspend(self, name: Name | MPIJob, *, namespace: str | None = None) -> MPIJob:
        """Take its pods away."""
        return self._loop.run(self._client.suspend(name, namespace=namespace))

    def resume(self, name: Name | MPIJob, *, namespace: str | None = None) -> MPIJob:
        """Go on with a job that was suspended."""
        return self._loop.run(self._client.resume(name, namespace=namespace))

    def scale(self, name: Name | MPIJob, workers: int, *, namespace: str | None = None) -> MPIJob:
        """Change how many workers it has."""
        return self._loop.run(self._client.scale(name, workers, namespace=namespace))
