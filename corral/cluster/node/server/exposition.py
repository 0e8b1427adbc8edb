"""Readings as Prometheus text: ``/metrics/resource`` and the common part of ``/metrics/cadvisor``.

Names, labels and timestamps are those that metrics-server and dashboards read from a kubelet.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from corral.cluster.node.server.readings import Reading, cpu_of
from corral.kube.quantity import Quantity
from corral.kube.types import Obj

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = Mapping[str, str]


class Page:
    """Families of samples, each with its head."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def family(
        self,
        name: str,
        kind: str,
        about: str,
        samples: Iterable[tuple[Labels, float]],
        *,
        at: float | None = None,
    ) -> None:
        """Add a family; ``at`` dates its samples. One without samples is left out."""
        stamp = f" {int(at * 1000)}" if at is not None else ""
        lines = [f"{name}{_labels(labels)} {value!r}{stamp}" for labels, value in samples]
        if lines:
            self._lines += (f"# HELP {name} {about}", f"# TYPE {name} {kind}", *lines)

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = (f'{key}="{value.translate(_ESCAPES)}"' for key, value in sorted(labels.items()))
    return f"{{{','.join(pairs)}}}"


def resource_page(reading: Reading) -> str:
    """``/metrics/resource``."""
    page, at, machine = Page(), reading.at, reading.machine
    containers = [
        ({"container": c.name, "pod": pod.name, "namespace": pod.namespace}, c)
        for pod in reading.pods
        for c in pod.containers
    ]
    pods = [({"pod": pod.name, "namespace": pod.namespace}, pod) for pod in reading.pods]
    page.family(
        "container_cpu_usage_seconds_total",
        "counter",
        "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
        [(labels, cpu_of(c.usage)) for labels, c in containers],
        at=at,
    )
    page.family(
        "container_memory_working_set_bytes",
        "gauge",
        "[STABLE] Current working set of the container in bytes",
        [(labels, float(c.usage.memory_bytes)) for labels, c in containers],
        at=at,
    )
    page.family(
        "container_start_time_seconds",
        "gauge",
        "[STABLE] Start time of the container since unix epoch in seconds",
        [(labels, c.started_at) for labels, c in containers],
    )
    page.family(
        "node_cpu_usage_seconds_total",
        "counter",
        "[STABLE] Cumulative cpu time consumed by the node in core-seconds",
        [({}, machine.cpu_seconds)],
        at=at,
    )
    page.family(
        "node_memory_working_set_bytes",
        "gauge",
        "[STABLE] Current working set of the node in bytes",
        [({}, float(machine.memory_working_set))],
        at=at,
    )
    page.family(
        "node_swap_usage_bytes",
        "gauge",
        "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems",
        [({}, float(machine.swap_usage))],
        at=at,
    )
    page.family(
        "pod_cpu_usage_seconds_total",
        "counter",
        "[STABLE] Cumulative cpu time consumed by the pod in core-seconds",
        [(labels, sum(cpu_of(c.usage) for c in pod.containers)) for labels, pod in pods],
        at=at,
    )
    page.family(
        "pod_memory_working_set_bytes",
        "gauge",
        "[STABLE] Current working set of the pod in bytes",
        [
            (labels, float(sum(c.usage.memory_bytes for c in pod.containers)))
            for labels, pod in pods
        ],
        at=at,
    )
    _scraped(page)
    return page.text()


def _scraped(page: Page) -> None:
    about = "1 if there was an error while getting container metrics, 0 otherwise"
    page.family("resource_scrape_error", "gauge", f"[STABLE] {about}", [({}, 0.0)])
    page.family("scrape_error", "gauge", f"[ALPHA] (Deprecated since 1.29.0) {about}", [({}, 0.0)])


def cadvisor_page(reading: Reading, pods: Iterable[Obj]) -> str:
    """``/metrics/cadvisor``: containers' CPU, memory and limits, and the machine's size."""
    page, at = Page(), reading.at
    specs = {pod["metadata"].get("uid", ""): pod for pod in pods}
    rows = []
    for pod in reading.pods:
        known = specs.get(pod.uid, {})
        for container in pod.containers:
            spec = _container(known, container.name)
            labels = {
                "container": container.name,
                "id": f"/kubepods/pod{pod.uid}/{container.name}",
                "image": spec.get("image", ""),
                "name": f"{pod.uid}_{container.name}",
                "namespace": pod.namespace,
                "pod": pod.name,
            }
            rows.append((labels, container, (spec.get("resources") or {}).get("limits") or {}))
    page.family(
        "container_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed in seconds.",
        [(labels | {"cpu": "total"}, cpu_of(c.usage)) for labels, c, _ in rows],
        at=at,
    )
    for name, about in (
        ("container_memory_usage_bytes", "Current memory usage in bytes."),
        ("container_memory_working_set_bytes", "Current working set in bytes."),
    ):
        page.family(
            name, "gauge", about, [(lb, float(c.usage.memory_bytes)) for lb, c, _ in rows], at=at
        )
    page.family(
        "container_last_seen",
        "gauge",
        "Last time a container was seen by the exporter",
        [(labels, float(int(at))) for labels, _, _ in rows],
        at=at,
    )
    page.family(
        "container_start_time_seconds",
        "gauge",
        "Start time of the container since unix epoch in seconds.",
        [(labels, c.started_at) for labels, c, _ in rows],
        at=at,
    )
    page.family(
        "container_spec_memory_limit_bytes",
        "gauge",
        "Memory limit for the container.",
        [(lb, float(Quantity.parse(limits.get("memory", "0")).to_int())) for lb, _, limits in rows],
        at=at,
    )
    page.family(
        "container_spec_cpu_quota",
        "gauge",
        "CPU quota of the container.",
        [
            (labels, Quantity.parse(limits["cpu"]).milli() * 100.0)
            for labels, _, limits in rows
            if "cpu" in limits
        ],
        at=at,
    )
    page.family(
        "machine_cpu_cores",
        "gauge",
        "Number of logical CPU cores.",
        [({}, float(len(os.sched_getaffinity(0))))],
    )
    page.family(
        "machine_memory_bytes",
        "gauge",
        "Amount of memory installed on the machine.",
        [({}, float(reading.machine.memory_total))],
    )
    return page.text()


def _container(pod: Obj, name: str) -> Obj:
    spec = pod.get("spec") or {}
    for key in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(key) or ():
            if container["name"] == name:
                found: Obj = container
                return found
    return {}
