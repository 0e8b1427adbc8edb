"""Metrics of queues, reconciles, informers, API calls and leadership, under the usual names.

The names are those that dashboards for controllers expect (``workqueue_*``,
``controller_runtime_reconcile_*``, ``rest_client_requests_total``, ``leader_election_*``).
Everything is registered in the registry that is passed in, once; use one `RuntimeMetrics` for a
process and hand it to the manager.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["QueueMetrics", "RuntimeMetrics"]

_QUEUE_BUCKETS = tuple(10.0**n for n in range(-6, 3))
_RECONCILE_BUCKETS = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0, 30.0,
    40.0, 50.0, 60.0,
)  # fmt: skip


class QueueMetrics:
    """What one queue reports; a `corral.runtime.queues.workqueue.QueueObserver`."""

    def __init__(self, metrics: RuntimeMetrics, name: str) -> None:
        self._depth = metrics.queue_depth.labels(name)
        self._adds = metrics.queue_adds.labels(name)
        self._latency = metrics.queue_latency.labels(name)
        self._work = metrics.queue_work.labels(name)
        self._retries = metrics.queue_retries.labels(name)

    def added(self, depth: int) -> None:
        self._adds.inc()
        self._depth.set(depth)

    def taken(self, depth: int, waited: float) -> None:
        self._depth.set(depth)
        self._latency.observe(waited)

    def finished(self, depth: int, worked: float) -> None:
        self._depth.set(depth)
        self._work.observe(worked)

    def retried(self) -> None:
        self._retries.inc()


class RuntimeMetrics:
    """All metrics of the runtime."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._declare_queues(registry)
        self._declare_reconciles(registry)
        self.api_calls = Counter(
            "rest_client_requests_total",
            "Requests to the API server, by method and status code",
            ["method", "code"],
            registry=registry,
        )
        self.watch_age = Gauge(
            "corral_watch_age_seconds",
            "Seconds since an informer last heard of the server: an event, a bookmark or a list",
            ["scope"],
            registry=registry,
        )
        self.cached_objects = Gauge(
            "corral_informer_objects", "Objects in the store", ["scope"], registry=registry
        )
        self.leader = Gauge(
            "leader_election_master_status", "1 while leading", ["name"], registry=registry
        )
        self.events_dropped = Counter(
            "corral_events_dropped_total",
            "Events that were not written",
            ["why"],
            registry=registry,
        )

    def _declare_queues(self, registry: CollectorRegistry) -> None:
        label = ["name"]
        self.queue_depth = Gauge(
            "workqueue_depth", "Keys that wait for a worker", label, registry=registry
        )
        self.queue_adds = Counter("workqueue_adds_total", "Keys added", label, registry=registry)
        self.queue_latency = Histogram(
            "workqueue_queue_duration_seconds",
            "How long a key waited for a worker",
            label,
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self.queue_work = Histogram(
            "workqueue_work_duration_seconds",
            "How long a key was in the hands of a worker",
            label,
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self.queue_retries = Counter(
            "workqueue_retries_total", "Keys added again after a failure", label, registry=registry
        )

    def _declare_reconciles(self, registry: CollectorRegistry) -> None:
        label = ["controller"]
        self.reconciles = Counter(
            "controller_runtime_reconcile_total",
            "Reconciles by result: success, error, requeue, requeue_after",
            ["controller", "result"],
            registry=registry,
        )
        self.reconcile_errors = Counter(
            "controller_runtime_reconcile_errors_total",
            "Failed reconciles",
            label,
            registry=registry,
        )
        self.terminal_errors = Counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Reconciles that failed and are not tried again",
            label,
            registry=registry,
        )
        self.reconcile_time = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconcile took",
            label,
            buckets=_RECONCILE_BUCKETS,
            registry=registry,
        )
        self.active_workers = Gauge(
            "controller_runtime_active_workers", "Reconciles going on", label, registry=registry
        )
        self.max_workers = Gauge(
            "controller_runtime_max_concurrent_reconciles", "Workers", label, registry=registry
        )

    def queue(self, name: str) -> QueueMetrics:
        """The observer for a queue of this name."""
        return QueueMetrics(self, name)

    def watch(self, scope: str, age: Callable[[], float], size: Callable[[], int]) -> None:
        """Report an informer; the functions are asked when the metrics are read."""
        self.watch_age.labels(scope).set_function(age)
        self.cached_objects.labels(scope).set_function(lambda: float(size()))
