"""SSH host keys from a VM's serial console, where cloud-init writes them at the first boot.

The console is read through the cloud's API, with our credentials: nobody on the network between
us and the VM can put a key there.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["host_keys_of"]

_BEGIN: Final = "-----BEGIN SSH HOST KEY KEYS-----"
_END: Final = "-----END SSH HOST KEY KEYS-----"
_KEY: Final = re.compile(r"((?:ssh|ecdsa)-[a-z0-9-]{1,64}+) ([A-Za-z0-9+/]++=*+)")


def host_keys_of(console: str) -> tuple[str, ...]:
    """Keys of the last boot that wrote any, as ``type base64``; none before that."""
    # whoever runs the VM writes there what it likes: nothing is looked for twice
    before, ended, _ = console.rpartition(_END)
    _, begun, block = before.rpartition(_BEGIN)
    if not (ended and begun):
        return ()
    return tuple(f"{kind} {key}" for kind, key in _KEY.findall(block))
