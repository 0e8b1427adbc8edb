"""Watches: one answer as events, and a watch that survives lost connections.

`watch_events` is one request. `ResumingWatch` keeps the last resource version through events and
bookmarks and reconnects from it, so that its caller sees no gap; when the server no longer has that
version it raises `Gone`, and the caller must list again.

Objects are yielded as they were decoded and never touched again: the caller owns them.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import aiohttp
import orjson

from corral.kube.connection.transport import KubeConnectionError, Transport
from corral.kube.errors import ServiceUnavailable, TooManyRequests, error_from_status
from corral.kube.resources import Resource
from corral.kube.types import Obj

__all__ = ["ResumingWatch", "WatchEvent", "WatchRequest", "is_initial_events_end", "watch_events"]

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
BOOKMARK_GRACE_SECONDS = 70.0
"""Bookmarks come once a minute: a watch that is silent for longer than this is deaf."""


class WatchEvent(NamedTuple):
    """``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``, and the object."""

    type: str
    object: Obj


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What to watch and from where."""

    resource: Resource
    namespace: str | None = None
    """None watches the objects of all namespaces."""
    resource_version: str = ""
    label_selector: str = ""
    field_selector: str = ""
    bookmarks: bool = True
    timeout_seconds: int | None = None
    """When the server is asked to end the watch."""
    send_initial_events: bool = False
    """Begin with the present state and a bookmark that `is_initial_events_end`."""
    idle_timeout: float | None = None
    """Longest silence in seconds before the connection counts as lost."""
    accept: str = "application/json"

    def query(self) -> list[tuple[str, str]]:
        query = [("watch", "true")]
        if self.resource_version:
            query.append(("resourceVersion", self.resource_version))
        if self.bookmarks:
            query.append(("allowWatchBookmarks", "true"))
        if self.label_selector:
            query.append(("labelSelector", self.label_selector))
        if self.field_selector:
            query.append(("fieldSelector", self.field_selector))
        if self.timeout_seconds is not None:
            query.append(("timeoutSeconds", str(self.timeout_seconds)))
        if self.send_initial_events:
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        return query


def is_initial_events_end(event: WatchEvent) -> bool:
    """Whether this bookmark says that the initial events are complete."""
    if event.type != "BOOKMARK":
        return False
    annotations = event.object.get("metadata", {}).get("annotations") or {}
    return annotations.get(INITIAL_EVENTS_END) == "true"


async def watch_events(
    transport: Transport, request: WatchRequest
) -> AsyncGenerator[WatchEvent, None]:
    """The events of one watch request, until the server ends it.

    Raises:
        ApiError: the server refused, or sent an ERROR event; `Gone` for an expired version.
        KubeConnectionError: the connection was lost; `IdleTimeout` if it was silent too long.
    """
    response = await transport.open_stream(
        request.resource.path(request.namespace),
        query=request.query(),
        accept=request.accept,
        idle_timeout=request.idle_timeout,
    )
    async with _cut_when_left(response):
        pieces: list[bytes] = []
        while True:
            try:
                chunk = await response.content.readany()
            except (aiohttp.ClientError, TimeoutError, OSError) as e:
                raise transport.failure(e) from e
            if not chunk:
                return
            # Objects larger than one read are collected and joined once, not grown piece by piece.
            head, newline, rest = chunk.rpartition(b"\n")
            if not newline:
                pieces.append(chunk)
                continue
            pieces.append(head)
            lines = b"".join(pieces).split(b"\n")
            pieces = [rest] if rest else []
            for line in lines:
                if line:
                    yield _decode(line)


@asynccontextmanager
async def _cut_when_left(response: aiohttp.ClientResponse) -> AsyncIterator[None]:
    """Closes it; before its end without a farewell, which would go on behind our back."""
    async with response:
        try:
            yield
        finally:
            connection = response.connection
            if connection is not None and connection.transport is not None:
                connection.transport.abort()


_loads = orjson.loads


