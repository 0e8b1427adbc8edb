"""Cells that several kinds share: ages, labels, selectors, containers and shortened lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeAlias

from corral.cluster.apiserver.crd.columns import human_duration
from corral.kube.types import Obj

__all__ = [
    "NONE",
    "UNKNOWN",
    "UNSET",
    "Row",
    "age",
    "between",
    "born",
    "containers",
    "created_at",
    "human_duration",
    "labels",
    "selector",
    "shortened",
]

Row: TypeAlias = Callable[[Obj, datetime], list[Any]]
"""From an object and the time of asking to its cells. Leaves the object alone."""

NONE = "<none>"
UNSET = "<unset>"
UNKNOWN = "<unknown>"

_ZERO_TIME = "0001-01-01T00:00:00"
_SHOWN = 3


def age(stamp: str | None, now: datetime) -> str:
    """How long ago a moment was."""
    if not stamp or stamp.startswith(_ZERO_TIME):
        return UNKNOWN
    return human_duration(int((now - datetime.fromisoformat(stamp)).total_seconds()))


def born(obj: Obj, now: datetime) -> str:
    """The age of an object."""
    return age(obj["metadata"].get("creationTimestamp"), now)


def created_at(obj: Obj) -> str:
    """When an object was made, for columns of type ``date``."""
    return str(obj["metadata"].get("creationTimestamp") or f"{_ZERO_TIME}Z")


def between(start: str, end: str) -> str:
    """The time from one moment to another."""
    span = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return human_duration(int(span.total_seconds()))


def labels(found: dict[str, str] | None) -> str:
    # Sorted as joined text, not by key: "a-b=1" stands before "a=1".
    return ",".join(sorted(f"{k}={v}" for k, v in found.items())) if found else NONE


def selector(found: Obj | None) -> str:
    """A label selector in the syntax of ``kubectl -l``; empty when it has no requirement."""
    if not found:
        return ""
    parts = [(key, f"{key}={value}") for key, value in (found.get("matchLabels") or {}).items()]
    parts += [(e["key"], _requirement(e)) for e in found.get("matchExpressions") or ()]
    parts.sort(key=lambda part: part[0])
    return ",".join(text for _, text in parts)


def _requirement(expression: Obj) -> str:
    key, operator = expression["key"], expression["operator"]
    if operator == "Exists":
        return str(key)
    if operator == "DoesNotExist":
        return f"!{key}"
    values = ",".join(sorted(expression.get("values") or ()))
    return f"{key} {operator.lower()} ({values})"


def containers(template: Obj | None) -> tuple[str, str]:
    """Names and images of the containers of a pod template."""
    found = ((template or {}).get("spec") or {}).get("containers") or ()
    return (
        ",".join(c.get("name", "") for c in found),
        ",".join(c.get("image", "") for c in found),
    )


def shortened(found: Iterable[str]) -> str:
    """The first three of a list, and how many there are beside them."""
    items = list(found)
    text = ",".join(items[:_SHOWN])
    if len(items) > _SHOWN:
        return f"{text} + {len(items) - _SHOWN} more..."
    return text or UNSET
