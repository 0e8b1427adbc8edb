"""Renews the certificates of a server that runs: for years, and across clocks that jump.

Every ten seconds the certificates are judged at the time it is then. What was made anew is taken
into use without a restart: new connections get it, those that are open go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from corral.cluster.apiserver.auth.pki import Pki

__all__ = ["Renewal"]

log = logging.getLogger(__name__)
CHECK_EVERY: Final = 10.0


class Renewal:
    """Looks after the certificates of one server."""

    def __init__(
        self,
        ensure: Callable[[], Pki],
        use: Callable[[Pki], None],
        *,
        every: float = CHECK_EVERY,
    ) -> None:
        """``ensure`` makes what is due; ``use`` takes files into use that have changed."""
        self._ensure, self._use = ensure, use
        self._every = every
        self._used: tuple[bytes, ...] = ()
        self._task: asyncio.Task[None] | None = None

    def start(self, current: Pki) -> None:
        """``current`` is what is in use now."""
        self._used = contents(current)
        self._task = asyncio.create_task(self._run(), name="certificate-renewal")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            await self.check()

    async def check(self) -> None:
        """Renew what is due now."""
        try:
            pki = await asyncio.to_thread(self._ensure)
            found = contents(pki)
            if found != self._used:
                self._use(pki)
                self._used = found
                log.warning("certificates were renewed")
        except (OSError, ValueError) as err:  # an SSLError is an OSError
            log.warning("certificates could not be renewed, those of before serve: %s", err)


def contents(pki: Pki) -> tuple[bytes, ...]:
    """What is in the files of a server."""
    return tuple(pair.cert for pair in (pki.ca, pki.serving, pki.admin, pki.kubelet_client))
