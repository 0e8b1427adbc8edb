"""The seats: every request takes one of its priority level, flows in turn.

A seat stands for the server's own work. Who waits for something outside (the disk, a webhook, a
large write in another process, a client that reads slowly) lends it out meanwhile: a slow webhook
of one tenant does not hold the seats of all, and a few seats are enough to keep the server busy.
Levels do not borrow from each other.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import TypeVar

from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.fairness.defaults import MANDATORY_LEVELS, MANDATORY_SCHEMAS
from corral.cluster.apiserver.fairness.matching import FlowSchema
from corral.cluster.apiserver.requests import RequestInfo
from corral.cluster.apiserver.store import Event, Store
from corral.cluster.apiserver.turns import Turns, too_many
from corral.kube import errors
from corral.kube.types import Obj

__all__ = ["Dispatcher", "Seat", "breathe", "elsewhere", "lasting"]

T = TypeVar("T")

SCHEMAS = "flowcontrol.apiserver.k8s.io/flowschemas"
LEVELS = "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations"
CONCURRENCY = 2
"""Seats of all levels together, at least one each. Upstream has 600 on many processors and counts
all who wait; here there is one processor, and who has a seat uses it."""
UPSTREAM_CONCURRENCY = 600
"""What a level that refuses instead of queueing takes its share of: so many requests at once."""
QUEUE_SECONDS = 15.0
"""The longest that a request waits for its seat."""
_LONG = frozenset({"proxy", "exec", "attach", "portforward", "log"})
"""Subresources whose requests last: they hold no seats, as upstream."""
_KEPT = 4096


class Level:
    """One priority level."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.uid = ""
        self.turns: Turns | None = None
        """None: exempt."""

    def configure(self, obj: Obj, all_shares: int) -> None:
        self.uid = obj["metadata"].get("uid", "")
        limited = obj["spec"].get("limited")
        if limited is None:
            self.turns = None
            return
        share = limited.get("nominalConcurrencyShares", 30) / max(all_shares, 1)
        places = math.ceil(share * CONCURRENCY)
        if limited.get("borrowingLimitPercent") != 0:  # else none is meant: it holds what comes
            places = max(places, 1)
        queuing = (limited.get("limitResponse") or {}).get("queuing")
        if queuing is None:  # who is here already waits for its turn, and others are refused
            per_flow = most = max(0, math.ceil(share * UPSTREAM_CONCURRENCY) - places)
        else:
            length = queuing.get("queueLengthLimit", 50)
            per_flow = length * queuing.get("handSize", 8)
            most = length * queuing.get("queues", 64)
        if self.turns is None:
            self.turns = Turns(places, waiting_per_flow=per_flow, waiting=most)
        else:
            self.turns.resize(places, waiting_per_flow=per_flow, waiting=most)


class Seat:
    """A request's place; given back once, however often it is asked for."""

    __slots__ = ("_flow", "_held", "_lent", "_turns", "headers")

    def __init__(self, level: Level, flow: str, headers: dict[str, str]) -> None:
        self._turns = level.turns
        self._flow = flow
        self._held = False
        self._lent = 0
        """How many parts of the request wait for something."""
        self.headers = headers

    @property
    def exempt(self) -> bool:
        """Whether nothing limits who has it."""
        return self._turns is None

    async def take(self) -> None:
        """Wait for the flow's turn. Raises TooManyRequests."""
        turns = self._turns
        if turns is None:
            return
        if not turns.take_next(self._flow):
            try:
                async with asyncio.timeout(QUEUE_SECONDS):
                    await turns.take(self._flow)
            except TimeoutError:
                raise too_many() from None
        self._held = True

    async def turn(self) -> None:
        """Wait for the flow's turn, and hold nothing: for a request that lasts.

        It is never refused: after the longest time that others wait it goes on all the same.
        """
        turns = self._turns
        if turns is None:
            return
        if not turns.take_free():
            try:
                async with asyncio.timeout(QUEUE_SECONDS):
                    await turns.take(self._flow, patient=True)
            except TimeoutError:
                return
        turns.give_soon()

    def give(self) -> None:
        if self._held:
            self._held = False
            if self._turns is not None:
                self._turns.give_soon()

    def lend(self) -> bool:
        """Let others have it for a while; False where there is nothing to lend."""
        if self._turns is None or not (self._held or self._lent):
            return False
        self.give()
        self._lent += 1
        return True

    async def take_back(self) -> None:
        """Go on when it is the flow's turn again, once all parts of the request have come back.

        What a hundred requests waited for is done for all of them at once, such as a write to the
        disk: they go on one after the other. After the longest time that others wait, one goes on
        all the same.
        """
        self._lent -= 1
        turns = self._turns
        if self._lent or turns is None:
            return
        if not turns.take_free():
            try:
                async with asyncio.timeout(QUEUE_SECONDS):
                    await turns.take(self._flow, patient=True, ahead=True)
            except TimeoutError:
                turns.take_back()
        self._held = True

    def lost(self) -> None:
        """A part of the request was cancelled where it waited."""
        self._lent -= 1

    async def pause(self, work: Awaitable[T]) -> T:
        """Wait for a client to take what was written; then it is the flow's turn again."""
        turns = self._turns
        if turns is None or not self._held:
            return await work
        self.give()
        result = await work
        if not turns.take_free():
            await turns.take(self._flow, patient=True)
        self._held = True
        return result


