"""Event loops in threads of their own, for what runs beside a case."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from corral.cluster.workloads.daemonset import controller as daemonset
from corral.cluster.workloads.deployment import controller as deployment
from corral.cluster.workloads.deployment import replicaset_controller
from corral.cluster.workloads.statefulset import controller as statefulset
from corral.kube import KubeClient
from corral.runtime import Manager


class LoopThread:
    """Runs one coroutine until it is told to end."""

    def __init__(self, name: str) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name=name)
        self._task: asyncio.Task[None] | None = None

    async def work(self, ready: Callable[[], None]) -> None:
        """What runs; it calls ``ready`` once, and is cancelled at the end."""
        raise NotImplementedError

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(60), "did not start in time"
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            loop.call_soon_threadsafe(task.cancel)
        self._thread.join(60)
        if self._failure is not None:
            raise self._failure

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run this in the loop; its result."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as failure:
            self._failure = failure
        finally:
            self._ready.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self.work(self._ready.set))
        await asyncio.wait({self._task})
        # TLS connections say goodbye after the client has been closed, and nothing tells when.
        await asyncio.sleep(0.1)
        if not self._task.cancelled():
            self._task.result()


class Controllers(LoopThread):
    """Our controllers of the apps group."""

    def __init__(self, kubeconfig: str) -> None:
        super().__init__("controllers")
        self._kubeconfig = kubeconfig

    async def work(self, ready: Callable[[], None]) -> None:
        async with KubeClient.from_kubeconfig(self._kubeconfig) as client:
            manager = Manager(client)
            for module in (deployment, replicaset_controller, statefulset, daemonset):
                module.register(manager)
            running = asyncio.create_task(manager.run())
            try:
                while not manager.ready:
                    await asyncio.wait({running}, timeout=0.01)
                    assert not running.done()
                ready()
                await asyncio.wait({running})
            finally:
                manager.stop()
                await running


def main() -> None:
    """Run the controllers until the process is killed, and say when they work."""
    asyncio.run(Controllers(sys.argv[1]).work(lambda: print("ready", flush=True)))


if __name__ == "__main__":
    main()
