"""Runs informers, controllers and what belongs to them, in order and as one.

Start: events and informers, then the wait for the first lists, then (where there is an elector)
the wait for leadership, then controllers and tasks. Stop: the other way round; reconciles that are
going on have a grace period, and the lease is given away only when they are over. If any part
fails, everything is stopped and the failure is raised.

`problems` is what a liveness probe should ask: a process whose watches are deaf looks alive but is
not.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from corral.kube.client import KubeClient
from corral.kube.resources import Resource
from corral.runtime.controller import CacheSyncTimeout, Controller, Reconciler
from corral.runtime.events.recorder import EVENTS_AT_ONCE, EVENTS_PER_SECOND, EventRecorder
from corral.runtime.informers.informer import Informer, Transform, strip_managed_fields
from corral.runtime.informers.reflector import ReflectorSettings, Scope
from corral.runtime.leadership.leader import LeaderElector
from corral.runtime.metrics import RuntimeMetrics
from corral.runtime.queues.limiters import BucketLimiter, RateLimiter
from corral.runtime.sharing import WHOLE

__all__ = ["Manager", "ManagerSettings"]

logger = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]
Tasks = set[asyncio.Task[None]]


@dataclass(frozen=True, slots=True)
class ManagerSettings:
    """Seconds."""

    sync_timeout: float = 120.0
    """For the first lists of all informers."""
    grace: float = 30.0
    """For reconciles that are going on at a stop."""
    flush_timeout: float = 5.0
    """For events that are not written yet at a stop."""
    deaf_after: float = 180.0
    """Silence of the server after which an informer counts as deaf."""
    resync: float | None = None
    """How often informers report everything again; never without."""
    reflector: ReflectorSettings = field(default_factory=ReflectorSettings)


class Manager:
    """Everything that one process runs against one API server."""

    def __init__(
        self,
        client: KubeClient,
        *,
        settings: ManagerSettings | None = None,
        metrics: RuntimeMetrics | None = None,
        elector: LeaderElector | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.metrics = metrics
        self.share = WHOLE
        """Of the keys of controllers that are made from now on."""
        self._settings = settings or ManagerSettings()
        self._elector = elector
        self._clock = clock
        self._informers: dict[tuple[Scope, Transform | None], Informer] = {}
        self._controllers: list[Controller] = []
        self._recorders: list[EventRecorder] = []
        self._works: list[tuple[str, Work]] = []
        self._background: Tasks = set()
        self._stop = asyncio.Event()
        self._broken = asyncio.Event()
        """Set when a part of the background has ended by itself."""
        self._running = False
        self._begun = False

    # --- building --------------------------------------------------------------------------------

    def informer(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        transform: Transform | None = strip_managed_fields,
    ) -> Informer:
        """The informer of this scope, shared by all who ask for the same.

        One that is asked for while the manager runs is started at once; wait for it.
        """
        scope = Scope(resource, namespace, label_selector, field_selector)
        known = self._informers.get((scope, transform))
        if known is not None:
            return known
        informer = Informer(
            self.client,
            scope,
            transform=transform,
            settings=self._settings.reflector,
            resync=self._settings.resync,
            clock=self._clock,
        )
        self._informers[scope, transform] = informer
        if self.metrics:
            self.metrics.watch(str(scope), informer.age, informer.store.__len__)
        if self._running:
            self._start(f"informer {scope}", informer.run)
        return informer

    def controller(
        self,
        name: str,
        reconciler: Reconciler,
        *,
        workers: int = 1,
        timeout: float | None = None,
        limiter: RateLimiter | None = None,
    ) -> Controller:
        """A new controller that runs when the manager does."""
        controller = Controller(
            name,
            reconciler,
            workers=workers,
            timeout=timeout,
            limiter=limiter,
            metrics=self.metrics,
            share=self.share,
            clock=self._clock,
        )
        self.add(controller)
        return controller

    def add(self, controller: Controller) -> None:
        """Run this controller too; before the manager is started."""
        self._controllers.append(controller)

    def add_task(self, name: str, work: Work) -> None:
        """Run this beside the controllers (while leading); it is cancelled at a stop."""
        self._works.append((name, work))

    def recorder(self, component: str, *, host: str = "") -> EventRecorder:
        """A recorder whose events are written while the manager runs, so many a second.

        What is done comes before what is said about it: where much happens at once, events wait.
        """
        limiter = BucketLimiter(EVENTS_PER_SECOND, EVENTS_AT_ONCE, clock=self._clock)
        recorder = EventRecorder(
            self.client,
            component,
            host=host,
            limiter=limiter,
            metrics=self.metrics,
            clock=self._clock,
        )
        self._recorders.append(recorder)
        if self._running:
            self._start(f"events {component}", recorder.run)
        return recorder

    # --- health ----------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether every informer has its first list."""
        return self._running and all(informer.synced for informer in self._informers.values())

    async def wait_ready(self) -> None:
        """Return when every informer has its first list."""
        for informer in list(self._informers.values()):
            await informer.wait_synced()

    def problems(self) -> list[str]:
        """Why this process should be restarted; empty while it is well."""
        found = []
        if self._running:
            for informer in self._informers.values():
                if informer.age() > self._settings.deaf_after:
                    what = f"nothing was heard for {informer.age():.0f} s"
                    found.append(f"the watch of {informer.scope} is deaf: {what}")
        problem = self._elector.problem() if self._elector else ""
        return [*found, problem] if problem else found

    # --- running ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """Begin an orderly stop; `run` returns when it is over."""
        self._stop.set()

    async def run(self) -> None:
        """Run until `stop`.

        Raises:
            CacheSyncTimeout: an informer did not get its first list in time.
            LeadershipLost: another may lead now; everything was stopped.
        """
        self._running = True
        for informer in self._informers.values():
            self._start(f"informer {informer.scope}", informer.run)
        for recorder in self._recorders:
            self._start("events", recorder.run)
        main = asyncio.create_task(self._main(), name="manager")
        try:
            await self._supervise(main)
        finally:
            self._stop.set()
            await _cancel({main})
            await self._flush()
            await _cancel(self._background)
            self._running = False
        if not main.cancelled():
            main.result()

    async def _supervise(self, main: asyncio.Task[None]) -> None:
        """Wait until the main part is over; see that a stop or a failure ends it."""
        stop = asyncio.create_task(self._stop.wait())
        broken = asyncio.create_task(self._broken.wait())
        try:
            await asyncio.wait({main, stop, broken}, return_when=asyncio.FIRST_COMPLETED)
            if broken.done():
                for task in [task for task in self._background if task.done()]:
                    self._background.discard(task)
                    task.result()
                    raise RuntimeError(f"{task.get_name()} ended")
            # Work that has begun sees the stop itself and ends in order, the lease included.
            if not self._begun:
                await _cancel({main})
            await asyncio.wait({main})
        finally:
            await _cancel({stop, broken})

    async def _main(self) -> None:
        await self._wait_synced()
        if self._elector is not None:
            await self._elector.run(self._work)
        else:
            await self._work()

    async def _wait_synced(self) -> None:
        informers = list(self._informers.values())
        try:
            async with asyncio.timeout(self._settings.sync_timeout):
                for informer in informers:
                    await informer.wait_synced()
        except TimeoutError:
            missing = ", ".join(str(i.scope) for i in informers if not i.synced)
            limit = self._settings.sync_timeout
            raise CacheSyncTimeout(f"no first list within {limit:g} s of {missing}") from None

    async def _work(self) -> None:
        """Run controllers and tasks until the stop, then see them out."""
        self._begun = True
        controllers = {
            asyncio.create_task(controller.run(), name=controller.name)
            for controller in self._controllers
        }
        works = {asyncio.create_task(work(), name=name) for name, work in self._works}
        stop = asyncio.create_task(self._stop.wait())
        try:
            await _until(stop, controllers | works)
            for controller in self._controllers:
                controller.stop()
            await asyncio.gather(_cancel(works), self._wait_grace(controllers))
        finally:
            await _cancel(controllers | works)
            await _cancel({stop})

    async def _wait_grace(self, controllers: Tasks) -> None:
        if not controllers:
            return
        _, late = await asyncio.wait(controllers, timeout=self._settings.grace)
        for task in late:
            logger.warning("%s did not end within the grace period: cancelled", task.get_name())

    def _start(self, name: str, work: Work) -> None:
        """Run this until the end; it must not end by itself."""
        task = asyncio.create_task(work(), name=name)
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._broken.set()

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(self._settings.flush_timeout):
                for recorder in self._recorders:
                    await recorder.flush()
        except TimeoutError:
            logger.warning("some events were not written before the end")


async def _until(stop: asyncio.Task[Any], tasks: Tasks) -> None:
    """Wait for the stop; tasks may end before it but must not fail."""
    left: set[asyncio.Task[Any]] = set(tasks)
    while not stop.done():
        done, left = await asyncio.wait({stop, *left}, return_when=asyncio.FIRST_COMPLETED)
        left.discard(stop)
        for task in done:
            task.result()


async def _cancel(tasks: Tasks | set[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their ends, whatever comes of them."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
