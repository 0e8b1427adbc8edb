"""The earlier name of `corral.podtools.confine`, which needs Corral itself."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(import_module("corral.podtools.confine"), name)
