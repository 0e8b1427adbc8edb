"""Where the real command-line clients are: on the machine, or built for the real backend."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from tests.backends import real_binaries

BUILD = Path(__file__).parent.parent / "real" / "build.sh"


def built(name: str) -> str | None:
    """The binary that test-real builds; in a plain test run only where it is there already."""
    if os.environ.get("CORRAL_BACKEND") == "real":
        folder = real_binaries()
    elif assets := os.environ.get("KUBEBUILDER_ASSETS"):
        folder = Path(assets)
    else:
        version = re.search(r"^kubernetes=(\S+)$", BUILD.read_text(), re.MULTILINE)
        cache = Path(os.environ.get("CORRAL_CACHE") or Path.home() / ".cache" / "corral")
        folder = cache / "real" / f"bin-{version[1] if version else ''}"
    return shutil.which(name, path=str(folder))


def on_machine(name: str) -> str | None:
    return shutil.which(name)
