"""A node that ends every pod as soon as it sees it, and a way to kill and restart controllers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import aclosing

from corral.kube.client import KubeClient
from corral.kube.errors import ApiError
from corral.kube.resources import JOBS, PODS
from corral.kube.types import Obj
from tests.backends import Backend


class Loops:
    """Our controllers as a process that can be killed at any moment."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = self._backend.spawn(
            "killable", sys.executable, "-m", "corral.cli.main", "workloads",
            "--kubeconfig", str(self._backend.kubeconfig), "--controllers", "job,ttl",
        )  # fmt: skip

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            self._backend.processes.remove(process)


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
