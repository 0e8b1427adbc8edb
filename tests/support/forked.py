"""Runs cases on several processes, forked when everything is collected (``--workers``).

To import and collect the tests takes a processor many seconds, and hundreds of MiB. Workers that
are forked afterwards have all of it at once, and share the memory: there can be more of them than
processors, which is what cases need that wait for other processes most of the time.

A worker takes one group of cases after the other (see `tests.conftest`) and sends the reports of
its cases to the process that forked it, which shows and counts them. Where a worker dies, its case
has failed, and another one takes the rest of its group. A worker that hangs in a case is made to
say where it stands, and to die. (A watchdog within it, as pytest's own, is a thread that is started
and ended for every case, which on a busy machine takes longer than most cases.)
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest

GroupOf = Callable[[Path], str]
SILENCE = 600.0
"""Seconds after which a worker that has reported nothing hangs: longer than any case may take."""


@dataclass(eq=False)
class Worker:
    """A worker, as the process knows it that forked it."""

    pid: int
    pipe: Connection
    left: deque[int] = field(default_factory=deque)
    """Numbers of the cases that it was given and has not finished."""
    heard: float = field(default_factory=time.monotonic)
    """When it last said something."""


class Forked:
    """The plugin: replaces the loop over all cases."""

    def __init__(
        self, config: pytest.Config, group_of: GroupOf, *, silence: float = SILENCE
    ) -> None:
        self._config = config
        self._silence = silence
        self._most = config.getoption("--workers")
        self._group_of = group_of
        self._workers: dict[Connection, Worker] = {}
        self._forked = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # the ordinary loop says so
        self._session = session
        self._groups = deque(_groups(session.items, self._group_of))
        reporter: Any = self._config.pluginmanager.getplugin("terminalreporter")
        reporter.showfspath = False
        for number in (signal.SIGINT, signal.SIGTERM):  # either one ends what cases have started
            signal.signal(number, signal.default_int_handler)
        for _ in range(min(self._most, len(self._groups))):
            self._fork()
        try:
            while self._workers:
                for pipe in wait(list(self._workers), timeout=min(self._silence, 5.0)):
                    assert isinstance(pipe, Connection)
                    self._hear(self._workers[pipe])
                self._end_silent()
        finally:
            self._end()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        return True

    def _fork(self) -> None:
        ours, theirs = Pipe()
        self._forked += 1
        base = self._config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        pid = os.fork()
        if pid == 0:
            for pipe in (ours, *self._workers):
                pipe.close()
            _work(self._session, theirs, base / f"worker{self._forked}")
        theirs.close()
        self._workers[ours] = Worker(pid, ours)

    def _hear(self, worker: Worker) -> None:
        worker.heard = time.monotonic()
        try:
            what, content = worker.pipe.recv()
        except (EOFError, ConnectionError):
            self._over(worker)
            return
        if what == "more":
            over = self._session.shouldfail or self._session.shouldstop
            numbers = self._groups.popleft() if self._groups and not over else []
            worker.left.extend(numbers)
            worker.pipe.send(numbers)
        elif what == "report":
            hook = self._config.hook
            report = hook.pytest_report_from_serializable(config=self._config, data=content)
            hook.pytest_runtest_logreport(report=report)
            if self._session.shouldfail:
                self._interrupt()
        else:
            item = self._session.items[worker.left.popleft()]
            self._config.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _end_silent(self) -> None:
        for worker in self._workers.values():
            if time.monotonic() - worker.heard > self._silence:
                worker.heard = time.monotonic()
                os.kill(worker.pid, signal.SIGABRT)  # pytest's faulthandler says where it stands

    def _over(self, worker: Worker) -> None:
        """It has ended: with everything done, or in the middle of a case."""
        del self._workers[worker.pipe]
        worker.pipe.close()
        _, status = os.waitpid(worker.pid, 0)
        if not worker.left or self._session.shouldfail:
            return
        item = self._session.items[worker.left.popleft()]
        code = os.waitstatus_to_exitcode(status)
        text = f"the worker ended with {code} (negative: by a signal) in this case"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        self._config.hook.pytest_runtest_logreport(report=report)
        if worker.left:
            self._groups.appendleft(list(worker.left))
        if self._groups:
            self._fork()

    def _interrupt(self) -> None:
        for worker in self._workers.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGINT)

    def _end(self) -> None:
        """Whatever still runs ends what its cases have started, and then itself."""
        self._interrupt()
        for worker in self._workers.values():
            worker.pipe.close()
            os.waitpid(worker.pid, 0)
        self._workers.clear()


def _groups(items: list[pytest.Item], group_of: GroupOf) -> Iterator[list[int]]:
    """Numbers of the cases of each group, which are next to each other."""
    for _, numbers in groupby(range(len(items)), key=lambda number: group_of(items[number].path)):
        yield list(numbers)


def _work(session: pytest.Session, pipe: Connection, folder: Path) -> NoReturn:
    """The life of a worker."""
    try:
        _be_apart(session.config, folder)
        _run(session, pipe)
    except (KeyboardInterrupt, EOFError, ConnectionError):
        pass  # nobody waits for more
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one is enough: what was started is ended
        with contextlib.suppress(BaseException):
            session._setupstate.teardown_exact(None)
        os._exit(0)


def _be_apart(config: pytest.Config, folder: Path) -> None:
    """Share neither folders, nor captured output, nor random numbers with other workers."""
    random.seed()
    folder.mkdir(mode=0o700)
    config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
    config.get_terminal_writer()._file = open(os.devnull, "w")
    captured: Any = config.pluginmanager.getplugin("capturemanager")
    captured.stop_global_capturing()
    captured.start_global_capturing()
    captured.suspend_global_capture()


def _run(session: pytest.Session, pipe: Connection) -> None:
    """All cases that this worker is given."""
    hook = session.config.hook
    session.config.pluginmanager.register(_Sender(session.config, pipe))
    numbers: deque[int] = deque()

    def following() -> pytest.Item | None:
        if not numbers:
            pipe.send(("more", None))
            numbers.extend(pipe.recv())
        return session.items[numbers.popleft()] if numbers else None

    item = following()
    while item is not None:
        after: Any = _Next(following)
        hook.pytest_runtest_protocol(item=item, nextitem=after)
        pipe.send(("finished", None))
        item = after.item


class _Next:
    """The case that follows, asked for when it is looked at: while the one before is torn down.

    Fixtures that both use stay. Asked for earlier, a group would wait behind a long case while
    other workers have nothing to do.
    """

    def __init__(self, following: Callable[[], pytest.Item | None]) -> None:
        self._following = following

    @cached_property
    def item(self) -> pytest.Item | None:
        return self._following()

    def __bool__(self) -> bool:
        return self.item is not None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.item, name)


class _Sender:
    """Sends reports."""

    def __init__(self, config: pytest.Config, pipe: Connection) -> None:
        self._config = config
        self._pipe = pipe

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        self._pipe.send(("report", data))
