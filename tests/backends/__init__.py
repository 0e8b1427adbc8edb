"""The servers that behaviour cases run against: ours, and the real control plane.

``CORRAL_BACKEND`` chooses: ``embedded`` (default) or ``real``.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tests.backends.base import Backend
from tests.backends.embedded import EmbeddedBackend
from tests.backends.nodes import Node, add_node, ordinary_python
from tests.backends.real import RealBackend, real_binaries

__all__ = [
    "Backend",
    "EmbeddedBackend",
    "Node",
    "RealBackend",
    "add_node",
    "ordinary_python",
    "own_backend",
    "own_scope",
    "real_binaries",
]


def own_scope(*, fixture_name: str, config: object) -> Literal["module", "session"]:
    """How long such a cluster lives: a real one costs while nobody uses it, ours does not."""
    return "module" if os.environ.get("CORRAL_BACKEND") == "real" else "session"


@contextmanager
def own_backend(folder: Path) -> Iterator[Backend]:
    """A cluster for some cases alone, which see nothing of the one that the others share."""
    kind = RealBackend if os.environ.get("CORRAL_BACKEND") == "real" else EmbeddedBackend
    backend = kind(folder)
    try:
        backend.start()
        yield backend
    finally:
        backend.stop()
