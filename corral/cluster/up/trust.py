"""Loads aiohttp without the machine's certificate authorities.

aiohttp reads all of them when it is loaded, a twentieth of a second, for requests that do not say
whom they trust. Ours always say so: `corral.kube`, `corral.oci`, `corral.clouds` and webhooks
have contexts of their own. A request that does not is refused here, never trusted.
"""

from __future__ import annotations

import os

__all__ = ["load_aiohttp"]

_NAMES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def load_aiohttp() -> None:
    """Before anything else of this process loads it."""
    before = {name: os.environ.get(name) for name in _NAMES}
    os.environ.update(dict.fromkeys(_NAMES, os.devnull))
    try:
        import aiohttp  # noqa: F401
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
