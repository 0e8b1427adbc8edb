"""Another user of the machine, who has nothing to do with us and tries what he can."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends import ordinary_python

STRANGER = 65533
"""A user that neither we nor our nodes run as."""

_TRY = """
import json, os, sys
found = []
for path in json.load(sys.stdin):
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.close(os.open(path, flags | os.O_NONBLOCK))
        except IsADirectoryError:
            continue
        except OSError as err:
            if err.errno not in (2, 6, 13, 20, 40):
                found.append(f"{path}: {err}")
            continue
        found.append(path)
print(json.dumps(sorted(set(found))))
"""


def as_user(uid: int, *argv: str, **more: object) -> subprocess.CompletedProcess[str]:
    """Run a command as a user; only root can."""
    words = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *argv]
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        words, capture_output=True, text=True, timeout=60, check=False, **more
    )


def as_stranger(script: str, *words: str) -> str:
    """Run a shell script as the stranger; what it printed."""
    need_root()
    done = as_user(STRANGER, "sh", "-c", script, "sh", *words, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


def need_root() -> None:
    """Skip the case where the stranger cannot be played."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")


def everything_in(*folders: Path) -> list[str]:
    """All that lies there, links not followed."""
    found = []
    for folder in folders:
        found.append(str(folder))
        for parent, below, names in os.walk(folder):
            found += [os.path.join(parent, name) for name in (*below, *names)]
    return found


def opened_by_stranger(paths: list[str]) -> list[str]:
    """Those of the files and folders that the stranger can open, to read or to write."""
    need_root()
    found = ordinary_python()
    python = found[0] if found is not None else sys.executable
    done = as_user(STRANGER, python, "-S", "-E", "-c", _TRY, input=json.dumps(paths), cwd="/")
    assert done.returncode == 0, done.stderr
    result: list[str] = json.loads(done.stdout)
    return result
