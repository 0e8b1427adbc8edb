"""What clouds tell about machines from outside: one listener for each account."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast

from corral.clouds.base import CloudProvider, Notice
from corral.clouds.errors import CloudError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

__all__ = ["Listeners"]

logger = logging.getLogger(__name__)

_PAUSE: Final = 5.0


class Listeners:
    """Listens for as long as the operator works."""

    def __init__(self, hear: Callable[[Notice], None]) -> None:
        self._hear = hear
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """By account."""

    def listen(self, provider: CloudProvider, owner: str) -> None:
        """Begin, unless somebody listens to it already."""
        if id(provider) not in self._tasks:
            self._tasks[id(provider)] = asyncio.create_task(
                self._run(provider, owner), name=f"notices of {provider.name}"
            )

    async def _run(self, provider: CloudProvider, owner: str) -> None:
        while True:
            try:
                stream = cast("AsyncGenerator[Notice, None]", provider.notices(owner))
                async with aclosing(stream) as notices:
                    async for notice in notices:
                        self._hear(notice)
            except CloudError as error:
                logger.warning("cannot hear what %s tells: %s", provider.name, error)
            except Exception:  # the boundary of a worker: who does not listen finds out late
                logger.exception("cannot hear what %s tells", provider.name)
            await asyncio.sleep(_PAUSE)

    async def stop(self, provider: CloudProvider) -> None:
        """Listen to this one no longer."""
        task = self._tasks.pop(id(provider), None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
