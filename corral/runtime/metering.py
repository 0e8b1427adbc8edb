"""A client that counts its requests by method and status code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiohttp
from prometheus_client import CollectorRegistry

from corral.kube.client import KubeClient
from corral.kube.config import ClusterConfig
from corral.kube.errors import ApiError
from corral.kube.transport import ClientSettings, KubeConnectionError, Query, Transport
from corral.runtime.metrics import RuntimeMetrics

__all__ = ["MeteredClient"]

_T = TypeVar("_T")


class _MeteredTransport(Transport):
    """Counts answers; ``<error>`` is the code of a request that got none."""

    metrics: RuntimeMetrics

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        sent = super().request(
            method, path, query=query, body=body, content_type=content_type, accept=accept
        )
        return await self._counted(method, sent)

    async def open_stream(
        self,
        path: str,
        *,
        query: Query = (),
        accept: str = "application/json",
        idle_timeout: float | None = None,
    ) -> aiohttp.ClientResponse:
        sent = super().open_stream(path, query=query, accept=accept, idle_timeout=idle_timeout)
        return await self._counted("GET", sent)

    async def _counted(self, method: str, sent: Awaitable[_T]) -> _T:
        code = "2xx"
        try:
            return await sent
        except ApiError as error:
            code = str(error.status_code)
            raise
        except KubeConnectionError:
            code = "<error>"
            raise
        finally:
            self.metrics.api_calls.labels(method, code).inc()


class MeteredClient(KubeClient):
    """A `KubeClient` whose requests are counted; ones that were sent again count once.

    Without ``metrics`` it counts into a registry of its own.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        metrics: RuntimeMetrics | None = None,
        settings: ClientSettings | None = None,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(config, settings=settings, on_warning=on_warning)
        self.metrics = metrics or RuntimeMetrics(CollectorRegistry())
        transport = _MeteredTransport(config, settings=settings, on_warning=on_warning)
        transport.metrics = self.metrics
        self.transport = transport
