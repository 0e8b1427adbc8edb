"""Follow a job until it is over: its progress in place in a terminal, plain lines elsewhere.

Three things go on at once and end together: changes of the job, its log lines, and Ctrl-C. Ctrl-C
asks whether to leave the job alone or to stop it; where nobody can be asked, it is left alone.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import aclosing, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from corral.cli.keys import read_key
from corral.cli.references import Found
from corral.cli.session import Session
from corral.cli.views.loglines import Prefixes, label, shown
from corral.cli.views.output import say
from corral.kube.printable import printable
from corral.kube.types import Obj

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from corral.client import LogChunk, Summary

__all__ = ["Ending", "Follower"]

_REFRESH: Final = 0.25
"""Seconds between two pictures."""
_LOOK: Final = 1.0
"""Seconds between two looks at the pods."""
_LATE_LINES: Final = 10.0
"""Seconds that the last lines of a job may come after its end."""
QUESTION: Final = "detach, stop the job, or continue watching? [d/s/c] "


class Ending(StrEnum):
    """Why following ended."""

    finished = "finished"
    deleted = "deleted"
    detached = "detached"
    stopped = "stopped"


class Follower:
    """Follows one job; `run` once."""

    def __init__(
        self, session: Session, found: Found, *, console: Console, logs: bool = True
    ) -> None:
        from corral.cli.views.live import JobView

        self._session, self._found, self._console = session, found, console
        self._logs = logs
        self._view = JobView(found.title, phase=found.kind.phase(found.obj))
        self._live: Live | None = None
        self._prefixes = Prefixes(
            colour=console.is_terminal and not console.no_color, escaped=console.is_terminal
        )
        self._several = True
        self._told = ""
        self._free = asyncio.Event()
        """Clear while a question stands in the terminal: nothing else is written then."""
        self._free.set()
        self.last: Obj = found.obj
        """The job as it was seen last."""

    async def run(self) -> Ending:
        """Until the job is over, or its follower had enough."""
        interrupted = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, interrupted.set)
        self._open()
        try:
            return await self._until_end(interrupted)
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            self._close()

    async def _until_end(self, interrupted: asyncio.Event) -> Ending:
        changes = asyncio.create_task(self._changes())
        helpers = [asyncio.create_task(self._look()), asyncio.create_task(self._draw())]
        logs = asyncio.create_task(self._lines()) if self._logs else None
        asked = asyncio.create_task(self._ask(interrupted))
        try:
            await asyncio.wait({changes, asked}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return asked.result()
            ending = changes.result()
            if logs is not None:
                await asyncio.wait({logs}, timeout=_LATE_LINES)
            await self._see()
            return ending
        finally:
            tasks = [changes, asked, *helpers, *([logs] if logs is not None else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- what is seen ---------------------------------------------------------------------------

    async def _changes(self) -> Ending:
        kind, session = self._found.kind, self._session
        watch = session.jobs.watch(kind, session.namespace, self._found.name)
        async with aclosing(watch) as changes:
            async for change in changes:
                self.last = change.object
                if change.type == "DELETED":
                    self._tell("Deleted", "")
                    return Ending.deleted
                self._view.phase = change.phase
                self._view.message = kind.message(change.object)
                self._view.report((change.object.get("status") or {}).get("progress"))
                self._tell(change.phase, self._view.message)
                if kind.finished(change.object):
                    return Ending.finished
        return Ending.deleted

    async def _look(self) -> None:
        """Pods change without the job changing."""
        while True:
            await self._see()
            await asyncio.sleep(_LOOK)

    async def _see(self) -> None:
        from corral.client import errors

        kind = self._found.kind
        with suppress(errors.JobError):  # the next look, or the watch, tells
            summary = await self._session.jobs.summary(
                kind, self._session.namespace, self._found.name
            )
            self._picture(summary)

    def _picture(self, summary: Summary) -> None:
        from corral.cli.views.live import Replica

        self._several = sum(max(one.desired or 0, one.running) for one in summary.replicas) > 1
        self._view.elapsed = summary.duration_seconds
        self._view.report(summary.progress)
        self._view.replicas = [
            Replica(label(pod.role), pod.reason or pod.phase) for pod in summary.pods
        ]

    async def _lines(self) -> None:
        from corral.client import LogQuery

        session, found = self._session, self._found
        query = LogQuery(follow=True)
        chunks = session.jobs.logs(found.kind, session.namespace, found.name, query, job=found.obj)
        async with aclosing(chunks) as lines:
            async for chunk in lines:
                await self._free.wait()
                self._write(chunk)

    # -- what is shown --------------------------------------------------------------------------

    def _open(self) -> None:
        if not self._console.is_terminal:
            return
        from rich.live import Live

        self._live = Live(
            self._view.render(), console=self._console, auto_refresh=False, transient=True
        )
        self._live.start()

    def _close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
            self._console.print(self._view.render())

    async def _draw(self) -> None:
        while True:
            await self._free.wait()
            if self._live is not None:
                self._live.update(self._view.render(), refresh=True)
            await asyncio.sleep(_REFRESH)

    def _tell(self, phase: str, message: str) -> None:
        """A change of phase, where there is no picture."""
        line = f"{self._found.title} {phase}" + (f": {message}" if message else "")
        if not self._console.is_terminal and self._told != phase:
            say(" ".join(line.split()), err=True)
        self._told = phase

    def _write(self, chunk: LogChunk) -> None:
        terminal = self._console.is_terminal
        plain = shown(chunk.data) if terminal else chunk.data
        data = self._prefixes.put(chunk) if self._several else plain
        if not terminal:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        from rich.text import Text

        # the only sequences left are the colours of our prefixes
        text = data.decode().removesuffix("\n")
        self._console.print(Text.from_ansi(text), soft_wrap=True)

    # -- Ctrl-C ---------------------------------------------------------------------------------

    async def _ask(self, interrupted: asyncio.Event) -> Ending:
        while True:
            await interrupted.wait()
            interrupted.clear()
            if not self._console.is_terminal or not sys.stdin.isatty():
                return Ending.detached
            answer = await self._answer(interrupted)
            if answer == "s":
                await self._stop()
                return Ending.stopped
            if answer == "d":
                return Ending.detached

    async def _answer(self, interrupted: asyncio.Event) -> str:
        """A key; a second Ctrl-C, or the end of input, means to leave it alone."""
        self._free.clear()
        self._close()
        self._console.print(f"\n{printable(self._found.title)}: {QUESTION}", end="", markup=False)
        try:
            answer = await read_key("dsc", interrupted, otherwise="d")
            self._console.print(answer)
            return answer
        finally:
            interrupted.clear()
            self._open()
            self._free.set()

    async def _stop(self) -> None:
        kind, session, name = self._found.kind, self._session, self._found.name
        if kind.suspendable:
            await session.jobs.suspend(kind, session.namespace, name)
        else:
            await session.jobs.delete(kind, session.namespace, name)
