"""List and watch without end: tells a sink the whole state, then every change.

Guarantees:
- The sink is told of every change, or of the whole state again (after which it must work out the
  difference): there is no gap it does not hear of.
- The first list is satisfied with what the server has at hand; a later one is never older than
  what was seen before. A version that the server has forgotten, or does not know yet, is given up
  for the newest state.
- A watch that is silent for too long is opened anew (`corral.kube.watch`); one that stays silent
  nevertheless is given up for a list, so that a deaf watch heals itself.
- It ends only by cancellation. Every failure is logged and followed by a wait that grows.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError, Gone
from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.kube.watch import (
    BOOKMARK_GRACE_SECONDS,
    ResumingWatch,
    WatchEvent,
    WatchRequest,
    is_initial_events_end,
)
from corral.runtime.informers.backoff import Backoff, BackoffSettings
from corral.runtime.keys import key_of, version_of

__all__ = ["Reflector", "ReflectorSettings", "Scope", "Sink", "is_version_too_large"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects: two informers of the same scope are the same."""

    resource: Resource
    namespace: str | None = None
    """``None`` for all namespaces."""
    label_selector: str = ""
    field_selector: str = ""

    def __str__(self) -> str:
        parts = [self.resource.qualified, self.namespace, self.label_selector, self.field_selector]
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class ReflectorSettings:
    """How patient a reflector is; seconds."""

    page_size: int = 500
    watch_list: bool = False
    """Ask for the initial state by a watch; falls back to lists where the server cannot."""
    idle_timeout: float = BOOKMARK_GRACE_SECONDS
    """Longest silence of a watch before it is opened anew."""
    relist_after: float = 150.0
    """Longest silence, over any number of watches, before everything is listed again."""
    backoff: BackoffSettings = field(default_factory=BackoffSettings)


class Sink(Protocol):
    """Who is told."""

    def replaced(self, objects: list[Obj], version: str) -> None:
        """This is the whole state."""

    def changed(self, event: WatchEvent) -> None:
        """A change, or a bookmark."""


class Reflector:
    """The loop for one scope."""

    def __init__(
        self,
        client: KubeClient,
        scope: Scope,
        sink: Sink,
        *,
        settings: ReflectorSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self.scope = scope
        self._sink = sink
        self._settings = settings or ReflectorSettings()
        self._clock = clock
        self._rng = rng
        self._sleep = sleep
        self._backoff = Backoff(self._settings.backoff, clock=clock, rng=rng)
        self._watch_list = self._settings.watch_list
        self.version = ""
        """Where the sink is: the version of the last list, event or bookmark it was told of."""
        self.last_activity = clock()
        """Clock time of the last list, event or bookmark."""
        self.lists = 0
        """How often the whole state was fetched."""

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                await self._list_and_watch()
            except Gone as error:
                logger.info("%s: the version has expired, listing again: %s", self.scope, error)
                # The list that follows may begin at once, unless the one before did not help.
                if self._clock() - self.last_activity >= 1.0:
                    continue
            except (ApiError, KubeConnectionError) as error:
                logger.warning("%s: list and watch failed: %s", self.scope, error)
            except TimeoutError:
                logger.warning("%s: the watch is deaf, listing again", self.scope)
            except Exception:
                # An object or a transform that nobody expected must not end the copy for good.
                logger.exception("%s: list and watch failed", self.scope)
            await self._sleep(self._backoff.next())

    async def _list_and_watch(self) -> None:
        if self._watch_list and await self._stream_and_watch():
            return
        objects, version = await self._list()
        self._replace(objects, version)
        watch = self._watch(version)
        async with aclosing(watch.events()) as events:
            await self._follow(events)

    # --- the whole state -------------------------------------------------------------------------

    async def _list(self) -> tuple[list[Obj], str]:
        # The first list takes what the server has at hand, a later one nothing older than that.
        version = self.version or "0"
        try:
            page = await self._page(version)
        except ApiError as error:
            if not version or not (isinstance(error, Gone) or is_version_too_large(error)):
                raise
            logger.info("%s: listing the newest state instead: %s", self.scope, error)
            page = await self._page("")
        return page["items"], version_of(page)

    async def _page(self, version: str) -> Obj:
        # In pages a list at a version is read from storage; whole, the watch cache answers it.
        whole = version not in ("", "0")
        return await self._client.list_all(
            self.scope.resource,
            self.scope.namespace,
            label_selector=self.scope.label_selector,
            field_selector=self.scope.field_selector,
            resource_version=version or None,
            page_size=0 if whole else self._settings.page_size,
        )

    def _replace(self, objects: list[Obj], version: str) -> None:
        self.lists += 1
        self._sink.replaced(objects, version)
        self.version = version
        self.last_activity = self._clock()

    async def _stream_and_watch(self) -> bool:
        """Get the initial state by a watch and go on with it; whether the server can do that."""
        watch = self._watch(self.version, initial=True)
        async with aclosing(watch.events()) as events:
            try:
                async with asyncio.timeout(self._settings.relist_after):
                    objects = await self._collect(events)
            except (ApiError, KubeConnectionError, TimeoutError) as error:
                logger.info("%s: no initial state by watch, listing: %s", self.scope, error)
                # One that lost its connection may work next time; one that was refused will not.
                self._watch_list = not isinstance(error, ApiError) or isinstance(error, Gone)
                return False
            self._replace(objects, watch.resource_version)
            await self._follow(events)
        return True

    async def _collect(self, events: AsyncGenerator[WatchEvent, None]) -> list[Obj]:
        found: dict[str, Obj] = {}
        async for event in events:
            if is_initial_events_end(event):
                return list(found.values())
            if event.type == "DELETED":
                found.pop(key_of(event.object), None)
            elif event.type != "BOOKMARK":
                found[key_of(event.object)] = event.object
        raise KubeConnectionError("the watch ended within its initial events")

    # --- changes ---------------------------------------------------------------------------------

    def _watch(self, version: str, *, initial: bool = False) -> ResumingWatch:
        request = WatchRequest(
            self.scope.resource,
            self.scope.namespace,
            resource_version=version,
            label_selector=self.scope.label_selector,
            field_selector=self.scope.field_selector,
            send_initial_events=initial,
            idle_timeout=self._settings.idle_timeout,
        )
        return ResumingWatch(
            self._client.transport, request, rng=self._rng, clock=self._clock, sleep=self._sleep
        )

    async def _follow(self, events: AsyncGenerator[WatchEvent, None]) -> None:
        """Tell the sink every change.

        Raises:
            TimeoutError: nothing came for so long that the watch must be deaf.
        """
        loop = asyncio.get_running_loop()
        limit = self._settings.relist_after
        async with asyncio.timeout(limit) as deadline:
            rearmed = loop.time()
            async for event in events:
                self._sink.changed(event)
                self.version = version_of(event.object) or self.version
                self.last_activity = self._clock()
                now = loop.time()
                # A timer per event would cost more than the event; once a second is enough.
                if now - rearmed > 1.0:
                    deadline.reschedule(now + limit)
                    rearmed = now


def is_version_too_large(error: ApiError) -> bool:
    """Whether the server has not yet got as far as the version that was asked for."""
    if error.status_code != 504:
        return False
    causes = error.details.get("causes") or ()
    if any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes):
        return True
    # Older servers give no cause.
    return "Too large resource version" in error.message
