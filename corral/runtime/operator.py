"""The frame of an operator process: signals, health, webhooks, and the manager inside.

Webhooks and health are served by every replica from the start; controllers run on the one that
leads. SIGTERM and SIGINT begin an orderly stop; the process is not ready any more from that moment,
so that a Service sends it nothing new, and what is going on is seen out. A second signal, or a
failure of any part, ends it. What `Operator.run` raises is for the process to exit with.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from corral.runtime.manager import Manager
from corral.runtime.serving.endpoints import Probe, health_app, serving
from corral.runtime.webhooks.service import WebhookService

__all__ = ["Operator", "OperatorSettings", "Served"]

logger = logging.getLogger(__name__)
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Where health and metrics are served."""

    health_host: str = "0.0.0.0"
    health_port: int | None = 8081
    """None serves neither; 0 takes any free port."""
    handle_signals: bool = True
    """Off where the operator is a part of a larger process."""


class Served(Protocol):
    """Something that every replica serves, leader or not; `WebhookService` is one."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Serve within."""

    def problems(self) -> list[str]:
        """What only a restart can mend; empty while all is well, and before the start."""

    def unready(self) -> str:
        """Why this replica cannot be asked; empty if it can."""


class Operator:
    """One replica of an operator."""

    def __init__(
        self,
        manager: Manager,
        *,
        webhooks: WebhookService | None = None,
        served: Mapping[str, Served] | None = None,
        settings: OperatorSettings | None = None,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        """``served`` is what is served beside webhooks, by the name of its health checks.

        ``on_ready`` is called once, when every informer has its first list.
        """
        self.manager = manager
        self.webhooks = webhooks
        self._served: dict[str, Served] = {"webhooks": webhooks} if webhooks else {}
        self._served |= served or {}
        self._settings = settings or OperatorSettings()
        self._on_ready = on_ready
        self._stopping = False
        self.health_port = 0
        """Where health is served; 0 where it is not."""

    def stop(self) -> None:
        """Begin an orderly stop; `run` returns when it is over."""
        self._stopping = True
        self.manager.stop()

    async def run(self) -> None:
        """Run until `stop` or a signal.

        Raises:
            CacheSyncTimeout: an informer did not get its first list in time.
            LeadershipLost: another may lead now; everything was stopped.
            ApiError: certificates cannot be read or written.
            OSError: an address cannot be had.
        """
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._health())
            if self._settings.handle_signals:
                stack.enter_context(_Signals(self._signalled))
            for served in self._served.values():
                await stack.enter_async_context(served.running())
            await self._run_manager()

    async def _run_manager(self) -> None:
        announce = asyncio.create_task(self._announce(), name="operator ready")
        try:
            await self.manager.run()
        finally:
            announce.cancel()
            await asyncio.gather(announce, return_exceptions=True)

    async def _announce(self) -> None:
        await self.manager.wait_ready()
        logger.info("the operator is ready")
        if self._on_ready is not None:
            self._on_ready()

    @asynccontextmanager
    async def _health(self) -> AsyncIterator[None]:
        settings = self._settings
        if settings.health_port is None:
            yield
            return
        live: dict[str, Probe] = {
            name: partial(_problems, served) for name, served in self._served.items()
        }
        ready: dict[str, Probe] = {name: served.unready for name, served in self._served.items()}
        app = health_app(self.manager, live=live, ready={"stop": self._stop_problem, **ready})
        async with serving(app, settings.health_host, settings.health_port) as port:
            self.health_port = port
            yield
        self.health_port = 0

    def _stop_problem(self) -> str:
        return "stopping" if self._stopping else ""

    def _signalled(self, number: int) -> None:
        name = signal.Signals(number).name
        if self._stopping:
            logger.warning("%s again: ending at once", name)
            raise SystemExit(128 + number)
        logger.info("%s: stopping", name)
        self.stop()


def _problems(served: Served) -> str:
    return "\n".join(served.problems())


class _Signals:
    """Signals go to a function within."""

    def __init__(self, handler: Callable[[int], None]) -> None:
        self._handler = handler

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._handler, int(number))

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
