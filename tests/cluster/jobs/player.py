"""A node that ends every pod as soon as it sees it, and a way to kill and restart controllers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

from corral.kube.client import KubeClient
from corral.kube.errors import ApiError
from corral.kube.resources import JOBS, PODS
from corral.kube.types import Obj
from tests.backends import Backend

_ROOT = Path(__file__).parent.parent.parent.parent


class Loops:
    """Our controllers as a process that can be killed at any moment."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._log = backend.folder / "loops.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when they run."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.jobs.loops", str(self._backend.kubeconfig)],
                cwd=_ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", self._log.read_text()

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def loops(backend: Backend) -> Iterator[None]:
    """Our controllers, where the backend has none of its own."""
    running = Loops(backend)
    if backend.name != "real":
        running.start()
    try:
        yield
    finally:
        running.kill()


class Node:
    """Sets every pod of a namespace to Succeeded, and counts how many there ever were."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.seen: set[str] = set()
        self._room = asyncio.Semaphore(16)

    async def run(self) -> None:
        """Until cancelled; pods of before are seen first."""
        watch = self._client.resuming_watch(PODS, self._namespace, send_initial_events=True)
        async with asyncio.TaskGroup() as group, aclosing(aiter(watch)) as events:
            async for event in events:
                pod = event.object
                if event.type != "ADDED" or pod["metadata"]["uid"] in self.seen:
                    continue
                self.seen.add(pod["metadata"]["uid"])
                group.create_task(self._end(pod))

    async def _end(self, pod: Obj) -> None:
        async with self._room:
            try:
                await self._client.patch(
                    PODS,
                    pod["metadata"]["name"],
                    namespace=self._namespace,
                    patch={"status": {"phase": "Succeeded"}},
                    subresource="status",
                )
            except ApiError:
                return  # it was deleted before it could end


async def finished(client: KubeClient, namespace: str, name: str, seconds: float) -> Obj:
    """The job once it has its last condition."""
    async with asyncio.timeout(seconds):
        while True:
            job = await client.get(JOBS, name, namespace=namespace)
            conditions = (job.get("status") or {}).get("conditions") or ()
            if any(c["type"] in ("Complete", "Failed") for c in conditions):
                return job
            await asyncio.sleep(0.1)
