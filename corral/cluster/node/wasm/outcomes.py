"""How modules end: exit codes that modules themselves cannot have, and what they mean.

A module may exit with 0 to 125. Everything above comes from the runner, so the codes are certain.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BROKEN", "FUEL", "MEMORY", "MISSING", "TIME", "TRAP", "exit_reason"]

BROKEN: Final = 126
"""The module cannot be run: no module, of a kind we do not have, or it asks for more than WASI."""
MISSING: Final = 127
"""There is no such module."""
TRAP: Final = 134
"""It did what a module must not; as an abort of a process."""
MEMORY: Final = 137
"""It was refused memory beyond its limit; as a kill for want of memory."""
TIME: Final = 142
"""Its time was over; as an alarm."""
FUEL: Final = 152
"""Its fuel was used up; as a limit of CPU time."""

_REASONS: Final = {
    BROKEN: "ContainerCannotRun",
    MISSING: "ContainerCannotRun",
    TRAP: "WasmTrap",
    MEMORY: "OOMKilled",
    TIME: "WasmDeadlineExceeded",
    FUEL: "WasmOutOfFuel",
}


def exit_reason(code: int) -> str:
    """The reason of a terminated container; empty where the code says it all."""
    return _REASONS.get(code, "")
