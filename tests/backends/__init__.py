"""The servers that behaviour cases run against: ours, and the real control plane.

``CORRAL_BACKEND`` chooses: ``embedded`` (default) or ``real``.
"""

from tests.backends.base import Backend
from tests.backends.embedded import EmbeddedBackend
from tests.backends.real import RealBackend, real_binaries

__all__ = ["Backend", "EmbeddedBackend", "RealBackend", "real_binaries"]
