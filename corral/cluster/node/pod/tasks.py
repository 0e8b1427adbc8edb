"""The tasks of one pod: none is forgotten, and none fails unheard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["PodTasks"]

logger = logging.getLogger(__name__)


class PodTasks:
    """Each task is of a kind, by which it can be waited for or cancelled."""

    def __init__(self, pod: str, failed: Callable[[BaseException], None]) -> None:
        self._pod = pod
        self._failed = failed
        self._tasks: dict[asyncio.Task[None], str] = {}

    def spawn(
        self, work: Coroutine[Any, Any, None], kind: str, what: str = ""
    ) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=" ".join(filter(None, (kind, what, self._pod))))
        self._tasks[task] = kind
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s failed", task.get_name(), exc_info=error)
            self._failed(error)

    def cancel(self, *kinds: str) -> None:
        """Those of these kinds; all, when none is given."""
        for task, kind in list(self._tasks.items()):
            if (not kinds or kind in kinds) and task is not asyncio.current_task():
                task.cancel()

    async def wait(self, *kinds: str) -> None:
        """Until there is none of these kinds any more (of any, when none is given) but us."""
        while others := [
            task
            for task, kind in self._tasks.items()
            if (not kinds or kind in kinds)
            and task is not asyncio.current_task()
            and not task.done()  # it is not here any more in the next turn of the loop
        ]:
            await asyncio.gather(*others, return_exceptions=True)
