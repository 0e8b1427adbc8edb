"""A kubelet's /metrics/resource, read: CPU seconds and working sets, with their times."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ContainerKey = tuple[str, str, str]
"""Namespace, pod, container."""

_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+(-?\d+))?\s*$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_WANTED = frozenset(
    {
        "node_cpu_usage_seconds_total",
        "node_memory_working_set_bytes",
        "container_cpu_usage_seconds_total",
        "container_memory_working_set_bytes",
        "container_start_time_seconds",
    }
)


@dataclass(slots=True)
class Usage:
    """What one node or container has used."""

    cpu: float | None = None
    """CPU seconds since it started."""
    at: float = 0.0
    """When that was so."""
    memory: float | None = None
    started: float | None = None


@dataclass(slots=True)
class Sample:
    """One reading of one node."""

    taken: float
    node: Usage = field(default_factory=Usage)
    containers: dict[ContainerKey, Usage] = field(default_factory=dict)


def parse(text: str, now: float) -> Sample:
    """Read the text; lines that are not understood are left out. ``now`` dates undated values."""
    sample = Sample(now)
    for line in text.splitlines():
        if line.startswith(("node_", "container_")):
            _take(sample, line, now)
    return sample


def _take(sample: Sample, line: str, now: float) -> None:
    match = _LINE.match(line)
    if match is None or match[1] not in _WANTED:
        return
    name, labels, raw, millis = match.groups()
    try:
        value = float(raw)
    except ValueError:
        return
    at = int(millis) / 1000 if millis else now
    if name.startswith("node_"):
        usage = sample.node
    else:
        found = {k: _ESCAPE.sub(_unescape, v) for k, v in _LABEL.findall(labels or "")}
        key = (found.get("namespace", ""), found.get("pod", ""), found.get("container", ""))
        usage = sample.containers.setdefault(key, Usage())
    if name.endswith("cpu_usage_seconds_total"):
        usage.cpu, usage.at = value, at
    elif name.endswith("memory_working_set_bytes"):
        usage.memory = value
    else:
        usage.started = value


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