def _decode(line: bytes) -> WatchEvent:
    try:
        event = _loads(line)
        kind, obj = event["type"], event["object"]
    except (ValueError, KeyError, TypeError) as e:
        raise KubeConnectionError(f"the watch sent a line that is no event: {line[:200]!r}") from e
    if kind == "ERROR":
        raise error_from_status(obj)
    return WatchEvent(kind, obj)


@dataclass(frozen=True, slots=True)
class WatchBackoff:
    """Waits between failed connections, as in client-go's reflector."""

    first: float = 0.8
    factor: float = 2.0
    cap: float = 30.0
    healthy_after: float = 1.0
    """A watch that lived this long, or gave an event, is not a failed one."""


class ResumingWatch:
    """An endless watch: iterate over it; `resource_version` is where it would resume.

    It reconnects when the server ends a watch, when the connection is lost or idle for too long,
    and on 429 and 503. It raises

    - `Gone` when the resource version has expired: list again and start a new one;
    - `KubeConnectionError` when the connection is lost before there is a version to resume from
      (a start without one, before its first bookmark or change);
    - every other `ApiError` as it is.
    """

    def __init__(
        self,
        transport: Transport,
        request: WatchRequest,
        *,
        backoff: WatchBackoff | None = None,
        rng: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if request.idle_timeout is None and request.bookmarks:
            request = replace(request, idle_timeout=BOOKMARK_GRACE_SECONDS)
        self._transport = transport
        self._request = request
        self._backoff = backoff or WatchBackoff()
        self._rng = rng
        self._clock = clock
        self._sleep = sleep
        # Initial events come in no order of versions: theirs are no point to resume from.
        self._settled = request.resource_version not in ("", "0")
        self._settled &= not request.send_initial_events
        self.resource_version = request.resource_version
        """Version of the last event or bookmark."""
        self.last_activity = clock()
        """Clock time of the last event or bookmark: tells a deaf watch from a quiet one."""
        self.connections = 0
        """How many requests were made."""

    def __aiter__(self) -> AsyncGenerator[WatchEvent, None]:
        return self.events()

    async def events(self) -> AsyncGenerator[WatchEvent, None]:
        """The events; wrap it in ``contextlib.aclosing`` to leave early."""
        failures = 0
        while True:
            started, received = self._clock(), 0
            problem: Exception | None = None
            try:
                self.connections += 1
                request = self._next_request()
                async with aclosing(watch_events(self._transport, request)) as events:
                    async for event in events:
                        received += 1
                        self._note(event)
                        yield event
            except (KubeConnectionError, TooManyRequests, ServiceUnavailable) as e:
                problem = e
            if not self._settled:
                raise problem or KubeConnectionError(
                    "the watch ended before it gave a version to resume from"
                )
            # A watch that ends at once without a word is a failure too: some servers do so when
            # the version is stale, and asking again at full speed would be a busy loop.
            silent = not received and self._clock() - started < self._backoff.healthy_after
            failures = failures + 1 if silent else 0
            if problem is not None or silent:
                await self._sleep(self._wait(failures))

    def _next_request(self) -> WatchRequest:
        timeout = self._request.timeout_seconds
        if timeout is None:
            # Spread over five minutes so that many watches do not reconnect at the same time.
            timeout = 300 + int(300 * self._rng())
        return replace(
            self._request,
            resource_version=self.resource_version,
            timeout_seconds=timeout,
            send_initial_events=self._request.send_initial_events and not self._settled,
        )

    def _note(self, event: WatchEvent) -> None:
        self.last_activity = self._clock()
        if not self._settled:
            if event.type == "ADDED":
                return
            if self._request.send_initial_events and not is_initial_events_end(event):
                return
            self._settled = True
        version = event.object.get("metadata", {}).get("resourceVersion")
        if version:
            self.resource_version = version

    def _wait(self, failures: int) -> float:
        wait = self._backoff.first * self._backoff.factor ** min(max(failures - 1, 0), 16)
        return min(wait, self._backoff.cap) * (1 + self._rng())
