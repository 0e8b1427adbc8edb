"""What a training script says to Corral, and what Corral does for it inside the pod.

    import corral.inpod as corral

    state = corral.restore()                          # newest intact checkpoint, or None
    for step in range(state.step + 1 if state else 0, total):
        loss = train_step()
        corral.report(step=step, total=total, loss=loss)
        corral.maybe_checkpoint(save, step=step)      # save(path) fills an empty folder

Guaranteed: `report` never blocks and never raises; a checkpoint is restored whole, verified byte
by byte, or not at all; a process that dies at any instant costs no earlier checkpoint; a
checkpoint that is lost is logged. Outside Corral all calls are harmless and do nothing.

Only the standard library is needed, and nothing else of Corral: the folder may be copied into an
image alone. All settings come from the environment; docs/inpod.md lists them.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Any

from .errors import CheckpointError, CorralError, Fenced, RestoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from .replica import Replica
    from .restoring import Restored

__all__ = [
    "CheckpointError",
    "CorralError",
    "Fenced",
    "RestoreError",
    "Restored",
    "flush",
    "maybe_checkpoint",
    "report",
    "restore",
]

_lock = threading.Lock()
_replica: Replica | None = None


def report(step: int, total: int | None = None, epoch: float | None = None, **metrics: Any) -> None:
    """Says how far the training is: batched, in the background, the newest wins.

    Args:
        step: the step that was just done.
        total: of how many.
        epoch: which pass over the data.
        metrics: numbers, or tensors of one element; NaN and infinity become null.
    """
    _current().report(step, total=total, epoch=epoch, metrics=metrics)


def restore() -> Restored | None:
    """The newest intact checkpoint, or the one that the job names; None: start anew.

    Raises:
        RestoreError: if the one that was named cannot be had, or the store cannot be reached.
    """
    return _current().restore()


def maybe_checkpoint(
    save: Callable[[Path], object],
    *,
    step: int,
    metrics: Mapping[str, Any] | None = None,
    sharded: bool = False,
    force: bool = False,
) -> bool:
    """Calls `save(path)` with an empty folder if a checkpoint is due; whether it did.

    When it returns, the training may change its state: the rest happens in the background.

    Args:
        save: writes the state below the folder.
        step: the step that the state belongs to.
        metrics: kept with the checkpoint; retention may choose by them.
        sharded: every process saves its part, all at the same step; otherwise the first one
            saves and the others do nothing.
        force: now, whether it is due or not; if sharded, all processes must do so.

    Raises:
        SystemExit: with 143, after the last checkpoint, when SIGTERM was received.
        Exception: whatever `save` raises.
    """
    return _current().maybe_checkpoint(
        save, step=step, metrics=metrics, sharded=sharded, force=force
    )


def flush() -> None:
    """Finishes what is under way; called at exit by itself."""
    if _replica is not None:
        _replica.flush()


def _current() -> Replica:
    global _replica
    if _replica is None:
        with _lock:
            if _replica is None:
                # only now: whoever needs another part of the package does not wait for these
                from . import environment
                from .replica import Replica

                _replica = Replica(environment.read())
                atexit.register(flush)
    return _replica


def __getattr__(name: str) -> Any:
    if name == "Restored":
        from .restoring import Restored

        return Restored
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _forget() -> None:
    """In a forked child there are no threads of ours, and nothing of the parent's to finish."""
    global _replica, _lock
    _replica, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
