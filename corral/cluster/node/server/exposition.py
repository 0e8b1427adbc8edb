"""Readings as Prometheus text: ``/metrics/resource`` and the common part of ``/metrics/cadvisor``.

Names, labels and timestamps are those that metrics-server and dashboards read from a kubelet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from corral.cluster.node.access import ContainerUsage, PodUsage
from corral.cluster.node.server.readings import Machine, Reading, cpu_of
from corral.kube.quantity import Quantity
from corral.kube.types import Obj

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = Mapping[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Family(Generic[T]):
    """One metric of things of a kind; those for which ``value`` is None have no sample."""

    name: str
    kind: str
    about: str
    value: Callable[[T], float | None]
    dated: bool = True

    def lines(self, things: Iterable[tuple[Labels, T]], at: float) -> list[str]:
        """The samples under their head; nothing when there is no sample."""
        stamp = f" {int(at * 1000)}" if self.dated else ""
        values = ((labels, self.value(thing)) for labels, thing in things)
        samples = [
            f"{self.name}{_shown(labels)} {float(value)!r}{stamp}"
            for labels, value in values
            if value is not None
        ]
        head = [f"# HELP {self.name} {self.about}", f"# TYPE {self.name} {self.kind}"]
        return head + samples if samples else []


def _shown(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = (f'{key}="{value.translate(_ESCAPES)}"' for key, value in sorted(labels.items()))
    return f"{{{','.join(pairs)}}}"


def _page(parts: Iterable[list[str]]) -> str:
    return "\n".join(line for part in parts for line in part) + "\n"


# -- /metrics/resource -----------------------------------------------------------------------------

_CPU = "Cumulative cpu time consumed by the {} in core-seconds"
_MEMORY = "Current working set of the {} in bytes"
_ERROR = "1 if there was an error while getting container metrics, 0 otherwise"

_CONTAINERS: Sequence[Family[ContainerUsage]] = (
    Family(
        "container_cpu_usage_seconds_total",
        "counter",
        "[STABLE] " + _CPU.format("container"),
        lambda c: cpu_of(c.usage),
    ),
    Family(
        "container_memory_working_set_bytes",
        "gauge",
        "[STABLE] " + _MEMORY.format("container"),
        lambda c: c.usage.memory_bytes,
    ),
    Family(
        "container_start_time_seconds",
        "gauge",
        "[STABLE] Start time of the container since unix epoch in seconds",
        lambda c: c.started_at,
        dated=False,
    ),
)
_NODE: Sequence[Family[Machine]] = (
    Family(
        "node_cpu_usage_seconds_total",
        "counter",
        "[STABLE] " + _CPU.format("node"),
        lambda m: m.cpu_seconds,
    ),
    Family(
        "node_memory_working_set_bytes",
        "gauge",
        "[STABLE] " + _MEMORY.format("node"),
        lambda m: m.memory_working_set,
    ),
    Family(
        "node_swap_usage_bytes",
        "gauge",
        "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems",
        lambda m: m.swap_usage,
    ),
)
_PODS: Sequence[Family[PodUsage]] = (
    Family(
        "pod_cpu_usage_seconds_total",
        "counter",
        "[STABLE] " + _CPU.format("pod"),
        lambda p: sum(cpu_of(c.usage) for c in p.containers),
    ),
    Family(
        "pod_memory_working_set_bytes",
        "gauge",
        "[STABLE] " + _MEMORY.format("pod"),
        lambda p: sum(c.usage.memory_bytes for c in p.containers),
    ),
)
_ERRORS: Sequence[Family[None]] = (
    Family("resource_scrape_error", "gauge", f"[STABLE] {_ERROR}", lambda _: 0.0, dated=False),
    Family(
        "scrape_error",
        "gauge",
        f"[ALPHA] (Deprecated since 1.29.0) {_ERROR}",
        lambda _: 0.0,
        dated=False,
    ),
)


def resource_page(reading: Reading) -> str:
    """``/metrics/resource``."""
    at = reading.at
    pods = [({"pod": pod.name, "namespace": pod.namespace}, pod) for pod in reading.pods]
    containers = [
        ({**where, "container": c.name}, c) for where, pod in pods for c in pod.containers
    ]
    return _page(
        [
            *(family.lines(containers, at) for family in _CONTAINERS),
            *(family.lines([({}, reading.machine)], at) for family in _NODE),
            *(family.lines(pods, at) for family in _PODS),
            *(family.lines([({}, None)], at) for family in _ERRORS),
        ]
    )


# -- /metrics/cadvisor -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    usage: ContainerUsage
    limits: Mapping[str, str]
    at: float


_ROWS: Sequence[Family[_Row]] = (
    Family(
        "container_memory_usage_bytes",
        "gauge",
        "Current memory usage in bytes.",
        lambda r: r.usage.usage.memory_bytes,
    ),
    Family(
        "container_memory_working_set_bytes",
        "gauge",
        "Current working set in bytes.",
        lambda r: r.usage.usage.memory_bytes,
    ),
    Family(
        "container_last_seen",
        "gauge",
        "Last time a container was seen by the exporter",
        lambda r: int(r.at),
    ),
    Family(
        "container_start_time_seconds",
        "gauge",
        "Start time of the container since unix epoch in seconds.",
        lambda r: r.usage.started_at,
    ),
    Family(
        "container_spec_memory_limit_bytes",
        "gauge",
        "Memory limit for the container.",
        lambda r: Quantity.parse(r.limits.get("memory", "0")).to_int(),
    ),
    Family(
        "container_spec_cpu_period",
        "gauge",
        "CPU period of the container.",
        lambda r: 100_000 if "cpu" in r.limits else None,
    ),
    Family(
        "container_spec_cpu_quota",
        "gauge",
        "CPU quota of the container.",
        lambda r: Quantity.parse(r.limits["cpu"]).milli() * 100 if "cpu" in r.limits else None,
    ),
)
_ROW_CPU: Family[_Row] = Family(
    "container_cpu_usage_seconds_total",
    "counter",
    "Cumulative cpu time consumed in seconds.",
    lambda r: cpu_of(r.usage.usage),
)
_MACHINE: Sequence[Family[Machine]] = (
    Family(
        "machine_cpu_cores",
        "gauge",
        "Number of logical CPU cores.",
        lambda _: len(os.sched_getaffinity(0)),
        dated=False,
    ),
    Family(
        "machine_memory_bytes",
        "gauge",
        "Amount of memory installed on the machine.",
        lambda m: m.memory_total,
        dated=False,
    ),
)


def cadvisor_page(reading: Reading, pods: Iterable[Obj]) -> str:
    """``/metrics/cadvisor``: containers' CPU, memory and limits, and the machine's size."""
    at = reading.at
    specs = {pod["metadata"].get("uid", ""): pod for pod in pods}
    rows = [
        _row(pod, container, _spec_of(specs.get(pod.uid, {}), container.name), at)
        for pod in reading.pods
        for container in pod.containers
    ]
    total = [({**labels, "cpu": "total"}, row) for labels, row in rows]
    return _page(
        [
            _ROW_CPU.lines(total, at),
            *(family.lines(rows, at) for family in _ROWS),
            *(family.lines([({}, reading.machine)], at) for family in _MACHINE),
        ]
    )


def _row(pod: PodUsage, container: ContainerUsage, spec: Obj, at: float) -> tuple[Labels, _Row]:
    labels = {
        "container": container.name,
        "id": f"/kubepods/pod{pod.uid}/{container.name}",
        "image": spec.get("image", ""),
        "name": f"{pod.uid}_{container.name}",
        "namespace": pod.namespace,
        "pod": pod.name,
    }
    return labels, _Row(container, (spec.get("resources") or {}).get("limits") or {}, at)


def _spec_of(pod: Obj, name: str) -> Obj:
    spec = pod.get("spec") or {}
    for key in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(key) or ():
            if container["name"] == name:
                found: Obj = container
                return found
    return {}
