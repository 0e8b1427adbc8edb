"""Where the real command-line clients are: on the machine, or built by tests/real/build.sh."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from tests.backends import real_binaries
from tests.support.components import CACHE, skip

BUILD = Path(__file__).parent.parent / "real" / "build.sh"


def version(name: str) -> str:
    """A version that the script pins."""
    found = re.search(rf"^{name}=(\S+)$", BUILD.read_text(), re.MULTILINE)
    assert found is not None, name
    return found[1]


def folder() -> Path:
    """Where the script builds to; for the real backend all of it is there."""
    if os.environ.get("CORRAL_BACKEND") == "real":
        return real_binaries()
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        return Path(assets)
    return CACHE / "real" / f"bin-{version('kubernetes')}"


def built(name: str) -> str | None:
    """A binary that the script builds, where it is there already."""
    return shutil.which(name, path=str(folder()))


def on_machine(name: str) -> str | None:
    return shutil.which(name)


def client_binary(name: str) -> str:
    """The machine's, else the one that was built; the case is skipped without either."""
    return on_machine(name) or built(name) or skip(name)


def built_client(name: str) -> str:
    """The one in the version that is pinned, or a skip."""
    return built(name) or skip(name)
