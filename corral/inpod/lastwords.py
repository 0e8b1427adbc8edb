"""What a container leaves behind for whoever looks at its end: the termination message.

``CORRAL_TERMINATION_LOG`` says where; its value may be translated where pods share the machine's
files. Without it the usual place is used, but only where somebody has made it: outside a pod, as
root, it would be made on the machine itself.
"""

from __future__ import annotations

import os

__all__ = ["leave"]

_USUAL = "/dev/termination-log"


def leave(words: str) -> None:
    """Raises OSError where nobody reads them."""
    named = os.environ.get("CORRAL_TERMINATION_LOG")
    flags = os.O_WRONLY | os.O_TRUNC | (os.O_CREAT if named else 0)
    file = os.open(named or _USUAL, flags, 0o644)
    with os.fdopen(file, "w", encoding="utf-8") as out:
        out.write(words)
