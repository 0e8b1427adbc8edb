"""HorizontalPodAutoscalers (v1 and v2) and PodDisruptionBudgets."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields import check, names
from corral.cluster.apiserver.builtin.validation.fields.check import Check
from corral.cluster.apiserver.builtin.validation.fields.errors import NEGATIVE, Errors, int_of
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules, again, whole
from corral.cluster.apiserver.builtin.validation.fields.selectors import check_selector
from corral.cluster.apiserver.builtin.validation.fields.structs import disruption_budget_spec
from corral.cluster.apiserver.builtin.validation.pods.resources import check_container_resource_name
from corral.cluster.apiserver.builtin.validation.workloads.replicated import (
    check_int_or_percent,
    check_not_over_100,
)
from corral.kube.types import Obj

__all__ = ["KINDS"]

# -- what is scaled --------------------------------------------------------------------------------


def _check_version(errs: Errors, version: str, path: str) -> None:
    if version.count("/") > 1:
        errs.invalid(path, version, f"unexpected GroupVersion string: {version}")


def _check_group(errs: Errors, version: str, path: str) -> None:
    if "/" not in version:
        errs.invalid(path, version, "apiVersion must specify API group")
    else:
        _check_version(errs, version, path)


_NAMED = check.needed("kind name", check.PATH_SEGMENT)


def _check_scaled(errs: Errors, target: Obj, old: Obj | None) -> None:
    path = "spec.scaleTargetRef"
    _NAMED(errs, target, path)
    before = ((old or {}).get("spec") or {}).get("scaleTargetRef") or {}
    if old is not None and all(target.get(n) == before.get(n) for n in ("apiVersion", "kind")):
        return
    # The only scalable kind of the core group.
    core = target.get("kind") == "ReplicationController"
    check.always("apiVersion", _check_version if core else _check_group)(errs, target, path)


# -- metrics ---------------------------------------------------------------------------------------

_TARGET_TYPES = ("Utilization", "Value", "AverageValue")
_TARGET = check.struct(
    check.needed("type", why="must specify a metric target type"),
    check.always(
        "type",
        check.holds(
            _TARGET_TYPES.__contains__, "must be either Utilization, Value, or AverageValue"
        ),
    ),
    check.pointer("value averageValue", check.quantity(1, "must be positive")),
    check.pointer("averageUtilization", check.at_least(1, "must be greater than 0")),
)


def _target(one: str, other: str, *, missing: str, both: str = "") -> Check:
    """A target with ``one`` or ``other``; errors of two stand at ``one``'s path, or nowhere."""

    def check_given(errs: Errors, target: Obj, path: str) -> None:
        given = [n for n in (one, other) if target.get(n) is not None]
        if not given:
            errs.required(f"{path}.{other}", missing)
        elif both and len(given) > 1:
            errs.forbidden(f"{path}.{one}", both)

    return check.inside("target", _TARGET, check_given)


_METRIC_NAME = check.inside(
    "metric", check.needed("name", check.PATH_SEGMENT, "must specify a metric name")
)
_RESOURCE_TARGET = _target(
    "averageValue",
    "averageUtilization",
    missing="must set either a target raw value or a target utilization",
    both="may not set both a target raw value and a target utilization",
)
_SOURCES = {
    "object": check.struct(
        check.inside("describedObject", _NAMED, check.always("apiVersion", _check_version)),
        _METRIC_NAME,
        _target("value", "averageValue", missing="must set either a target value or averageValue"),
    ),
    "external": check.struct(
        _METRIC_NAME,
        _target(
            "value",
            "averageValue",
            missing="must set either a target value for metric or a per-pod target",
            both="may not set both a target value for metric and a per-pod target",
        ),
    ),
    "pods": check.struct(
        _METRIC_NAME,
        _target(
            "averageValue", "averageValue", missing="must specify a positive target averageValue"
        ),
    ),
    "resource": check.struct(
        check.needed("name", why="must specify a resource name"), _RESOURCE_TARGET
    ),
    "containerResource": check.struct(
        check.needed("name", check_container_resource_name, "must specify a resource name"),
        check.needed("container", check.LABEL, "must specify a container"),
        _RESOURCE_TARGET,
    ),
}
"""The sources of metrics, in the order the API looks at them."""
_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_FIELDS = {t: t[0].lower() + t[1:] for t in _TYPES}


