"""Saving without stopping the training: copy the state, write the copy in the background.

`save` returns as soon as the state is copied, into memory that is kept and used again; digests,
writing and publishing happen in threads that mostly run outside the interpreter lock. One save
is in flight at a time: a second `save` waits for the first, `try_save` does not. A failure in the
background is raised by the next call. Files given as `Path` are read in the background and must
not change until then.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from corral.checkpoints import state as states
from corral.checkpoints import transfer
from corral.checkpoints.errors import SaveFailed
from corral.checkpoints.manifest import Manifest
from corral.checkpoints.repository import Repository
from corral.checkpoints.writer import About, Shard

_PIECE = 128 << 20
"""Bytes copied at once: large enough to bypass the caches, which the copy would only spoil."""
_COPIERS = 4
"""Threads that copy; few of them saturate the memory, and idle ones cost nothing."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long the last save took, in seconds; what a checkpoint interval is computed from."""

    pause: float = 0.0
    """Seconds for which the training stood still."""
    total: float = 0.0
    """From the call to the published manifest."""


class Saver:
    """Saves the states of one training loop; used from one thread."""

    def __init__(
        self,
        repository: Repository,
        *,
        shard: Shard | None = None,
        shard_size: int = states.SHARD_SIZE,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._repository = repository
        self._shard = shard
        self._shard_size = shard_size
        self._timer = timer
        self._arena = memoryview(b"")
        self._pool = ThreadPoolExecutor(1, "checkpoint-saver")
        self._copiers = ThreadPoolExecutor(_COPIERS, "checkpoint-copier")
        self._pending: Future[Manifest | None] | None = None
        self._lock = threading.Lock()
        self.timing = Timing()

    @property
    def busy(self) -> bool:
        """Whether a save is in flight."""
        return self._pending is not None and not self._pending.done()

    def reserve(self, state: Mapping[str, Any]) -> None:
        """Makes room for a state of this size, so that the first save pauses no longer."""
        self._grow(states.lay_out(state).size, touch=True)

    def save(
        self, state: Mapping[str, Any], step: int, about: About | None = None
    ) -> Future[Manifest | None]:
        """Copies the state and writes the copy in the background.

        Raises:
            SaveFailed: if the save before failed; nothing is saved then.
        """
        self.wait()
        began = self._timer()
        layout = states.lay_out(state)
        self._snapshot(layout)
        paused = self._timer() - began
        self.timing = Timing(paused, self.timing.total)
        self._pending = self._pool.submit(self._write, layout, step, about, began, paused)
        return self._pending

    def try_save(
        self, state: Mapping[str, Any], step: int, about: About | None = None
    ) -> Future[Manifest | None] | None:
        """As `save`, but does nothing while another save is in flight."""
        return None if self.busy else self.save(state, step, about)

    def wait(self) -> Manifest | None:
        """Waits for the save in flight.

        Raises:
            SaveFailed: if it failed.
        """
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        try:
            return pending.result()
        except Exception as error:
            raise SaveFailed(f"the checkpoint was not saved: {error}") from error

    def close(self) -> None:
        """Finishes the save in flight and gives the memory back."""
        try:
            self.wait()
        finally:
            self._pool.shutdown()
            self._copiers.shutdown()
            self._arena = memoryview(b"")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(
        self,
        layout: states.Layout,
        step: int,
        about: About | None,
        began: float,
        paused: float,
    ) -> Manifest | None:
        about = about or About(kind="state")
        with self._repository.begin(step, about, shard=self._shard) as writer:
            states.add_stream(writer, layout, self._stream, shard_size=self._shard_size)
            manifest = writer.commit()
        self.timing = Timing(paused, self._timer() - began)
        return manifest

    def _stream(self, start: int, end: int) -> Iterator[memoryview]:
        return transfer.pieces(self._arena[start:end])

    def _snapshot(self, layout: states.Layout) -> None:
        self._grow(layout.size)
        futures = [
            self._copiers.submit(_copy, self._arena[start:end], entry.view[a:b])
            for entry in layout.entries
            for start, end, a, b in _pieces(entry.offset, entry.view.nbytes)
        ]
        for future in futures:
            future.result()

    def _grow(self, size: int, *, touch: bool = False) -> None:
        if len(self._arena) < size:
            self._arena = states.allocate(size)
            if touch:
                for start in range(0, size, 4096):
                    self._arena[start] = 0


def _pieces(offset: int, length: int) -> Iterator[tuple[int, int, int, int]]:
    for start in range(0, length, _PIECE):
        end = min(start + _PIECE, length)
        yield offset + start, offset + end, start, end


def _copy(target: memoryview, source: memoryview) -> None:
    """Copies memory; without the interpreter lock where the source's address can be had."""
    if source.readonly:
        target[:] = source
        return
    kind = ctypes.c_char * len(source)
    ctypes.memmove(kind.from_buffer(target), kind.from_buffer(source), len(source))
