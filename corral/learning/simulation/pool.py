"""The processes that virtual clients live in."""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import TracebackType
from typing import Self

from corral.learning.simulation.clients import Answer, Client, ClientProblem, Work, answer, load
from corral.learning.workers import cores

_CHUNKS = 4
"""Pieces of work for each process: few, and yet none waits long for the last one."""


class _Member:
    """One process: its client, its folder, and which model lies there."""

    client: Client | None = None
    folder: Path
    model = ""


def _begin(spec: str, folder: str) -> None:
    _Member.client = load(spec)
    _Member.folder = Path(tempfile.mkdtemp(dir=folder))


def _work(model: str, works: Sequence[Work]) -> list[Answer]:
    assert _Member.client is not None
    if model != _Member.model:
        link = _Member.folder / "model"
        link.unlink(missing_ok=True)
        if model:
            link.symlink_to(model)
        _Member.model = model
    return [answer(_Member.client, work, _Member.folder) for work in works]


class Pool:
    """Runs clients of one kind; a context manager."""

    def __init__(self, client: str, *, folder: Path, workers: int = 0) -> None:
        """Raises `ClientProblem` when there is no such client."""
        load(client)
        self.workers = workers or cores()
        # spawn: what the client does is not disturbed by threads that were here before
        self._executor = ProcessPoolExecutor(
            self.workers,
            multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(client, str(folder)),
        )

    async def run(self, works: Sequence[Work], *, model: str = "") -> list[Answer]:
        """The answers in the order of the works; ``model`` is a file for all of them.

        Raises:
            ClientProblem: a process was killed by what a client did.
        """
        size = max(-(-len(works) // (self.workers * _CHUNKS)), 1)
        loop = asyncio.get_running_loop()
        calls = [
            loop.run_in_executor(self._executor, _work, model, works[at : at + size])
            for at in range(0, len(works), size)
        ]
        try:
            return [one for answers in await asyncio.gather(*calls) for one in answers]
        except BrokenProcessPool as error:
            raise ClientProblem("a client ended the process that it was in") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._executor.shutdown(cancel_futures=True)
