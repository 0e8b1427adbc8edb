"""What pods use, from the objects of metrics.k8s.io. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from corral.cluster.workloads.times import ZERO, datetime_or_zero
from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = ["MetricsError", "Sample", "go_duration", "read_samples"]

_PARTS: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNITS: Final = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0,
}  # fmt: skip


class MetricsError(Exception):
    """A metric says nothing; the message says why, in the words people know."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one pod uses."""

    value: int
    """Thousandths: of cores, of bytes."""
    at: datetime = ZERO
    window: float = 0.0
    """Seconds that the value is the average of."""


def read_samples(items: Iterable[Obj], resource: str, container: str = "") -> dict[str, Sample]:
    """The use of a resource by name of the pod; of all containers, or of one.

    A pod without a complete answer is left out.

    Raises:
        MetricsError: there are none at all.
    """
    found: dict[str, Sample] = {}
    empty = True
    for item in items:
        empty = False
        value = _use(item.get("containers") or (), resource, container)
        if value is not None:
            found[item["metadata"]["name"]] = Sample(
                value,
                datetime_or_zero(item.get("timestamp")),
                go_duration(str(item.get("window") or "0")),
            )
    if empty:
        raise MetricsError("no metrics returned from resource metrics API")
    return found


def _use(containers: Iterable[Obj], resource: str, wanted: str) -> int | None:
    total: int | None = None
    for container in containers:
        if wanted and container.get("name") != wanted:
            continue
        text = (container.get("usage") or {}).get(resource)
        if text is None:
            return None
        total = (total or 0) + Quantity.parse(str(text)).milli()
    return total


def go_duration(text: str) -> float:
    """Seconds in a duration as Go prints it (1m5.25s); 0 for anything else."""
    return sum(float(number) * _UNITS[unit] for number, unit in _PARTS.findall(text))
