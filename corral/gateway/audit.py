"""The audit log: one JSON line for every request that came with a token, and for every refusal.

A line says who, from where, which verb on which object, what came of it and how long it took; the
request id joins it to what the caller saw. Lines never hold tokens, bodies or query strings. A line
is written after the answer, so nobody waits for it, and whole: lines do not mix.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

import orjson

from corral.client.errors import Unauthorized
from corral.gateway.auth import Caller

logger = logging.getLogger(__name__)

__all__ = ["Audit", "Entry", "Names", "audit_to"]

_KEPT: Final = 4096
_GOOD_FOR: Final = 60.0
"""Seconds a name is believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one line says, besides its time."""

    request_id: str
    protocol: str
    """``rest`` or ``grpc``."""
    user: str
    """The name that the API server knows the token by; empty where it knows none."""
    address: str
    verb: str
    """create, get, list, watch, logs, …"""
    resource: str = ""
    """The plural of the kind."""
    namespace: str = ""
    name: str = ""
    code: int = 0
    """The HTTP status, or what corresponds to it."""
    result: str = ""
    """ok, refused, failed or ended early."""
    seconds: float = 0.0


class Audit:
    """Writes lines."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        close: Callable[[], object] = lambda: None,
    ) -> None:
        self._write, self._now = write, now
        self.close = close
        """No line may be written after it."""

    def record(self, entry: Entry) -> None:
        """Write the line of one request."""
        fields = {key: value for key, value in asdict(entry).items() if value != ""}
        line = {"time": self._now().isoformat(timespec="milliseconds"), **fields}
        self._write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def audit_to(path: Path | None) -> Audit:
    """An audit log in a file that only its owner may read; without one, on standard error."""
    if path is None:
        return Audit(_through(sys.stderr.buffer))
    path.parent.mkdir(parents=True, exist_ok=True)
    file = open(path, "ab", buffering=0, opener=_private)
    return Audit(_through(file), close=file.close)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class _File(Protocol):
    def write(self, line: bytes, /) -> object: ...
    def flush(self) -> None: ...


def _through(file: _File) -> Callable[[bytes], object]:
    def write(line: bytes) -> None:
        try:
            file.write(line)
            file.flush()
        except OSError as error:
            # a full disk: requests go on, and what was not written down is said where it can be
            logger.error("a line of the audit log is lost: %s", error.strerror)

    return write


class Names:
    """The user names of tokens, asked for once a minute at most and kept for a bounded number."""

    def __init__(
        self,
        ask: Callable[[Caller], Awaitable[str]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``ask`` says by what name the API server knows a caller."""
        self._ask, self._clock = ask, clock
        self._known: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def known(self, caller: Caller) -> str | None:
        """The user name, if it was asked for within the last minute."""
        known = self._known.get(caller.key)
        if known is None or self._clock() - known[0] >= _GOOD_FOR:
            return None
        self._known.move_to_end(caller.key)
        return known[1]

    def last(self, caller: Caller) -> str | None:
        """The user name, however long ago it was asked for; the token may have ended since."""
        known = self._known.get(caller.key)
        return known[1] if known is not None else None

    async def of(self, caller: Caller) -> str:
        """The user name; raises what ``ask`` raises."""
        known = self.known(caller)
        if known is not None:
            return known
        try:
            name = await self._ask(caller)
        except Unauthorized:
            self._known.pop(caller.key, None)
            raise
        self._known[caller.key] = (self._clock(), name)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return name
