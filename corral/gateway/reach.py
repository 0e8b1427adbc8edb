"""Whether the Kubernetes API answers, asked without any credential and not more than once a second.

An answer is an answer: an API server that does not talk to strangers serves nevertheless.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from corral.gateway.clients import Upstream
from corral.kube.client import KubeClient
from corral.kube.connection.transport import ClientSettings
from corral.kube.errors import ApiError

__all__ = ["Readiness"]

_GOOD_FOR: Final = 1.0
_PATIENCE: Final = 5.0


class Readiness:
    """Asks one API server whether it serves."""

    def __init__(self, access: Upstream, *, clock: Callable[[], float] = time.monotonic) -> None:
        settings = ClientSettings(connect_timeout=_PATIENCE, read_timeout=_PATIENCE, max_retries=0)
        self._client = KubeClient(access.config, settings=settings)
        self._clock = clock
        self._seen = -_GOOD_FOR
        self._one = asyncio.Lock()

    async def check(self) -> None:
        """Raises ApiError, KubeConnectionError or TimeoutError where it does not."""
        async with asyncio.timeout(_PATIENCE), self._one:
            if self._clock() - self._seen < _GOOD_FOR:
                return
            try:
                await self._client.request("GET", "/readyz", accept="*/*")
            except ApiError as error:
                if error.status_code >= 500:
                    raise
            self._seen = self._clock()

    async def close(self) -> None:
        await self._client.close()
