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
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from corral.runtime.endpoints import health_app, serving
from corral.runtime.manager import Manager
from corral.runtime.webhooks.service import WebhookService

__all__ = ["Operator", "OperatorSettings"]

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


class Operator:
    """One replica of an operator."""

    def __init__(
        self,
        manager: Manager,
        *,
        webhooks: WebhookService | None = None,
        settings: OperatorSettings | None = None,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        """``on_ready`` is called once, when every informer has its first list."""
        self.manager = manager
        self.webhooks = webhooks
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
            if self.webhooks is not None:
                await stack.enter_async_context(self.webhooks.running())
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
        app = health_app(
            self.manager,
            live={"webhooks": self._webhook_problems},
            ready={"stop": self._stop_problem, "webhooks": self._webhooks_unready},
        )
        async with serving(app, settings.health_host, settings.health_port) as port:
            self.health_port = port
            yield
        self.health_port = 0

    def _webhook_problems(self) -> str:
        return "\n".join(self.webhooks.problems()) if self.webhooks else ""

    def _webhooks_unready(self) -> str:
        return self.webhooks.unready() if self.webhooks else ""

    def _stop_problem(self) -> str:
        return "stopping" if self._stopping else ""

    def _signalled(self, number: int) -> None:
        name = signal.Signals(number).name
        if self._stopping:
            logger.warning("%s again: ending at once", name)
            raise SystemExit(128 + number)
        logger.info("%s: stopping", name)
        self.stop()


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
