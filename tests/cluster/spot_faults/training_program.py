"""A small training whose end depends on every step before it: what losing machines must not change.

It runs in pods with NumPy and `corral.inpod` alone, and writes down in a folder outside of them
what it does and when, one JSON object a line; `journals` reads it. ``python training_program.py``
by itself prints what an undisturbed run comes to.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import corral.inpod as corral

SEED = 20
BATCH, INPUTS, HIDDEN = 32, 24, 16
RATE, MOMENTUM = 0.05, 0.9
HURRY = "hurry"
"""A file beside the journals: there is nothing more to see, come to an end."""
Arrays = dict[str, np.ndarray[Any, np.dtype[np.float64]]]


def begin() -> Arrays:
    """The weights before the first step."""
    rng = np.random.default_rng(SEED)
    first, second = rng.normal(size=(INPUTS, HIDDEN)), rng.normal(size=(HIDDEN, 1))
    return {
        "first": first / INPUTS,
        "second": second / HIDDEN,
        "first_speed": np.zeros_like(first),
        "second_speed": np.zeros_like(second),
    }


def train(state: Arrays, step: int) -> None:
    """One step of gradient descent with momentum, on the batch of that step."""
    rng = np.random.default_rng([SEED, step])
    inputs = rng.normal(size=(BATCH, INPUTS))
    wanted = np.sin(inputs.sum(axis=1, keepdims=True))
    hidden = np.tanh(inputs @ state["first"])
    error = (hidden @ state["second"] - wanted) / BATCH
    slopes = {
        "first": inputs.T @ ((error @ state["second"].T) * (1 - hidden**2)),
        "second": hidden.T @ error,
    }
    for name, slope in slopes.items():
        speed = state[f"{name}_speed"]
        speed *= MOMENTUM
        speed -= RATE * slope
        state[name] += speed


def digest(state: Arrays) -> str:
    """The same for the same weights, to the last bit."""
    found = hashlib.sha256()
    for name in sorted(state):
        found.update(state[name].tobytes())
    return found.hexdigest()


def undisturbed(steps: int) -> str:
    """What the weights come to."""
    state = begin()
    for step in range(steps):
        train(state, step)
    return digest(state)


class Journal:
    """What this process does, for whoever looks at it from outside; each line is one write."""

    def __init__(self, folder: Path) -> None:
        self._start = {
            "replica": int(os.environ["REPLICA"]),
            "attempt": int(os.environ["CORRAL_ATTEMPT"]),
            "pod": os.environ["POD"],
            "node": os.environ["NODE"],
        }
        name = (
            f"{self._start['replica']}.{self._start['attempt']}.{os.environ['POD']}.{os.getpid()}"
        )
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = os.open(folder / f"{name}.jsonl", flags, 0o644)
        self.note("started", **self._start)

    def note(self, event: str, **facts: object) -> None:
        line = json.dumps({"event": event, "at": time.time(), **facts})
        os.write(self._file, f"{line}\n".encode())


def main() -> None:
    """Train in a pod, from wherever an earlier attempt came to."""
    steps, pace = int(os.environ["STEPS"]), float(os.environ["PACE"])
    slow_save = float(os.environ.get("SLOW_SAVE", "0"))
    slow_restore = float(os.environ.get("SLOW_RESTORE", "0"))
    folder = Path(os.environ["JOURNAL"])
    journal, hurry = Journal(folder), folder / HURRY
    state = begin()
    found = corral.restore()
    if found is not None:
        time.sleep(slow_restore)  # large weights take their time
        with np.load(found / "state.npz") as saved:
            state = {name: saved[name] for name in state}
    first = 0 if found is None else found.step + 1
    journal.note("restored", step=first - 1)

    def save(path: Path) -> None:
        journal.note("saving", step=step)
        time.sleep(slow_save)
        np.savez(path / "state.npz", **state)

    for step in range(first, steps):
        if not hurry.exists():
            time.sleep(pace)  # stands for the work of a step that is worth a machine
        train(state, step)
        journal.note("step", step=step)
        corral.report(step=step, total=steps)
        corral.maybe_checkpoint(save, step=step)
    corral.flush()
    journal.note("done", digest=digest(state))


if __name__ == "__main__":
    if "JOURNAL" in os.environ:
        main()
    else:
        sys.stdout.write(undisturbed(int(sys.argv[1])) + "\n")
