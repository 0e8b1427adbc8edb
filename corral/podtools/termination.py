"""The termination message of a container, which Kubernetes keeps in its status.

``CORRAL_TERMINATION_LOG`` says where; its value may be translated where pods share the machine's
files. Without it the usual place is used, but only where somebody has made it: outside a pod, as
root, it would be made on the machine itself.
"""

from __future__ import annotations

import os

__all__ = ["write_message"]

_USUAL = "/dev/termination-log"


def write_message(message: str) -> None:
    """Replace the message. Raises OSError where a container has none."""
    named = os.environ.get("CORRAL_TERMINATION_LOG")
    flags = os.O_WRONLY | os.O_TRUNC | (os.O_CREAT if named else 0)
    file = os.open(named or _USUAL, flags, 0o644)
    with os.fdopen(file, "w", encoding="utf-8") as out:
        out.write(message)
