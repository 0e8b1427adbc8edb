"""The servers that behaviour cases run against: ours, and the real control plane.

``CORRAL_BACKEND`` chooses: ``embedded`` (default) or ``real``.
"""

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
    "real_binaries",
]
