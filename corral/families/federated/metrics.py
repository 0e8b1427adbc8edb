"""Figures about federated learning for Prometheus, by the names of the contract."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["LearningMetrics"]

_ROUND: Final = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0)
_AGGREGATION: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1200.0)


class LearningMetrics:
    """In the registry that is passed in; once a process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rounds = Counter(
            "propeller_fl_round_total",
            "Rounds that have reached a phase, by job",
            ["federated_job", "phase"],
            registry=registry,
        )
        self._round_time = Histogram(
            "propeller_fl_round_duration_seconds",
            "From the start of a round to its end",
            ["federated_job"],
            buckets=_ROUND,
            registry=registry,
        )
        self._updates = Counter(
            "propeller_fl_updates_collected_total",
            "Updates that were counted",
            ["round_id"],
            registry=registry,
        )
        self._required = Gauge(
            "propeller_fl_updates_required",
            "Updates that make a round",
            ["round_id"],
            registry=registry,
        )
        self._rejected = Counter(
            "propeller_fl_updates_rejected_total",
            "Updates that were refused",
            ["federated_job"],
            registry=registry,
        )
        self._aggregations = Counter(
            "propeller_fl_aggregations_total",
            "Rounds that were aggregated",
            ["algorithm"],
            registry=registry,
        )
        self._aggregation_time = Histogram(
            "propeller_fl_aggregation_duration_seconds",
            "From the first update that is fetched to the model in the registry",
            ["algorithm"],
            buckets=_AGGREGATION,
            registry=registry,
        )

    def phase(self, job: str, phase: str) -> None:
        """A round is in a phase now."""
        self._rounds.labels(job, phase).inc()

    def required(self, round_id: str, count: int) -> None:
        self._required.labels(round_id).set(count)

    def collected(self, round_id: str, count: int) -> None:
        """More updates were counted."""
        if count > 0:
            self._updates.labels(round_id).inc(count)

    def rejected(self, job: str, count: int) -> None:
        if count > 0:
            self._rejected.labels(job).inc(count)

    def ended(self, job: str, seconds: float) -> None:
        """A round is over."""
        self._round_time.labels(job).observe(max(seconds, 0.0))

    def aggregated(self, algorithm: str, seconds: float) -> None:
        self._aggregations.labels(algorithm).inc()
        self._aggregation_time.labels(algorithm).observe(max(seconds, 0.0))
