"""Room on the gateway's disk for models under way: shared by flow, and never the last of the disk.

What is held is what was promised, not what has come: a request that is let in finds room for all of
it. Files are those of `corral.files.temporary`.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from corral.gateway.limits import Busy, Shares

__all__ = ["Uploads"]

_KEPT: Final = 1 << 30
"""Bytes of the disk that are left free, or a tenth of it where that is less."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


def _disk() -> tuple[int, int]:
    """The size of the disk that temporary files are on, and what is free of it."""
    found = shutil.disk_usage(tempfile.gettempdir())
    return found.total, found.free


class Uploads:
    """The bytes of models that are read or pushed."""

    def __init__(self, most: int, *, disk: Callable[[], tuple[int, int]] = _disk) -> None:
        self._shares, self._disk = Shares(most), disk

    @contextmanager
    def room(self, flow: str, size: int) -> Iterator[None]:
        """Hold room for so many bytes.

        Raises:
            Busy: the flow has its share under way already, or too little of the disk is free.
        """
        if not self._shares.fits(flow, size):
            raise Busy("as many models are under way as the gateway takes: send this one later")
        total, free = self._disk()
        # what others have written of theirs counts twice: rather too little than a full disk
        if free - self._shares.total - size < min(_KEPT, total // 10):
            raise Busy("too little of the gateway's disk is free for this model")
        self._shares.take(flow, size)
        try:
            yield
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise Busy("the gateway's disk is full") from error
        finally:
            self._shares.give(flow, size)
