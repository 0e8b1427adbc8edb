"""SSH host keys from a VM's serial console, where cloud-init writes them at the first boot.

The console is read through the cloud's API, with our credentials: nobody on the network between
us and the VM can put a key there.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["host_keys_of"]

_BLOCK: Final = re.compile(
    r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.DOTALL
)
_KEY: Final = re.compile(r"((?:ssh|ecdsa)-[a-z0-9-]+) ([A-Za-z0-9+/]+=*)")


def host_keys_of(console: str) -> tuple[str, ...]:
    """Keys of the last boot that wrote any, as ``type base64``; none before that."""
    blocks = _BLOCK.findall(console)
    if not blocks:
        return ()
    return tuple(f"{kind} {key}" for kind, key in _KEY.findall(blocks[-1]))
