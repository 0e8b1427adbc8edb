"""Our controllers beside a case, in a thread of their own; where the backend has its own, none."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from corral.kube import KubeClient
from corral.runtime import Manager
from tests.backends import Backend

Register = Callable[[Manager], None]


@contextmanager
def controllers(backend: Backend, *registers: Register) -> Iterator[None]:
    """Run these against the backend, unless kube-controller-manager runs there."""
    if backend.name != "embedded":
        yield
        return
    started = threading.Event()
    stop: list[Callable[[], None]] = []
    failed: list[BaseException] = []

    selector = selectors.DefaultSelector()

    async def main() -> None:
        async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
            manager = Manager(client)
            for register in registers:
                register(manager)
            loop = asyncio.get_running_loop()
            stop.append(lambda: loop.call_soon_threadsafe(manager.stop))
            running = asyncio.create_task(manager.run())
            while not manager.ready and not running.done():  # noqa: ASYNC110 - bounded by the case
                await asyncio.sleep(0.01)
            started.set()
            await running
        # What is closed over TLS is gone a little later.
        async with asyncio.timeout(10):
            while len(selector.get_map()) > 1:  # noqa: ASYNC110 - the rest is the loop's own
                await asyncio.sleep(0.005)

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
                runner.run(main())
        except BaseException as error:  # told to the case below
            failed.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run, name="controllers")
    thread.start()
    try:
        assert started.wait(60)
        yield
    finally:
        for call in stop:
            if not failed:
                call()
        thread.join(60)
    assert not failed, failed
