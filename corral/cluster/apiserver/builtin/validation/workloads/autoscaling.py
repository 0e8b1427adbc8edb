"""HorizontalPodAutoscalers (v1 and v2), PodDisruptionBudgets and the scale subresource."""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.builtin.validation.fields.errors import (
    NEGATIVE,
    Errors,
    int_of,
    non_negative,
)
from corral.cluster.apiserver.builtin.validation.fields.names import dns_label, path_segment
from corral.cluster.apiserver.builtin.validation.fields.quantities import canonical, nano
from corral.cluster.apiserver.builtin.validation.fields.selectors import check_selector
from corral.cluster.apiserver.builtin.validation.fields.structs import disruption_budget_spec
from corral.cluster.apiserver.builtin.validation.pods.resources import check_container_resource_name
from corral.cluster.apiserver.builtin.validation.workloads.replicated import (
    check_int_or_percent,
    check_not_over_100,
)
from corral.kube.types import Obj

__all__ = [
    "validate_autoscaler",
    "validate_autoscaler_status",
    "validate_disruption_budget",
    "validate_disruption_budget_status",
]

_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_FIELDS = {t: t[0].lower() + t[1:] for t in _TYPES}
_ORDER = ("object", "external", "pods", "resource", "containerResource")


def _version_rule(target: Obj, old: Obj | None) -> str:
    """How the apiVersion of a scale target is checked: "any", "parses" or "has group"."""
    before = ((old or {}).get("spec") or {}).get("scaleTargetRef") or {}
    if old is not None and all(target.get(n) == before.get(n) for n in ("apiVersion", "kind")):
        return "any"
    # The only scalable kind of the core group.
    return "parses" if target.get("kind") == "ReplicationController" else "has group"


def _check_reference(errs: Errors, ref: Obj, path: str, *, version: str) -> None:
    for name in ("kind", "name"):
        value = ref.get(name) or ""
        if not value:
            errs.required(f"{path}.{name}")
        else:
            errs.format(f"{path}.{name}", value, path_segment)
    given = ref.get("apiVersion") or ""
    if version == "any":
        return
    if given.count("/") > 1:
        errs.invalid(f"{path}.apiVersion", given, f"unexpected GroupVersion string: {given}")
    elif version == "has group" and "/" not in given:
        errs.invalid(f"{path}.apiVersion", given, "apiVersion must specify API group")


def _check_target(errs: Errors, target: Obj, path: str) -> None:
    kind = target.get("type") or ""
    if not kind:
        errs.required(f"{path}.type", "must specify a metric target type")
    if kind not in ("Utilization", "Value", "AverageValue"):
        errs.invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue"):
        amount = target.get(name)
        if amount is not None and nano(amount) <= 0:
            errs.invalid(f"{path}.{name}", canonical(amount), "must be positive")
    use = target.get("averageUtilization")
    if use is not None and use < 1:
        errs.invalid(f"{path}.averageUtilization", use, "must be greater than 0")


def _check_metric_name(errs: Errors, metric: Obj, path: str) -> None:
    name = metric.get("name") or ""
    if not name:
        errs.required(f"{path}.name", "must specify a metric name")
    else:
        errs.format(f"{path}.name", name, path_segment)


def _check_source(errs: Errors, kind: str, source: Obj, path: str) -> None:
    target = source.get("target") or {}
    value, average = target.get("value"), target.get("averageValue")
    use = target.get("averageUtilization")
    if kind in ("object", "external", "pods"):
        if kind == "object":
            ref = source.get("describedObject") or {}
            _check_reference(errs, ref, f"{path}.describedObject", version="parses")
        _check_metric_name(errs, source.get("metric") or {}, f"{path}.metric")
    else:
        name = source.get("name") or ""
        if not name:
            errs.required(f"{path}.name", "must specify a resource name")
        elif kind == "containerResource":
            check_container_resource_name(errs, name, f"{path}.name")
        if kind == "containerResource":
            container = source.get("container") or ""
            if not container:
                errs.required(f"{path}.container", "must specify a container")
            else:
                errs.format(f"{path}.container", container, dns_label)
    _check_target(errs, target, f"{path}.target")
    _check_target_given(errs, kind, (value, average, use), f"{path}.target")


def _check_target_given(errs: Errors, kind: str, given: tuple[Any, Any, Any], path: str) -> None:
    value, average, use = given
    if kind == "object" and value is None and average is None:
        errs.required(f"{path}.averageValue", "must set either a target value or averageValue")
    elif kind == "external":
        if value is None and average is None:
            why = "must set either a target value for metric or a per-pod target"
            errs.required(f"{path}.averageValue", why)
        if value is not None and average is not None:
            why = "may not set both a target value for metric and a per-pod target"
            errs.forbidden(f"{path}.value", why)
    elif kind == "pods" and average is None:
        errs.required(f"{path}.averageValue", "must specify a positive target averageValue")
    elif kind in ("resource", "containerResource"):
        if use is None and average is None:
            why = "must set either a target raw value or a target utilization"
            errs.required(f"{path}.averageUtilization", why)
        if use is not None and average is not None:
            why = "may not set both a target raw value and a target utilization"
            errs.forbidden(f"{path}.averageValue", why)


