"""What jobs have learnt about machines, kept in a ConfigMap of each namespace.

One operator leads, so that one process writes it. What it has learnt and not written when it dies
is lost, and learnt again; a ConfigMap that cannot be read is begun anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import orjson

from corral.families.spot.names import MEMORY
from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import CONFIGMAPS
from corral.spot import HOUR, InvalidTrace, Memory, Offer

__all__ = ["Memories"]

logger = logging.getLogger(__name__)

_KEY: Final = "memory.json"
_PERIOD: Final = 30.0
"""Seconds between two writes of one namespace's memory."""


class Memories:
    """Of all namespaces."""

    def __init__(
        self, client: KubeClient, *, field_manager: str, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._field_manager = field_manager
        self._clock = clock
        self._known: dict[str, Memory] = {}
        self._written: dict[str, float] = {}
        self._priced: dict[str, float] = {}
        self._changed: set[str] = set()

    async def of(self, namespace: str) -> Memory:
        """The memory of a namespace, read when it is first asked for.

        Raises:
            ApiError: it cannot be read.
        """
        known = self._known.get(namespace)
        if known is None:
            read = await self._read(namespace)
            known = self._known.setdefault(namespace, read)
        return known

    async def _read(self, namespace: str) -> Memory:
        try:
            found = await self._client.get(CONFIGMAPS, MEMORY, namespace=namespace)
            return Memory.of_object(orjson.loads((found.get("data") or {}).get(_KEY) or "{}"))
        except NotFound:
            return Memory()
        except (orjson.JSONDecodeError, InvalidTrace, AttributeError) as error:
            logger.warning("%s/%s is begun anew: %s", namespace, MEMORY, error)
            return Memory()

    def changed(self, namespace: str) -> None:
        """Something was learnt, and is to be kept."""
        self._changed.add(namespace)

    def price(self, namespace: str, offers: Sequence[Offer], *, now: float) -> None:
        """These are the prices now; they are noted once an hour, as they are forecast by hours."""
        if offers and abs(now - self._priced.get(namespace, float("-inf"))) >= HOUR:
            self._priced[namespace] = now
            self._known[namespace].priced(offers, now)
            self.changed(namespace)

    async def keep(self, namespace: str) -> None:
        """Write what was learnt, unless something was written a moment ago.

        Raises:
            ApiError: it is refused.
        """
        now = self._clock()
        early = now - self._written.get(namespace, float("-inf")) < _PERIOD
        if early or namespace not in self._changed:
            return
        self._changed.discard(namespace)
        self._written[namespace] = now
        data = orjson.dumps(self._known[namespace].as_object()).decode()
        wanted = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": MEMORY, "namespace": namespace},
            "data": {_KEY: data},
        }
        await self._client.apply(CONFIGMAPS, wanted, field_manager=self._field_manager, force=True)
