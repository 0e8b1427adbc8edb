"""WebAssembly modules compiled from C for the tests; without a compiler, cases are skipped."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from tests.support.components import skip

EXAMPLES = Path(__file__).parents[3] / "examples" / "federated"
HERE = Path(__file__).parent


@cache
def _built(*words: str) -> Path | None:
    """The module, where one could be built; the script says why there is none."""
    done = subprocess.run(
        [str(EXAMPLES / "build.sh"), *words], capture_output=True, text=True, timeout=170
    )
    if done.returncode:
        print(done.stderr)
        return None
    return Path(done.stdout.strip().splitlines()[-1])


def _module(*words: str) -> Path:
    return _built(*words) or skip("wasm")


def client_module() -> Path:
    """The client of examples/federated."""
    return _module()


def hostile_module() -> Path:
    """The task that tries what it must not."""
    return _module("hostile", str(HERE / "hostile.c"))