def _check_metric(errs: Errors, metric: Obj, path: str) -> None:
    kind = metric.get("type") or ""
    if not kind:
        errs.required(f"{path}.type", "must specify a metric source type")
    if kind not in _TYPES:
        errs.not_supported(f"{path}.type", kind, _TYPES)
    present = [n for n in _SOURCES if metric.get(n) is not None]
    if present:
        _SOURCES[present[0]](errs, metric[present[0]], f"{path}.{present[0]}")
    expected = _FIELDS.get(kind)
    if expected is None:
        errs.not_supported(f"{path}.type", kind, _TYPES)
    elif metric.get(expected) is None:
        errs.required(f"{path}.{expected}", "must populate information for the given metric source")
    if len(present) != 1:
        for name in present:
            if name != expected:
                errs.forbidden(f"{path}.{name}", "must populate the given metric source only")


# -- behaviour and the whole -----------------------------------------------------------------------

_POSITIVE = check.at_least(1, "must be greater than zero")
_POLICY = check.struct(
    check.always("type", check.choice("Percent", "Pods")),
    check.always("value periodSeconds", _POSITIVE, 0),
    check.always("periodSeconds", check.at_most(1800, "must be less than or equal to 1800"), 0),
)
_RULES = check.struct(
    check.pointer(
        "stabilizationWindowSeconds",
        check.struct(
            check.at_least(0, "must be greater than or equal to zero"),
            check.at_most(3600, "must be less than or equal to 3600"),
        ),
    ),
    check.pointer("selectPolicy", check.choice("Disabled", "Max", "Min")),
    check.needed("policies", check.each(_POLICY), "must specify at least one Policy"),
    check.pointer("tolerance", check.quantity(0, NEGATIVE)),
)
_METRICS = check.items("metrics", _check_metric)
_BEHAVIOR = check.inside("behavior", check.pointer("scaleUp scaleDown", _RULES))


def _check_autoscaler(errs: Errors, obj: Obj, old: Obj | None = None) -> None:
    spec = obj.get("spec") or {}
    low, high = spec.get("minReplicas"), int_of(spec.get("maxReplicas"))
    if low is not None and high < low:
        errs.invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`")
    _check_scaled(errs, spec.get("scaleTargetRef") or {}, old)
    _METRICS(errs, spec, "spec")
    scaled_by_others = (m.get("type") in ("Object", "External") for m in spec.get("metrics") or ())
    if low == 0 and not any(scaled_by_others):
        why = (
            "must specify at least one Object or External metric to support scaling to zero "
            "replicas"
        )
        errs.forbidden("spec.metrics", why)
    _BEHAVIOR(errs, spec, "spec")
    if low is not None and low < 0:
        errs.invalid("spec.minReplicas", low, NEGATIVE)
    if high == 0:
        errs.required("spec.maxReplicas")
    elif high < 0:
        errs.invalid("spec.maxReplicas", high, "must be greater than or equal to 1")


def _check_not_both(errs: Errors, spec: Obj, path: str) -> None:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        why = "minAvailable and maxUnavailable cannot be both set"
        errs.invalid(path, disruption_budget_spec(spec), why)


_BUDGET = whole(
    check.inside(
        "spec",
        _check_not_both,
        check.pointer(
            "minAvailable maxUnavailable", check.struct(check_int_or_percent, check_not_over_100)
        ),
        check.pointer("selector", check_selector),
        check.pointer("unhealthyPodEvictionPolicy", check.choice("AlwaysAllow", "IfHealthyBudget")),
    )
)
_BUDGET_COUNTS = check.counts("disruptionsAllowed currentHealthy desiredHealthy expectedPods")

KINDS: Kinds = {
    ("autoscaling", "HorizontalPodAutoscaler"): Rules(
        _check_autoscaler, _check_autoscaler,
        again(whole(check.inside("status", check.counts("currentReplicas desiredReplicas"))))),
    ("policy", "PodDisruptionBudget"): Rules(
        _BUDGET, again(_BUDGET), again(whole(check.inside("status", _BUDGET_COUNTS))),
        name=names.name_is_path_segment, meta_last=True, kube_finalizers=False),
}  # fmt: skip