def _check_metric(errs: Errors, metric: Obj, path: str) -> None:
    kind = metric.get("type") or ""
    if not kind:
        errs.required(f"{path}.type", "must specify a metric source type")
    if kind not in _TYPES:
        errs.not_supported(f"{path}.type", kind, _TYPES)
    present = [n for n in _ORDER if metric.get(n) is not None]
    if present:
        _check_source(errs, present[0], metric[present[0]], f"{path}.{present[0]}")
    expected = _FIELDS.get(kind)
    if expected is None:
        errs.not_supported(f"{path}.type", kind, _TYPES)
    elif metric.get(expected) is None:
        errs.required(f"{path}.{expected}", "must populate information for the given metric source")
    if len(present) != 1:
        for name in present:
            if name != expected:
                errs.forbidden(f"{path}.{name}", "must populate the given metric source only")


def _check_rules(errs: Errors, rules: Obj | None, path: str) -> None:
    if rules is None:
        return
    window = rules.get("stabilizationWindowSeconds")
    where = f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        errs.invalid(where, window, "must be greater than or equal to zero")
    if window is not None and window > 3600:
        errs.invalid(where, window, "must be less than or equal to 3600")
    select = rules.get("selectPolicy")
    if select is not None and select not in ("Disabled", "Max", "Min"):
        errs.not_supported(f"{path}.selectPolicy", select, ("Disabled", "Max", "Min"))
    policies = rules.get("policies") or ()
    if not policies:
        errs.required(f"{path}.policies", "must specify at least one Policy")
    for i, policy in enumerate(policies):
        _check_policy(errs, policy, f"{path}.policies[{i}]")
    tolerance = rules.get("tolerance")
    if tolerance is not None and nano(tolerance) < 0:
        errs.invalid(f"{path}.tolerance", canonical(tolerance), NEGATIVE)


def _check_policy(errs: Errors, policy: Obj, path: str) -> None:
    kind = policy.get("type") or ""
    if kind not in ("Percent", "Pods"):
        errs.not_supported(f"{path}.type", kind, ("Percent", "Pods"))
    for name in ("value", "periodSeconds"):
        value = int_of(policy.get(name))
        if value <= 0:
            errs.invalid(f"{path}.{name}", value, "must be greater than zero")
    seconds = int_of(policy.get("periodSeconds"))
    if seconds > 1800:
        errs.invalid(f"{path}.periodSeconds", seconds, "must be less than or equal to 1800")


def validate_autoscaler(errs: Errors, obj: Obj) -> None:
    _check_autoscaler(errs, obj, None)


def _check_autoscaler(errs: Errors, obj: Obj, old: Obj | None) -> None:
    spec = obj.get("spec") or {}
    low, high = spec.get("minReplicas"), int_of(spec.get("maxReplicas"))
    if low is not None and high < low:
        errs.invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    late = Errors()
    if low is not None and low < 0:
        late.invalid("spec.minReplicas", low, NEGATIVE)
    if high == 0:
        late.required("spec.maxReplicas")
    elif high < 0:
        late.invalid("spec.maxReplicas", high, "must be greater than or equal to 1")
    target = spec.get("scaleTargetRef") or {}
    _check_reference(errs, target, "spec.scaleTargetRef", version=_version_rule(target, old))
    metrics = spec.get("metrics") or ()
    for i, metric in enumerate(metrics):
        _check_metric(errs, metric, f"spec.metrics[{i}]")
    if low == 0 and not any(m.get("type") in ("Object", "External") for m in metrics):
        why = (
            "must specify at least one Object or External metric to support scaling to zero "
            "replicas"
        )
        errs.forbidden("spec.metrics", why)
    if (behavior := spec.get("behavior")) is not None:
        _check_rules(errs, behavior.get("scaleUp"), "spec.behavior.scaleUp")
        _check_rules(errs, behavior.get("scaleDown"), "spec.behavior.scaleDown")
    errs.extend(late)


def validate_autoscaler_update(errs: Errors, new: Obj, old: Obj) -> None:
    _check_autoscaler(errs, new, old)


def validate_autoscaler_status(errs: Errors, new: Obj, old: Obj) -> None:
    non_negative(errs, new.get("status") or {}, "status", "currentReplicas", "desiredReplicas")


def validate_disruption_budget(errs: Errors, obj: Obj) -> None:
    spec = obj.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        why = "minAvailable and maxUnavailable cannot be both set"
        errs.invalid("spec", disruption_budget_spec(spec), why)
    for name in ("minAvailable", "maxUnavailable"):
        value = spec.get(name)
        if value is not None:
            check_int_or_percent(errs, value, f"spec.{name}")
            check_not_over_100(errs, value, f"spec.{name}")
    check_selector(errs, spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        allowed = ("AlwaysAllow", "IfHealthyBudget")
        errs.not_supported("spec.unhealthyPodEvictionPolicy", policy, allowed)


def validate_disruption_budget_update(errs: Errors, new: Obj, old: Obj) -> None:
    validate_disruption_budget(errs, new)


def validate_disruption_budget_status(errs: Errors, new: Obj, old: Obj) -> None:
    names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    non_negative(errs, new.get("status") or {}, "status", *names)
