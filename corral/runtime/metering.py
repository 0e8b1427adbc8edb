"""A client that counts its requests by method and status code."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig
from corral.kube.connection.transport import ClientSettings
from corral.runtime.metrics import RuntimeMetrics

__all__ = ["MeteredClient"]


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
        self.metrics = metrics or RuntimeMetrics(CollectorRegistry())
        super().__init__(config, settings=settings, on_warning=on_warning, on_answer=self._count)

    def _count(self, method: str, outcome: str) -> None:
        self.metrics.api_calls.labels(method, outcome).inc()
