"""WebAssembly modules compiled from C for the tests; without a compiler, cases are skipped."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "federated"
HERE = Path(__file__).parent


@cache
def _built(*words: str) -> Path | str:
    """The module, or why there is none."""
    done = subprocess.run(
        [str(EXAMPLES / "build.sh"), *words], capture_output=True, text=True, timeout=170
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    return Path(done.stdout.strip().splitlines()[-1])


def _module(*words: str) -> Path:
    found = _built(*words)
    if isinstance(found, str):
        pytest.skip(f"no module could be built: {found}")
    return found


def client_module() -> Path:
    """The client of examples/federated."""
    return _module()


def hostile_module() -> Path:
    """The task that tries what it must not."""
    return _module("hostile", str(HERE / "hostile.c"))
