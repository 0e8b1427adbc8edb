"""The event loop of the processes that serve: uvloop's, which costs a server less CPU."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

__all__ = ["allow_files", "run"]

Result = TypeVar("Result")
_FILES = (65_536, 10_240)
"""What is asked for where a process may not have as many as its own limit says."""


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """As `asyncio.run`, with as many open files as the process may have at all."""
    allow_files()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def allow_files() -> None:
    """A server has a descriptor for every connection; shells give a thousand to begin with."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft in (hard, resource.RLIM_INFINITY):
        return
    for wanted in (hard, *(count for count in _FILES if count > soft)):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return
        except (OSError, ValueError):  # more than the system gives any process
            continue
