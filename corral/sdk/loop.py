"""The sync face of async code: one private event loop in a thread of its own.

It works wherever the caller is, also inside a running loop (notebooks). A call that is interrupted
(Ctrl-C) is cancelled and has ended when the interrupt goes on; an iterator that is left early is
closed. The thread ends with the interpreter or with `close`, whichever comes first.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

__all__ = ["LoopThread"]

T = TypeVar("T")
_PATIENCE: Final = 10.0
"""Seconds for a cancelled call to end."""


class _Call(Generic[T]):
    """One coroutine on its way; `begin` and `cancel` run in the loop.

    It is there before anything is scheduled, so that an interrupt at any moment finds it.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._cancelled = False
        self.result: Future[T] = Future()
        self.over = threading.Event()

    def begin(self) -> None:
        if not self._cancelled:
            self._task = asyncio.get_running_loop().create_task(self._work)
            self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()
        else:
            self._work.close()
            self.over.set()

    def _end(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.result.cancel()
        elif (error := task.exception()) is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(task.result())
        self.over.set()


class LoopThread:
    """Runs coroutines for callers that have no event loop to spare."""

    def __init__(self, name: str = "corral-sdk") -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, however long it takes. Raises what it raises."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a callback of the SDK called the SDK: use the async client there")
        call = _Call(work)
        try:
            self._loop.call_soon_threadsafe(call.begin)
            return call.result.result()
        except BaseException:
            if not call.result.done() and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(call.cancel)
                call.over.wait(_PATIENCE)
            elif not call.result.done():
                work.close()
            raise

    def iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        """An async iterator as an ordinary one; closed when this one is."""
        try:
            while True:
                try:
                    yield self.run(_next(source))
                except StopAsyncIteration:
                    return
        finally:
            closing = getattr(source, "aclose", None)
            if closing is not None and not self._loop.is_closed():
                self.run(closing())

    def close(self) -> None:
        """End the thread; a second time does nothing."""
        if self._loop.is_closed() or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(_PATIENCE)


async def _next(source: AsyncIterator[T]) -> T:
    return await anext(source)
