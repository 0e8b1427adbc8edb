"""Removes what is no longer needed, beside the event loop: the kernel may take its time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

__all__ = ["Sweeper"]

logger = logging.getLogger(__name__)


class Sweeper:
    """What is given to it is done in order, soon, and before ``close`` returns."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="sweeper")

    def later(self, work: Callable[..., None], *args: object) -> None:
        """Do it; an OSError is logged, for the next agent on the folder will try again."""
        self._pool.submit(_do, work, args)

    async def close(self) -> None:
        """Return when everything is done."""
        await asyncio.to_thread(self._pool.shutdown)


def _do(work: Callable[..., None], args: tuple[object, ...]) -> None:
    try:
        work(*args)
    except OSError as err:
        logger.info("something stays for now: %s", err)
    except Exception:
        logger.exception("something could not be removed")