_CURRENT: ContextVar[Seat | None] = ContextVar("seat", default=None)


async def elsewhere(work: Awaitable[T]) -> T:
    """Wait for something outside: the request's seat is free meanwhile."""
    seat = _CURRENT.get()
    if seat is None or not seat.lend():
        return await work
    try:
        result = await work
    except asyncio.CancelledError:
        seat.lost()
        raise
    except BaseException:
        await seat.take_back()
        raise
    await seat.take_back()
    return result


async def breathe() -> None:
    """Between two parts of long work on the event loop: others have their turn first."""
    seat = _CURRENT.get()
    work = asyncio.sleep(0)
    await (work if seat is None else seat.pause(work))


class Dispatcher:
    """Finds the level and the flow of a request, by the objects as they are now."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._levels: dict[str, Level] = {}
        self._schemas: list[tuple[FlowSchema, Level, dict[str, str]]] = []
        self._known: dict[tuple[object, ...], tuple[Level, str, dict[str, str]]] = {}
        self._stale = True
        store.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.entry.resource in (SCHEMAS, LEVELS):
            self._stale = True

    def seat(self, user: UserInfo, info: RequestInfo) -> Seat:
        """The seat that a request needs; ``Seat.take`` waits for it."""
        if self._stale:
            self._load()
        where = info.path if not info.resource else info.subresource
        key = (user.name, user.groups, info.verb, info.group, info.resource, where, info.namespace)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[key] = self._find(user, info)
        seat = Seat(*found)
        _CURRENT.set(seat)
        return seat

    def level(self, name: str) -> Level | None:
        if self._stale:
            self._load()
        return self._levels.get(name)

    def _find(self, user: UserInfo, info: RequestInfo) -> tuple[Level, str, dict[str, str]]:
        for schema, level, headers in self._schemas:
            if schema.matches(user, info):
                return level, schema.flow(user, info), headers
        raise errors.InternalError("Internal error occurred: no flow schema matches the request")

    def _load(self) -> None:
        levels = self._objects(LEVELS, MANDATORY_LEVELS)
        schemas = [FlowSchema(obj) for obj in self._objects(SCHEMAS, MANDATORY_SCHEMAS).values()]
        shares = sum(
            (obj["spec"].get("limited") or {}).get("nominalConcurrencyShares", 0)
            for obj in levels.values()
        )
        kept = {name: self._levels.get(name) or Level(name) for name in levels}
        for name, level in kept.items():
            level.configure(levels[name], shares)
        self._levels = kept
        schemas.sort(key=lambda s: (s.precedence, s.name))
        self._schemas = [(s, kept[s.level], _headers(s, kept[s.level])) for s in schemas
                         if s.level in kept]  # fmt: skip
        self._known.clear()
        self._stale = False

    def _objects(self, table: str, mandatory: dict[str, Obj]) -> dict[str, Obj]:
        stored = {entry.name: entry.decode() for entry in self._store.scan(table)}
        return {**mandatory, **stored}


def _headers(schema: FlowSchema, level: Level) -> dict[str, str]:
    return {
        "X-Kubernetes-PF-FlowSchema-UID": schema.uid,
        "X-Kubernetes-PF-PriorityLevel-UID": level.uid,
    }


def lasting(info: RequestInfo) -> bool:
    """Requests that hold no seat: they last, and cost little while they do."""
    return info.subresource in _LONG
