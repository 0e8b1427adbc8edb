"""Metrics of the webhook server, under the names that dashboards for controllers know."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["WebhookMetrics"]

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class WebhookMetrics:
    """Registered in the registry that is passed in, once."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "controller_runtime_webhook_requests_total",
            "Admission requests, by HTTP status code",
            ["webhook", "code"],
            registry=registry,
        )
        self.refusals = Counter(
            "corral_webhook_refusals_total",
            "Admission requests that were not allowed",
            ["webhook"],
            registry=registry,
        )
        self.latency = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "How long an admission request took",
            ["webhook"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Admission requests going on",
            ["webhook"],
            registry=registry,
        )
        self.certificate_end = Gauge(
            "corral_webhook_certificate_expiry_seconds",
            "When the serving certificate ends, in seconds since 1970",
            registry=registry,
        )
