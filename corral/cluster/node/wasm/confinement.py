"""What the host of a module gives up before it touches the module.

wasmtime keeps a module in; should a module find a way out of it nevertheless, it is in a process
that can open the volumes of its container and the file for its last message, and nothing else: no
other file, no socket, no other process or program, no capability, and no more memory than its
module may have with what compiling takes.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Final

from corral.cluster.node.wasm.plan import Plan
from corral.podtools.confine.filters import refuse_calls
from corral.podtools.confine.kernel import drop_capabilities, no_new_privileges
from corral.podtools.confine.landlock import close_files
from corral.podtools.confine.rules import set_limit

__all__ = ["confine_host"]

_DAC_OVERRIDE: Final = 1 << 1
"""Root needs it to use volumes of other users, and reaches nothing but volumes."""
_COMPILING: Final = 1 << 30
"""Bytes for the host itself, and for compiling."""
_MOST: Final = 4 << 30
"""Bytes of the largest memory that a module can have."""
_OPEN_FILES: Final = 1024


def confine_host(plan: Plan) -> None:
    """Give up everything that running this plan does not need, for ever.

    To be called while there is one thread: only threads that are made later have given it up too.

    Raises:
        ConfineError: this machine cannot hold to it.
        OSError: the kernel does not take a limit.
    """
    set_limit(resource.RLIMIT_DATA, (plan.memory or _MOST) + _COMPILING)
    set_limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    set_limit(resource.RLIMIT_CORE, 0)
    set_limit(resource.RLIMIT_MEMLOCK, 0)
    no_new_privileges()
    drop_capabilities(_DAC_OVERRIDE if os.geteuid() == 0 else 0)
    readable = [folder.source for folder in plan.folders if folder.read_only]
    writable = [folder.source for folder in plan.folders if not folder.read_only]
    try:
        close_files(readable, [*writable, *_message(plan)], links=True)
    finally:
        # of a kernel without Landlock, too: files alone are then open to it
        refuse_calls(modules=True)


def _message(plan: Plan) -> list[str]:
    """The file for the last message, which must be there to be opened later."""
    if not plan.message:
        return []
    try:
        Path(plan.message).touch()
    except OSError:
        return []  # the log says so when it is to be written
    return [plan.message]
