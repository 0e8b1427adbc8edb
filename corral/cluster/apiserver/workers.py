"""A few processes for work that is all computation, started when there is some.

A job is a function of ours and its arguments, pickled. The processes run at a lower priority, end
when they have been idle for a while, and are killed over a job that takes too long.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from corral.cluster.apiserver.errors import too_deep
from corral.cluster.apiserver.memory import give_back_memory
from corral.cluster.apiserver.turns import Turns
from corral.kube import errors

T = TypeVar("T")

PROCESSES = max(1, min(2, (os.cpu_count() or 1) - 1))
SECONDS = 60.0
"""A job that takes longer is given up, as upstream gives up a request."""
CPU_SECONDS = 20
"""Of the processor, for one job: the kernel ends the process over it. What others leave of the
machine counts for nothing here, for the processes give way to them."""
IDLE_SECONDS = 20.0
NICE = 10
"""Absolute. And of the kernel's batch class: who wakes up does not wait for the end of their turn.
"""
MEMORY = 3 * 2**30
"""Address space of a process: more than any request within the limits needs."""


class Overdue(errors.Timeout):
    """The job was given up."""


class _Worker:
    """One process and the thread that talks to it."""

    def __init__(self, cpu_seconds: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), str(cpu_seconds)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._line = Connection(ours.detach())
        self._thread = ThreadPoolExecutor(1, "worker")

    async def run(self, job: bytes) -> Any:
        """What the job returns. Raises what it raises, and Overdue."""
        loop = asyncio.get_running_loop()
        answer = loop.run_in_executor(self._thread, self._exchange, job)
        try:
            async with asyncio.timeout(SECONDS):
                raw = await answer
        except TimeoutError:
            raise Overdue(f"Timeout: the request took more than {SECONDS:.0f} seconds") from None
        failed, value = pickle.loads(raw)
        if failed:
            raise value
        return value

    def _exchange(self, job: bytes) -> bytes:
        self._line.send_bytes(job)
        return self._line.recv_bytes()

    def end(self) -> None:
        """The process ends with its connection; one that computes is killed."""
        self._process.kill()
        self._process.wait()
        self._thread.shutdown(wait=True)
        self._line.close()


class Workers:
    """Runs jobs, at most ``PROCESSES`` at a time, flow by flow."""

    def __init__(
        self, *, waiting_per_flow: int, waiting: int, cpu_seconds: int = CPU_SECONDS
    ) -> None:
        self._cpu_seconds = cpu_seconds
        self.turns = Turns(PROCESSES, waiting_per_flow=waiting_per_flow, waiting=waiting)
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, flow: str, work: Callable[..., T], *args: Any) -> T:
        """``work(*args)`` in a process. Raises TooManyRequests, Overdue, what the work raises."""
        await self.turns.take(flow)
        # a caller who goes away leaves a job behind that takes its place until it is done
        task = asyncio.create_task(self._run(pickle.dumps((work, args), protocol=5)))
        task.add_done_callback(self._done)
        result: T = await asyncio.shield(task)
        return result

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.turns.give()
        if not task.cancelled():
            task.exception()  # who waited for it has it

    async def _run(self, job: bytes) -> Any:
        worker = self._idle.pop() if self._idle else self._start()
        well = False
        try:
            result = await worker.run(job)
            well = True
            return result
        except (EOFError, OSError) as err:
            raise errors.InternalError(
                "Internal error occurred: the request was too much for the server"
            ) from err
        except errors.ApiError as err:
            well = not isinstance(err, Overdue)
            raise
        finally:
            if well:
                self._idle.append(worker)
                self._watch_idle()
            else:  # it may be in the middle of something
                self._end(worker)

    def _start(self) -> _Worker:
        worker = _Worker(self._cpu_seconds)
        self._all.add(worker)
        return worker

    def _end(self, worker: _Worker) -> None:
        self._all.discard(worker)
        asyncio.get_running_loop().run_in_executor(None, worker.end)

    def _watch_idle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end_idle)

    def _end_idle(self) -> None:
        while self._idle:
            self._end(self._idle.pop())
        asyncio.get_running_loop().run_in_executor(None, give_back_memory)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._idle.clear()
        while self._all:
            self._all.pop().end()


def serve(line: Connection, cpu_seconds: int) -> None:
    """Do the jobs that come until nobody is there any more."""
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    while True:
        try:
            raw = line.recv_bytes()
        except EOFError:
            return
        limit = int(time.process_time()) + 1 + cpu_seconds
        resource.setrlimit(resource.RLIMIT_CPU, (limit if most < 0 else min(limit, most), most))
        try:
            work, args = pickle.loads(raw)
            answer = pickle.dumps((False, work(*args)), protocol=5)
        except errors.ApiError as err:
            answer = pickle.dumps((True, portable(err)))
        except Exception as err:
            text = f"Internal error occurred: {type(err).__name__}: {err}"
            refusal = too_deep(err) or errors.InternalError(text[:2000])
            answer = pickle.dumps((True, portable(refusal)))
        line.send_bytes(answer)


class Carried(errors.ApiError):
    """A refusal from another process, as it was."""

    def __init__(self, status: dict[str, Any], code: int, reason: str) -> None:
        super().__init__(status["message"], code=code, reason=reason)
        self.details = status.get("details") or {}
        self._status = status

    @property
    def status(self) -> dict[str, Any]:
        return self._status

    def __reduce__(self) -> tuple[Any, ...]:
        return Carried, (self._status, self.status_code, self.status_reason)


def portable(err: errors.ApiError) -> errors.ApiError:
    """A refusal that can be pickled."""
    return Carried(err.status, err.status_code, err.status_reason)


def main() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        serve(Connection(int(sys.argv[1])), int(sys.argv[2]))
    except (KeyboardInterrupt, BrokenPipeError):
        return


if __name__ == "__main__":
    # by its own name: what is pickled here must be found there
    from corral.cluster.apiserver.workers import main as started

    started()
