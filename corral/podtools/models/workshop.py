"""Where a client has its model trained: two folders, and a confined process that is kept.

The process has what is given and leaves what it made; it loads a framework once, not in every
round. Where it does not answer there is a new one the next time.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from corral.podtools.confine import ConfineError, Kept, Limits, NotStarted, Unanswered

__all__ = ["WorkError", "Workshop"]

_NOTHING: Final = 64
"""Bytes of an answer: that it is done."""


class WorkError(Exception):
    """The model was not trained, or not tested; one line that says why."""


class Workshop:
    """Trains and tests the model of one client."""

    def __init__(self, folder: Path, *, seconds: int = 3600, memory: int = 8 << 30) -> None:
        """``seconds`` are those of one piece of work."""
        self.given = folder / "given"
        """Data, weights, the plan and, where the model travels as code, ``source``."""
        self.out = folder / "out"
        for place in (self.given, self.out):
            place.mkdir(exist_ok=True)
        self._seconds = seconds
        self._process = Kept(
            "corral.podtools.models.inside:work",
            [str(self.given), str(self.out)],
            readable=[self.given],
            writable=[self.out],
            limits=Limits(seconds=seconds, memory=memory),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.close()

    @property
    def started(self) -> int:
        """How many processes were started so far."""
        return self._process.started

    def do(self, what: Literal["train", "test"]) -> Path:
        """Have it done; the folder with what was made. Raises WorkError."""
        # emptied, not made anew: the process may write to this folder and no other
        for left in self.out.iterdir():
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)
            else:
                left.unlink()
        try:
            self._process.ask(what.encode(), seconds=self._seconds, most=_NOTHING)
        except (Unanswered, NotStarted, ConfineError) as error:
            raise WorkError(str(error)) from error
        return self.out
