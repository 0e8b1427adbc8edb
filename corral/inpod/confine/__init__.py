"""Code that nobody vouches for, in a process that can do nothing but compute.

`run` starts a Python function of ours in a process of its own, which gives up everything before it
touches such code (`confine`): files but for a few folders, sockets, other processes, more memory
and time than it was given. `Kept` does the same for one that answers many requests. The kernel
keeps it so (Landlock, seccomp, resource limits), for an ordinary user as for root, in a container
or not. Standard library only.
"""

from __future__ import annotations

from corral.inpod.confine.errors import ConfineError, Refused
from corral.inpod.confine.kept import Channel, Kept, NotStarted, Unanswered
from corral.inpod.confine.process import Ended, run
from corral.inpod.confine.rules import Limits, confine

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
