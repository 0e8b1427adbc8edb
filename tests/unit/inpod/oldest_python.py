"""The oldest Python on this machine that `corral.inpod` promises to run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]


def promised() -> tuple[int, int]:
    """As the distribution says it."""
    text = (ROOT / "packaging/inpod/pyproject.toml").read_text()
    found = re.search(r'requires-python = ">=(\d+)\.(\d+)"', text)
    assert found is not None
    return int(found[1]), int(found[2])


@cache
def oldest_python() -> str:
    """The interpreter of the promised version, else of the next one that is there."""
    major, minor = promised()
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for wanted in range(minor, sys.version_info.minor):
        name = f"python{major}.{wanted}"
        installed = sorted(map(str, pyenv.glob(f"{major}.{wanted}.*/bin/python")))
        for candidate in (*installed, shutil.which(name) or ""):
            if candidate and _version(candidate) == (major, wanted):
                return candidate
    return sys.executable


def _version(python: str) -> tuple[int, ...]:
    """None of a shim that starts nothing."""
    code = "import ssl, sys; print(*sys.version_info[:2])"
    done = subprocess.run([python, "-I", "-S", "-c", code], capture_output=True, text=True)
    return tuple(map(int, done.stdout.split())) if done.returncode == 0 else ()
