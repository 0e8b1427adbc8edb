"""Notices from looking at VMs from outside: the fallback where nothing inside a VM tells us.

`changes` is the whole decision; `watch` feeds it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

from corral.clouds.base import Notice, NoticeKind, Vm
from corral.clouds.errors import CloudError

__all__ = ["changes", "watch"]

logger = logging.getLogger(__name__)


def changes(
    before: Mapping[str, Vm], after: Sequence[Vm], *, now: float, taken: frozenset[str]
) -> list[Notice]:
    """Which VMs were alive and are not any more; ``taken`` are those known to be preempted.

    VMs that were never seen alive are told of too, if they are there and dead: whoever asks may
    have been away when they died.
    """
    current = {vm.name: vm for vm in after}
    notices = []
    for name in sorted({*before, *current}):
        old, new = before.get(name), current.get(name)
        if (new is not None and new.alive) or (old is not None and not old.alive):
            continue
        if new is not None and new.preempted is not None:
            preempted: bool | None = new.preempted
        else:
            preempted = True if name in taken else None
        notices.append(
            Notice(
                kind=NoticeKind.GONE,
                vm=name,
                seen=now,
                source="state",
                preempted=preempted,
                text=new.raw_state if new is not None else "no longer there",
            )
        )
    return notices


async def watch(
    look: Callable[[], Awaitable[Sequence[Vm]]],
    taken: Callable[[], Awaitable[frozenset[str]]],
    *,
    interval: float,
    clock: Callable[[], float] = time.time,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[Notice]:
    """Look again and again; a cloud that does not answer is asked next time."""
    before: dict[str, Vm] = {}
    while True:
        try:
            after = await look()
            names = {vm.name for vm in after if vm.alive}
            # only when something died is it worth asking why
            known = await taken() if _died(before, after) else frozenset()
        except CloudError as error:
            logger.warning("cannot look at VMs: %s", error)
        else:
            for notice in changes(before, after, now=clock(), taken=known - names):
                yield notice
            before = {vm.name: vm for vm in after}
        await pause(interval)


def _died(before: Mapping[str, Vm], after: Sequence[Vm]) -> bool:
    alive = {vm.name for vm in after if vm.alive}
    return any(not vm.alive for vm in after) or any(name not in alive for name in before)
