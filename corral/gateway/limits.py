"""What one caller may take: requests a second, bytes of a body, places at the same time, and time.

Everything is bounded: a rate by flow (`corral.gateway.auth.flow_of`: a user as the API server knows
them, or all service accounts of a namespace), and by address for whoever it does not know yet;
tokens that it refuses, by address; the number of ordinary requests at work, of those that wait for
a place and of open streams, in total and by flow. A token by itself counts for nothing: anybody can
make one up. Whoever is refused is told when to come back.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

__all__ = [
    "Busy",
    "LimitSettings",
    "Places",
    "RateLimited",
    "RateLimiter",
    "Shares",
    "StreamPlaces",
    "place_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """The bounds of a gateway."""

    rate: float = 50.0
    """Requests a second of one flow; or of one address, with tokens that are not known yet."""
    burst: int = 200
    """Requests that may come at once."""
    failure_rate: float = 1.0
    """Tokens a second that the API server refuses, of one address."""
    failure_burst: int = 20
    """Such tokens that may come at once; then nobody it does not know yet is let in from there."""
    body_bytes: int = 3 * 1024 * 1024
    """Of a request; as much as an API server takes."""
    model_bytes: int = 1 << 30
    """Of a request with a model; it goes to a file and from there to a registry."""
    models_bytes: int = 4 << 30
    """Of all requests with a model that are under way; one flow has at most half of it."""
    requests: int = 256
    """Ordinary requests at work at the same time."""
    waiting: int = 1024
    """Ordinary requests that may wait for a place."""
    streams: int = 4096
    """Open watches and logs."""
    streams_each: int = 1024
    """Open watches and logs of one flow."""
    request_seconds: float = 30.0
    """How long an ordinary request may take, waiting included."""
    log_seconds: float = 300.0
    """How long a log may be read or followed; the caller then goes on where it ended."""
    watch_seconds: float = 3600.0
    """How long a watch may last; the caller then goes on where it ended."""


class RateLimited(Exception):
    """Too many requests; `retry_after` is in whole seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests: come back in {retry_after} s")
        self.retry_after = retry_after


class Busy(Exception):
    """Every place is taken; the words say which ones."""

    retry_after = 1


class RateLimiter:
    """Token buckets, one for each key; the least recently used are forgotten."""

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        keys: int = 16384,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate, self._burst, self._keys, self._clock = rate, burst, keys, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Key to what is left, and when that was; most recently used last."""

    def check(self, key: str) -> None:
        """Whether one more may come, without counting it. Raises RateLimited."""
        left, since = self._buckets.get(key, (float(self._burst), self._clock()))
        left = min(self._burst, left + (self._clock() - since) * self._rate)
        if left < 1:
            raise RateLimited(max(1, math.ceil((1 - left) / self._rate)))

    def take(self, key: str) -> int:
        """Count one request; gives how many more may come at once. Raises RateLimited."""
        now = self._clock()
        left, since = self._buckets.pop(key, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._rate)
        allowed = left >= 1
        self._buckets[key] = (left - 1 if allowed else left, now)
        while len(self._buckets) > self._keys:
            self._buckets.popitem(last=False)
        if not allowed:
            raise RateLimited(max(1, math.ceil((1 - left) / self._rate)))
        return int(left - 1)


def place_of(address: str) -> str:
    """What an address counts as; of IPv6 it is the network, which one machine may have."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    mapped = found.ipv4_mapped
    return str(mapped) if mapped is not None else str(ip_network((found, 64), strict=False))


class Shares:
    """Units that flows share: one may have as many as it leaves free for the others.

    So one flow alone gets half, and each that comes after it at most half of what is left; as what
    is taken comes back, their shares become equal.
    """

    def __init__(self, count: int, *, each: int | None = None) -> None:
        """``each`` bounds what one flow may have, whatever is free."""
        self._count, self.each = count, count if each is None else each
        self._taken: Counter[str] = Counter()
        """Never 0: who has nothing is not in it."""
        self.total = 0
        """The sum of all that is taken."""

    def of(self, flow: str) -> int:
        """What a flow has."""
        return self._taken[flow]

    def fits(self, flow: str, amount: int = 1) -> bool:
        """Whether a flow may have so much more."""
        return self._taken[flow] + amount <= min(self.each, self._count - self.total)

    def take(self, flow: str, amount: int = 1) -> None:
        """Count what a flow takes; whether it may was asked before."""
        self._taken[flow] += amount
        self.total += amount

    def give(self, flow: str, amount: int = 1) -> None:
        """Count what a flow gives back."""
        self.total -= amount
        self._taken[flow] -= amount
        if not self._taken[flow]:
            del self._taken[flow]


class Places:
    """Places for requests at work, and for a bounded number of those that wait.

    Both are shared by flow. Flows that wait are served one after the other, and no flow waits
    whose share is not used up.
    """

    def __init__(self, count: int, waiting: int) -> None:
        self._working, self._waiting = Shares(count), Shares(waiting)
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}
        """Those that wait, by flow in the order of their turns; no line is empty."""

    @asynccontextmanager
    async def one(self, flow: str) -> AsyncIterator[None]:
        """A place, when it is our turn. Raises Busy."""
        if self._working.fits(flow):
            self._working.take(flow)
        else:
            await self._turn(flow)
        try:
            yield
        finally:
            self._leave(flow)

    async def _turn(self, flow: str) -> None:
        """Wait until `_hand_out` has taken a place for us."""
        if not self._waiting.fits(flow):
            raise Busy("the gateway has as many requests as it takes")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(flow, deque()).append(turn)
        self._waiting.take(flow)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(flow, turn)
            else:  # the place was given to us at the same time
                self._leave(flow)
            raise
        finally:
            self._waiting.give(flow)

    def _leave(self, flow: str) -> None:
        self._working.give(flow)
        self._hand_out()

    def _forget(self, flow: str, turn: asyncio.Future[None]) -> None:
        line = self._lines.get(flow)
        if line is not None and turn in line:
            line.remove(turn)
            if not line:
                del self._lines[flow]

    def _hand_out(self) -> None:
        """Give what is free to those who wait, one to each flow at a time."""
        served = True
        while served:
            served = False
            for flow in list(self._lines):
                if self._working.fits(flow):
                    self._serve(flow)
                    served = True

    def _serve(self, flow: str) -> None:
        line = self._lines.pop(flow)
        turn = line.popleft()
        if line:
            self._lines[flow] = line  # behind all others
        if not turn.done():
            self._working.take(flow)
            turn.set_result(None)


class StreamPlaces:
    """Places for streams: nobody waits for one, and one flow cannot have them all."""

    def __init__(self, count: int, each: int) -> None:
        self._shares = Shares(count, each=each)

    @property
    def total(self) -> int:
        """Streams that are open."""
        return self._shares.total

    @contextmanager
    def one(self, flow: str) -> Iterator[None]:
        """A place at once. Raises Busy."""
        each = self._shares.each
        if self._shares.of(flow) >= each:
            raise Busy(f"a namespace or user may have {each} watches and logs open at a time")
        if not self._shares.fits(flow):
            raise Busy("the gateway has as many watches and logs open as it takes")
        self._shares.take(flow)
        try:
            yield
        finally:
            self._shares.give(flow)
