"""Code that nobody vouches for, in a process that can do nothing but compute.

`run` starts a Python function of ours in a process of its own, which gives up everything before it
touches such code: files but for a few folders, sockets, other processes, more memory, threads, disk
and time than it was given. `Kept` does the same for one that answers many requests. The kernel
keeps it so (namespaces, Landlock, a list of system calls, resource limits), for an ordinary user as
for root, in a container or not; what a machine does not give is named (``missing``). Standard
library only. Names below are loaded when first used: a process that confines itself needs few.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from corral.podtools.confine.errors import ConfineError, Refused
    from corral.podtools.confine.kept import Channel, Kept, NotStarted, Unanswered
    from corral.podtools.confine.process import Ended, run
    from corral.podtools.confine.rules import Limits, confine

__all__ = [
    "Channel",
    "ConfineError",
    "Ended",
    "Kept",
    "Limits",
    "NotStarted",
    "Refused",
    "Unanswered",
    "confine",
    "run",
]

_HOMES: Final = {
    "errors": "ConfineError Refused",
    "kept": "Channel Kept NotStarted Unanswered",
    "process": "Ended run",
    "rules": "Limits confine",
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(name)
