"""`TrainingClient` and `MPIJobClient`: the async clients for everybody else.

One implementation: `_blocking` and `_iterating` turn a method of the async client into one that
runs it on a private event loop, so they work in scripts, threads and notebooks alike. What a method
does is said there. Callbacks run in the thread of the caller.
"""

from __future__ import annotations

import atexit
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar, Unpack
from weakref import WeakSet

from corral.sdk.clients import AsyncMPIJobClient, AsyncTrainingClient
from corral.sdk.jobclient import AsyncJobClient, Callback, ClientOptions, Name
from corral.sdk.loop import LoopThread
from corral.sdk.mpijobs import MPIJob
from corral.sdk.views import Job

__all__ = ["JobClient", "MPIJobClient", "TrainingClient"]

A = TypeVar("A", bound=AsyncJobClient)
P = ParamSpec("P")
T = TypeVar("T")


class _Shared:
    """The loop of all sync clients; made when the first of them is."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._loop: LoopThread | None = None
        self.clients: WeakSet[JobClient] = WeakSet()

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


def _blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[JobClient, P], T]:
    """The method that waits for what an async one returns."""

    @functools.wraps(method)
    def call(self: JobClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.run(method(self._client, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[A, P], AsyncIterator[T]],
) -> Callable[Concatenate[JobClient, P], Iterator[T]]:
    """The method that iterates over what an async one yields."""

    @functools.wraps(method)
    def call(self: JobClient, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._loop.iterate(method(self._client, *args, **kwargs))

    return call


class JobClient:
    """What can be asked about jobs of any kind; see `AsyncJobClient` for every method."""

    _of: ClassVar[type[AsyncJobClient]] = AsyncJobClient

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        """Where to go is found as `corral.sdk.connect` says."""
        self._client: Any = self._of(**options)
        self._loop = _shared.loop()
        self._closed = False
        _shared.clients.add(self)

    @property
    def namespace(self) -> str:
        """Where jobs are unless a call says otherwise."""
        found: str = self._client.namespace
        return found

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

    get_job = _blocking(AsyncJobClient.get_job)
    list_jobs = _blocking(AsyncJobClient.list_jobs)
    get_job_events = _blocking(AsyncJobClient.get_job_events)
    explain_job = _blocking(AsyncJobClient.explain_job)
    get_job_metrics = _blocking(AsyncJobClient.get_job_metrics)
    get_job_logs = _iterating(AsyncJobClient.get_job_logs)
    watch_job = _iterating(AsyncJobClient.watch_job)
    create_job = _blocking(AsyncJobClient.create_job)
    delete_job = _blocking(AsyncJobClient.delete_job)
    suspend_job = _blocking(AsyncJobClient.suspend_job)
    resume_job = _blocking(AsyncJobClient.resume_job)
    restart_job = _blocking(AsyncJobClient.restart_job)
    scale_job = _blocking(AsyncJobClient.scale_job)
    _follow_to = _iterating(AsyncJobClient.follow_to)

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
        steps = self._follow_to(name, status, timeout=timeout, namespace=namespace, kind=kind)
        job: Job | None = None
        for job in steps:
            for callback in called:
                callback(job)
        assert job is not None  # it ends with the job that was waited for
        return job


class TrainingClient(JobClient):
    """Train functions, scripts and folders with replicas that find each other.

    >>> client = TrainingClient()
    >>> job = client.train("train.py", replicas=2)
    >>> client.wait_for_job_status(job)
    """

    _of = AsyncTrainingClient
    train = _blocking(AsyncTrainingClient.train)


class MPIJobClient(JobClient):
    """Create and follow MPIJobs.

    >>> client = MPIJobClient()
    >>> client.create(MPIJob("pi", image="mpi", command="mpirun pi", workers=2))
    >>> client.wait("pi")
    """

    _of = AsyncMPIJobClient
    create = _blocking(AsyncMPIJobClient.create)
    get = _blocking(AsyncMPIJobClient.get)
    list = _blocking(AsyncMPIJobClient.list)
    delete = _blocking(AsyncMPIJobClient.delete)
    status = _blocking(AsyncMPIJobClient.status)
    logs = _iterating(AsyncMPIJobClient.logs)
    events = _blocking(AsyncMPIJobClient.events)
    explain = _blocking(AsyncMPIJobClient.explain)
    restart = _blocking(AsyncMPIJobClient.restart)
    suspend = _blocking(AsyncMPIJobClient.suspend)
    resume = _blocking(AsyncMPIJobClient.resume)
    scale = _blocking(AsyncMPIJobClient.scale)

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
