"""What the cases train: functions that are sent as their source."""

from __future__ import annotations

import math
import os

SCALE = 2.0


def damped(step: int) -> float:
    return SCALE * math.exp(-step)


def report_steps(steps: int, words: list[str]) -> None:
    """Report every step, and print what the replica is."""
    import corral.inpod as corral

    for step in range(1, steps + 1):
        corral.report(step=step, total=steps, loss=damped(step))
    for _ in range(10):  # each waits for two seconds at most, if it must
        corral.flush()
    print("replica", os.environ["CORRAL_REPLICA"], *words)


def fail(message: str) -> None:
    print("about to fail")
    raise RuntimeError(message)
