"""Conversion between the versions of one kind that share a stored object.

Autoscalers are kept as autoscaling/v2, events as core/v1. ``convert`` returns a new object of
the wanted version and leaves the one it is given alone; unchanged parts are shared with it.
What autoscaling/v1 cannot say travels in annotations, so that nothing is lost on the way back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from corral.kube.types import Obj

__all__ = ["convert"]

_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS, _BEHAVIOR = f"{_PREFIX}metrics", f"{_PREFIX}behavior"
_CURRENT_METRICS, _CONDITIONS = f"{_PREFIX}current-metrics", f"{_PREFIX}conditions"
_CARRIERS = {
    _METRICS,
    _BEHAVIOR,
    _CURRENT_METRICS,
    _CONDITIONS,
    f"{_PREFIX}scale-down-tolerance",
    f"{_PREFIX}scale-up-tolerance",
}


def convert(obj: Obj, from_version: str, to_version: str) -> Obj:
    """Convert between apiVersions, e.g. ``autoscaling/v1`` to ``autoscaling/v2``.

    Raises LookupError for a pair that is not convertible.
    """
    if from_version == to_version:
        return obj
    return _CONVERSIONS[from_version, to_version](obj)


# Autoscalers


def _autoscaler_to_v2(obj: Obj) -> Obj:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    spec, status = dict(obj.get("spec") or {}), obj.get("status") or {}
    metrics = [_metric_to_v2(m, "target") for m in _carried(annotations, _METRICS)]
    cpu = spec.pop("targetCPUUtilizationPercentage", None)
    if cpu is not None or not metrics:
        target = {"type": "Utilization", "averageUtilization": 80 if cpu is None else cpu}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    spec["metrics"] = metrics
    behavior = _behavior_to_v2(annotations)
    if behavior:
        spec["behavior"] = behavior
    current = [_metric_to_v2(m, "current") for m in _carried(annotations, _CURRENT_METRICS)]
    used = status.get("currentCPUUtilizationPercentage")
    if used is not None and not current:
        resource = {"name": "cpu", "current": {"averageUtilization": used}}
        current = [{"type": "Resource", "resource": resource}]
    new_status = {
        **_pick(status, "observedGeneration", "lastScaleTime"),
        **({"currentReplicas": n} if (n := status.get("currentReplicas")) else {}),
        "desiredReplicas": status.get("desiredReplicas") or 0,
        "currentMetrics": current or None,
    }
    conditions = _carried(annotations, _CONDITIONS)
    if conditions:
        new_status["conditions"] = conditions
    return _autoscaler(obj, "autoscaling/v2", {}, spec, new_status)


def _autoscaler_to_v1(obj: Obj) -> Obj:
    spec, status = dict(obj.get("spec") or {}), obj.get("status") or {}
    metrics, behavior = spec.pop("metrics", None) or [], spec.pop("behavior", None)
    targets = [_cpu_target(metric) for metric in metrics]
    first = next((target for target in targets if target is not None), None)
    if first is not None:
        spec["targetCPUUtilizationPercentage"] = first
    others = [m for m, target in zip(metrics, targets, strict=True) if target is None]
    carried: dict[str, str] = {}
    if others:
        carried[_METRICS] = _json([_metric_to_v1(m, "target") for m in others])
    current = status.get("currentMetrics") or []
    if current:
        carried[_CURRENT_METRICS] = _json([_metric_to_v1(m, "current") for m in current])
    if behavior is not None:
        carried[_BEHAVIOR] = _json(_behavior_to_v1(behavior))
    if status.get("conditions"):
        carried[_CONDITIONS] = _json([_condition(c) for c in status["conditions"]])
    new_status = {
        **_pick(status, "observedGeneration", "lastScaleTime"),
        "currentReplicas": status.get("currentReplicas") or 0,
        "desiredReplicas": status.get("desiredReplicas") or 0,
    }
    for metric in current:
        resource = metric.get("resource") or {}
        used = (resource.get("current") or {}).get("averageUtilization")
        if resource.get("name") == "cpu" and used is not None:
            new_status["currentCPUUtilizationPercentage"] = used
    return _autoscaler(obj, "autoscaling/v1", carried, spec, new_status)


def _autoscaler(obj: Obj, api_version: str, carried: dict[str, str], spec: Obj, status: Obj) -> Obj:
    metadata = dict(obj.get("metadata") or {})
    own = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _CARRIERS}
    annotations = {**own, **carried}
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
    return {**obj, "apiVersion": api_version, "metadata": metadata, "spec": spec, "status": status}


def _pick(source: Obj, *keys: str) -> Obj:
    return {key: source[key] for key in keys if source.get(key) is not None}


def _cpu_target(metric: Obj) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    target: int | None = (resource.get("target") or {}).get("averageUtilization")
    return target


def _condition(condition: Obj) -> Obj:
    """A condition with its fields in the order that the annotation has them."""
    return {
        "type": condition.get("type") or "",
        "status": condition.get("status") or "",
        "lastTransitionTime": condition.get("lastTransitionTime"),
        **_pick(condition, "reason", "message", "observedGeneration"),
    }


def _carried(annotations: dict[str, str], key: str) -> list[Obj]:
    """What an annotation carries; nothing if somebody spoiled it."""
    try:
        value = orjson.loads(annotations.get(key) or "[]")
    except orjson.JSONDecodeError:
        return []
    return value if isinstance(value, list) else []


def _json(value: object) -> str:
    text = orjson.dumps(value).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# The key of a metric's numbers is "target" in a spec and "current" in a status; version 1 spreads
# them over fields named after it.


def _metric_to_v1(metric: Obj, kind: str) -> Obj:
    out: Obj = {"type": metric.get("type") or ""}
    for source in ("object", "pods", "resource", "containerResource", "external"):
        if metric.get(source) is not None:
            out[source] = _SOURCES_TO_V1[source](metric[source], kind)
    return out


def _object_to_v1(source: Obj, kind: str) -> Obj:
    numbers, metric = source.get(kind) or {}, source.get("metric") or {}
    described = source.get("describedObject") or {}
    return {
        "target": {
            "kind": described.get("kind") or "",
            "name": described.get("name") or "",
            **_pick(described, "apiVersion"),
        },
        "metricName": metric.get("name") or "",
        f"{kind}Value": numbers.get("value") or "0",
        **_pick(metric, "selector"),
        **_pick(numbers, "averageValue"),
    }


def _pods_to_v1(source: Obj, kind: str) -> Obj:
    metric = source.get("metric") or {}
    return {
        "metricName": metric.get("name") or "",
        f"{kind}AverageValue": (source.get(kind) or {}).get("averageValue") or "0",
        **_pick(metric, "selector"),
    }


def _resource_to_v1(source: Obj, kind: str) -> Obj:
    numbers = source.get(kind) or {}
    out = {"name": source.get("name") or ""}
    if numbers.get("averageUtilization") is not None:
        out[f"{kind}AverageUtilization"] = numbers["averageUtilization"]
    if numbers.get("averageValue") is not None or kind == "current":
        out[f"{kind}AverageValue"] = numbers.get("averageValue") or "0"
    if "container" in source:
        out["container"] = source["container"]
    return out


def _external_to_v1(source: Obj, kind: str) -> Obj:
    numbers, metric = source.get(kind) or {}, source.get("metric") or {}
    out = {"metricName": metric.get("name") or ""}
    if metric.get("selector") is not None:
        out["metricSelector"] = metric["selector"]
    if numbers.get("value") is not None or kind == "current":
        out[f"{kind}Value"] = numbers.get("value") or "0"
    if numbers.get("averageValue") is not None:
        out[f"{kind}AverageValue"] = numbers["averageValue"]
    return out


_SOURCES_TO_V1: dict[str, Callable[[Obj, str], Obj]] = {
    "object": _object_to_v1,
    "pods": _pods_to_v1,
    "resource": _resource_to_v1,
    "containerResource": _resource_to_v1,
    "external": _external_to_v1,
}


def _metric_to_v2(metric: Obj, kind: str) -> Obj:
    out: Obj = {"type": metric.get("type") or ""}
    for source in ("object", "pods", "resource", "containerResource", "external"):
        given = metric.get(source)
        if given is None:
            continue
        if source in ("resource", "containerResource"):
            out[source] = {**_pick(given, "name", "container"), kind: _numbers(given, kind, source)}
            continue
        selector = given.get("metricSelector", given.get("selector"))
        name: Obj = {"name": given.get("metricName") or ""}
        out[source] = {
            "metric": name if selector is None else {**name, "selector": selector},
            kind: _numbers(given, kind, source),
        }
        if source == "object":
            out[source]["describedObject"] = given.get("target") or {}
    return out


def _numbers(given: Obj, kind: str, source: str) -> Obj:
    """The target or current values of a metric, and for a target which of them counts."""
    value = given.get(f"{kind}Value")
    average = given.get("averageValue" if source == "object" else f"{kind}AverageValue")
    utilization = given.get(f"{kind}AverageUtilization")
    if source == "object" and kind == "target" and average is not None and value == "0":
        value = None  # version 1 cannot leave it out
    out: Obj = {}
    if kind == "target":
        if utilization is not None:
            out["type"] = "Utilization"
        elif source == "object":
            out["type"] = "Value" if average is None else "AverageValue"
        else:
            out["type"] = "AverageValue" if value is None else "Value"
    for key, number in (
        ("value", value),
        ("averageValue", average),
        ("averageUtilization", utilization),
    ):
        if number is not None:
            out[key] = number
    return out


# The annotation holds a structure of the server's own, with Go's field names.

_RULES = (
    ("stabilizationWindowSeconds", "StabilizationWindowSeconds"),
    ("selectPolicy", "SelectPolicy"),
    ("policies", "Policies"),
    ("tolerance", "Tolerance"),
)
_POLICY = (("type", "Type"), ("value", "Value"), ("periodSeconds", "PeriodSeconds"))


def _behavior_to_v1(behavior: Obj) -> Obj:
    out: Obj = {}
    for key, name in (("scaleUp", "ScaleUp"), ("scaleDown", "ScaleDown")):
        rules = behavior.get(key)
        if rules is None:
            out[name] = None
            continue
        out[name] = {go: rules.get(field) for field, go in _RULES}
        if rules.get("policies") is not None:
            out[name]["Policies"] = [
                {go: policy.get(field) for field, go in _POLICY} for policy in rules["policies"]
            ]
    return out


def _behavior_to_v2(annotations: dict[str, str]) -> Obj:
    try:
        behavior: Any = orjson.loads(annotations.get(_BEHAVIOR) or "{}")
    except orjson.JSONDecodeError:
        return {}
    out: Obj = {}
    for key, name in (("scaleUp", "ScaleUp"), ("scaleDown", "ScaleDown")):
        rules = behavior.get(name) if isinstance(behavior, dict) else None
        if rules is None:
            continue
        out[key] = {field: rules[go] for field, go in _RULES if rules.get(go) is not None}
        if rules.get("Policies") is not None:
            out[key]["policies"] = [
                {field: policy.get(go) for field, go in _POLICY} for policy in rules["Policies"]
            ]
    return out


# Events

_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {new: old for old, new in _EVENT_NAMES.items()}
_CORE_ALWAYS: tuple[tuple[str, Any], ...] = (
    ("firstTimestamp", None),
    ("lastTimestamp", None),
    ("eventTime", None),
    ("reportingComponent", ""),
    ("reportingInstance", ""),
)
_NEW_ALWAYS: tuple[tuple[str, Any], ...] = (
    ("eventTime", None),
    ("deprecatedFirstTimestamp", None),
    ("deprecatedLastTimestamp", None),
)


def _event_to_core(obj: Obj) -> Obj:
    out = {_CORE_NAMES.get(key, key): value for key, value in obj.items()}
    out["apiVersion"] = "v1"
    for key, value in _CORE_ALWAYS:
        out.setdefault(key, value)
    out.setdefault("involvedObject", {})
    out.setdefault("source", {})
    return out


def _event_from_core(obj: Obj) -> Obj:
    out = {_EVENT_NAMES.get(key, key): value for key, value in obj.items()}
    out["apiVersion"] = "events.k8s.io/v1"
    for key in ("reportingController", "reportingInstance"):
        if out.get(key) == "":
            del out[key]
    for key, value in _NEW_ALWAYS:
        out.setdefault(key, value)
    out.setdefault("regarding", {})
    out.setdefault("deprecatedSource", {})
    return out


_CONVERSIONS: dict[tuple[str, str], Callable[[Obj], Obj]] = {
    ("autoscaling/v1", "autoscaling/v2"): _autoscaler_to_v2,
    ("autoscaling/v2", "autoscaling/v1"): _autoscaler_to_v1,
    ("events.k8s.io/v1", "v1"): _event_to_core,
    ("v1", "events.k8s.io/v1"): _event_from_core,
}
