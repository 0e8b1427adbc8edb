"""Rows of autoscalers and scales: what each metric is, and what it should be."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from corral.cluster.apiserver.builtin.strategy.conversion import convert
from corral.cluster.apiserver.tables.cells import NONE, UNKNOWN, UNSET, Row, born
from corral.kube.types import Obj

__all__ = ["ROWS", "first_version"]

_SHOWN = 2
_SOURCES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def first_version(obj: Obj, now: datetime) -> list[Any]:
    """The row of an autoscaler asked for as autoscaling/v1.

    That version keeps metrics partly in annotations and forgets their order. The stored
    autoscaling/v2 form is taken as well, and then printed in the order it was written in.
    """
    if obj.get("apiVersion") != "autoscaling/v2":
        obj = convert(obj, "autoscaling/v1", "autoscaling/v2")
    return _autoscaler(obj, now)


def _autoscaler(obj: Obj, now: datetime) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    target, least = spec.get("scaleTargetRef") or {}, spec.get("minReplicas")
    return [
        obj["metadata"].get("name", ""),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _metrics(spec.get("metrics") or [], status.get("currentMetrics") or []),
        UNSET if least is None else str(least),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        born(obj, now),
    ]


def _metrics(wanted: list[Obj], current: list[Obj]) -> str:
    if not wanted:
        return NONE
    pairs = zip(wanted[:_SHOWN], [*current, {}, {}], strict=False)
    text = ", ".join(_metric(metric, status) for metric, status in pairs)
    return f"{text} + {len(wanted) - _SHOWN} more..." if len(wanted) > _SHOWN else text


def _metric(metric: Obj, status: Obj) -> str:
    """``current/target`` of one metric.

    The status belongs to the metric by its place only; one of another type counts as missing.
    """
    source = _SOURCES.get(metric.get("type", ""))
    if source is None:
        return "<unknown type>"
    spec = metric.get(source) or {}
    target = spec.get("target") or {}
    found = status.get(source)
    now = None if found is None else found.get("current") or {}
    if source in ("resource", "containerResource"):
        return f"{spec.get('name', '')}: {_resource(target, now)}"
    if source == "pods":
        return f"{_quantity(now, 'averageValue')}/{_quantity(target, 'averageValue')}"
    if target.get("averageValue") is None:
        return f"{_quantity(now, 'value')}/{_quantity(target, 'value')}"
    average = UNKNOWN if now is None else now.get("averageValue", UNKNOWN)
    return f"{average}/{target['averageValue']} (avg)"


def _resource(target: Obj, now: Obj | None) -> str:
    if target.get("averageValue") is not None:
        return f"{_quantity(now, 'averageValue')}/{target['averageValue']}"
    used, wanted = (now or {}).get("averageUtilization"), target.get("averageUtilization")
    return "/".join(
        (
            UNKNOWN if used is None else f"{used}%",
            "<auto>" if wanted is None else f"{wanted}%",
        )
    )


def _quantity(found: Obj | None, key: str) -> str:
    if found is None:
        return UNKNOWN
    return str(found.get(key, "<nil>"))


def _scale(obj: Obj, now: datetime) -> list[Any]:
    wanted = (obj.get("spec") or {}).get("replicas", 0)
    current = (obj.get("status") or {}).get("replicas", 0)
    return [obj["metadata"].get("name", ""), wanted, current, born(obj, now)]


ROWS: dict[tuple[str, str], Row] = {
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("autoscaling", "Scale"): _scale,
}
