"""What can be wrong with the sources of ``corral/v1``."""

from __future__ import annotations


class ProtoError(Exception):
    """The sources cannot be generated from; the message says what to do."""
