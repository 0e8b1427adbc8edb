"""Other processes that share the work of an operator that leads.

Python uses one core a process; a leader with many jobs may use more by partners, each of which has
its share of the keys of every family that can be shared. They live as long as the leader leads:
they hold no lease, and end when the pipe to the leader is closed, which its death does too. The
end of one ends the leader, so that whoever restarts it begins with all.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

__all__ = ["PartnerLost", "end_with_leader", "partners"]

logger = logging.getLogger(__name__)
_LIMIT: Final = 10.0
"""Seconds that a partner has to end in order."""
_LOST: Final = 70


class PartnerLost(Exception):
    """A process that had a share of the work has ended."""


async def partners(commands: Sequence[Sequence[str]]) -> None:
    """Run these until cancelled.

    Raises:
        PartnerLost: one ended by itself.
    """
    started: list[asyncio.subprocess.Process] = []
    try:
        for command in commands:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, start_new_session=True
            )
            started.append(process)
            logger.info("partner %d shares the work", process.pid)
        ends = {asyncio.create_task(each.wait(), name=str(each.pid)) for each in started}
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ends:
                task.cancel()
        ended = next(iter(done))
        raise PartnerLost(f"partner {ended.get_name()} ended with {ended.result()}")
    finally:
        await asyncio.gather(*(_end(process) for process in started))


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(_LIMIT):
            await process.wait()
    except TimeoutError:
        logger.warning("partner %d did not end in %g s: killed", process.pid, _LIMIT)
        process.kill()
        await process.wait()


def end_with_leader(stop: Callable[[], None]) -> None:
    """Call this when the leader closes the pipe; should that not suffice, end at once.

    The leader waits for a partner to end before it gives its lease away. If it was killed it
    cannot, and its lease may be taken after some seconds: nothing may be written then.
    """
    loop = asyncio.get_running_loop()
    pipe = sys.stdin.fileno()

    def closed() -> None:
        if os.read(pipe, 4096):
            return  # nobody says anything; whatever it is, it is not the end
        loop.remove_reader(pipe)
        logger.info("the leader is gone: ending")
        stop()
        loop.call_later(_LIMIT / 2, os._exit, _LOST)

    loop.add_reader(pipe, closed)
