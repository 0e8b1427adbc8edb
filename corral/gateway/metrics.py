"""What the gateway counts, for Prometheus: requests, their time, bytes, and open streams.

Labels are verbs, plurals of kinds and status codes: never names of objects, namespaces or people.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["GatewayMetrics"]

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class GatewayMetrics:
    """The metrics of one gateway, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ["verb", "resource", "code"]
        self.requests = Counter(
            "corral_gateway_requests_total", "Requests answered", labels, registry=self.registry
        )
        self.seconds = Histogram(
            "corral_gateway_request_seconds",
            "How long ordinary requests took",
            ["verb"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.bytes = Counter(
            "corral_gateway_sent_bytes_total",
            "Bytes of bodies sent",
            ["verb"],
            registry=self.registry,
        )
        self.streams = Gauge(
            "corral_gateway_streams", "Open watches and logs", registry=self.registry
        )

    def finished(self, verb: str, resource: str, code: int, *, seconds: float, sent: int) -> None:
        """Count one request."""
        self.requests.labels(verb, resource, str(code)).inc()
        self.bytes.labels(verb).inc(sent)
        if verb not in ("watch", "logs"):
            self.seconds.labels(verb).observe(seconds)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)
