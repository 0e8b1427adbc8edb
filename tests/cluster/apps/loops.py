"""An event loop in a thread of its own, for what runs beside a case."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any


class LoopThread(ABC):
    """Runs one coroutine until it is told to end."""

    def __init__(self, name: str) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name=name)
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def work(self, ready: Callable[[], None]) -> None:
        """What runs; it calls ``ready`` once, and is cancelled at the end."""

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
