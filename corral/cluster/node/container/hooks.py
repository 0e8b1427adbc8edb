"""Lifecycle hooks, and the end of a container: preStop, the stop signal, and at last the kill."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Final

from corral.cluster.node.container.processes import Container, State
from corral.cluster.node.probes.probe import http_target, run_exec, run_http
from corral.cluster.node.probes.reach import DIRECT, Reach
from corral.kube.types import Obj

MINIMUM_GRACE: Final = 2.0
"""Seconds that are left for the signal, however long preStop took."""

Sleep = Callable[[float], Awaitable[object]]


async def run_hook(
    handler: Obj,
    container_spec: Obj,
    container: Container,
    address: str,
    *,
    reach: Reach = DIRECT,
    sleep: Sleep = asyncio.sleep,
) -> str | None:
    """Carry out a hook; None, or why it failed."""
    if action := handler.get("exec"):
        return await run_exec(container, action.get("command") or ())
    if action := handler.get("httpGet"):
        try:
            url, headers = http_target(action, container_spec, address)
        except ValueError as err:
            return str(err)
        return await run_http(url, headers, reach)
    if action := handler.get("sleep"):
        await sleep(float(action.get("seconds") or 0))
    return None


def stop_signal(container_spec: Obj) -> int:
    """The signal that asks a container to end; SIGTERM where it names none that we know."""
    name = (container_spec.get("lifecycle") or {}).get("stopSignal") or "SIGTERM"
    found = getattr(signal, name, signal.SIGTERM)
    return int(found) if isinstance(found, signal.Signals) else int(signal.SIGTERM)


class Termination:
    """The end of one container. ``shorten`` may be called while ``run`` is under way."""

    def __init__(
        self,
        container: Container,
        container_spec: Obj,
        address: str,
        *,
        reach: Reach = DIRECT,
        hook_failed: Callable[[str], None] = lambda why: None,
    ) -> None:
        self._container = container
        self._spec = container_spec
        self._address = address
        self._reach = reach
        self._hook_failed = hook_failed
        self._deadline = 0.0
        self._sooner = asyncio.Event()

    async def run(self, grace: float) -> State:
        """Return when nothing of the container is left."""
        clock = asyncio.get_running_loop().time
        self._deadline = clock() + grace
        handler = (self._spec.get("lifecycle") or {}).get("preStop")
        if handler and grace > 0:
            await self._until_deadline(self._pre_stop(handler))
            self._deadline = max(self._deadline, clock() + MINIMUM_GRACE)
        if grace > 0:
            await self._container.signal(stop_signal(self._spec))
            await self._until_deadline(self._container.wait())
        return await self._container.kill()

    async def _pre_stop(self, handler: Obj) -> None:
        why = await run_hook(handler, self._spec, self._container, self._address, reach=self._reach)
        if why is not None:
            self._hook_failed(why)

    def shorten(self, grace: float) -> None:
        """End sooner than was said before."""
        self._deadline = min(self._deadline, asyncio.get_running_loop().time() + grace)
        self._sooner.set()

    async def _until_deadline(self, work: Awaitable[object]) -> None:
        """Wait for ``work``, but no longer than until the deadline, wherever it moves to."""
        task = asyncio.ensure_future(work)
        clock = asyncio.get_running_loop().time
        try:
            while not task.done() and (left := self._deadline - clock()) > 0:
                self._sooner.clear()
                sooner = asyncio.ensure_future(self._sooner.wait())
                await asyncio.wait(
                    [task, sooner], timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
                sooner.cancel()
        finally:
            if not task.done():
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
