"""A clock for processes of a test that jumps when the test says so: CLOCK_REALTIME only.

A time namespace does not change CLOCK_REALTIME, so a small library stands before libc (``clock.c``,
built with the C compiler where there is one). Monotonic clocks go on as they are, as they do when
somebody sets a machine's clock.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

__all__ = ["DAY", "Clock"]

DAY: Final = 86400


class Clock:
    """How far the clock of the processes that get `environment` is off."""

    def __init__(self, folder: Path) -> None:
        """Skips the case where no library can be built."""
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("a clock that jumps needs a C compiler (cc)")
        self._library, self._file = folder / "clock.so", folder / "clock"
        source = Path(__file__).with_name("clock.c")
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", self._library, source, "-ldl"], check=True
        )
        self.set(0)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CORRAL_CLOCK_FILE": str(self._file)}

    def set(self, seconds: int) -> None:
        """From now on the clock is off by so much."""
        mode = "r+b" if self._file.exists() else "wb"
        with open(self._file, mode) as file:
            file.write(seconds.to_bytes(8, "little", signed=True))
