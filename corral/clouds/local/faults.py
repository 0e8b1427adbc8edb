"""Mischief on demand: what a real cloud does wrong, for drills and tests of whoever uses one.

``faults.json`` in the provider's folder is a list; the first entry that fits an operation is used,
and removed after so many ``times``::

    [{"operation": "create", "zone": "local-a", "error": "StockOut", "code": "NO_ROOM",
      "scope": "zone", "times": 2},
     {"operation": "create", "lose": true}, {"operation": "delete", "delay_s": 3}]
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from corral.clouds.errors import (
    AccountRefused,
    BadRequest,
    CloudError,
    QuotaExceeded,
    Scope,
    StockOut,
    Transient,
)
from corral.clouds.local.records import exclusively, write

__all__ = ["Fault", "FaultFile"]

_ERRORS: Final[dict[str, type[CloudError]]] = {
    kind.__name__: kind for kind in (StockOut, QuotaExceeded, AccountRefused, Transient, BadRequest)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing to do wrong."""

    operation: str
    """create, delete, get or list."""
    zone: str = ""
    """Only there; empty is everywhere."""
    times: int = 1
    error: str = ""
    """A class of `errors`, raised instead of doing anything."""
    code: str = "INJECTED"
    scope: str = Scope.ZONE
    lose: bool = False
    """Do it, and then fail as if the answer had been lost."""
    delay_s: float = 0.0

    def refusal(self) -> CloudError | None:
        if not self.error:
            return None
        kind = _ERRORS[self.error]
        return kind("a fault that was asked for", code=self.code, scope=Scope(self.scope))


class FaultFile:
    """The faults that are still to come."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "faults.json"
        self._lock = folder / "faults.lock"

    def plan(self, *faults: Fault) -> None:
        """Add faults to those that are planned."""
        with exclusively(self._lock):
            self._write([*self._read(), *faults])

    def take(self, operation: str, zone: str) -> Fault | None:
        """The one for this operation, used up by one."""
        if not self._path.exists():
            return None
        with exclusively(self._lock):
            faults = self._read()
            for place, fault in enumerate(faults):
                if fault.operation == operation and fault.zone in ("", zone):
                    less = Fault(**{**asdict(fault), "times": fault.times - 1})
                    faults[place : place + 1] = [less] if less.times > 0 else []
                    self._write(faults)
                    return fault
        return None

    def _read(self) -> list[Fault]:
        if not self._path.exists():
            return []
        return [Fault(**entry) for entry in json.loads(self._path.read_text())]

    def _write(self, faults: list[Fault]) -> None:
        write(self._path, json.dumps([asdict(fault) for fault in faults]))
