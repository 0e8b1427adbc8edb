"""ResourceQuotas and LimitRanges."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

from corral.cluster.apiserver.builtin.validation.fields.errors import IMMUTABLE, Errors
from corral.cluster.apiserver.builtin.validation.fields.names import qualified_name
from corral.cluster.apiserver.builtin.validation.fields.quantities import NANO, canonical, nano
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules, same_again
from corral.cluster.apiserver.builtin.validation.fields.structs import capitalised
from corral.cluster.apiserver.builtin.validation.pods.resources import (
    check_amount,
    check_container_resource_name,
    check_quota_resource_name,
    check_resource_name,
    is_standard_quota,
    overcommits,
)
from corral.kube.types import Obj

__all__ = ["KINDS"]

_POD_SCOPES = (
    "Terminating",
    "NotTerminating",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
)
_SCOPES = (*_POD_SCOPES, "BestEffort", "VolumeAttributesClass")
_EXISTS_ONLY = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "CrossNamespacePodAffinity",
)
_COMPUTE = frozenset(
    ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
)
_PAIRS = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_UNFIT = "unsupported scope applied to resource"


def _scope_fits(scope: str, resource: str) -> bool:
    if scope == "BestEffort":
        return resource == "pods"
    if scope == "VolumeAttributesClass":
        return resource in ("persistentvolumeclaims", "requests.storage")
    if scope in _POD_SCOPES:
        return resource == "pods" or resource in _COMPUTE
    return True


def _check_amounts(errs: Errors, amounts: dict[str, Any] | None, path: str) -> None:
    for name, amount in (amounts or {}).items():
        check_quota_resource_name(errs, name, f"{path}[{name}]")
        check_amount(errs, name, amount, f"{path}[{name}]")


def _unfit_scopes(hard: Iterable[str]) -> frozenset[str]:
    """The scopes that do not go with one of the resources at least."""
    names = [name for name in hard if is_standard_quota(name)]
    return frozenset(s for s in _SCOPES if not all(_scope_fits(s, name) for name in names))


def _check_scopes(errs: Errors, spec: Obj, unfit: Set[str]) -> None:
    scopes, path = spec.get("scopes") or [], "spec.scopes"
    distinct = dict.fromkeys(scopes)
    said: set[str] = set()
    for scope in distinct:
        for wrong, why in ((scope not in _SCOPES, "unsupported scope"), (scope in unfit, _UNFIT)):
            if wrong and why not in said:
                said.add(why)
                errs.invalid(path, scopes, why)
    for pair in _PAIRS:
        if all(p in distinct for p in pair):
            errs.invalid(path, scopes, "conflicting scopes")


def _check_requirement(errs: Errors, item: Obj, path: str, unfit: Obj | None) -> None:
    scope, operator = item.get("scopeName") or "", item.get("operator") or ""
    values = item.get("values") or []
    if scope not in _SCOPES:
        errs.invalid(f"{path}.scopeName", scope, "unsupported scope")
    if unfit is not None:
        errs.invalid(path, unfit, _UNFIT)
    if scope in _EXISTS_ONLY and operator != "Exists":
        why = (
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
            "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
            "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
        )
        errs.invalid(f"{path}.operator", operator, why)
    if operator in ("In", "NotIn"):
        if not values:
            why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errs.required(f"{path}.values", why)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errs.invalid(f"{path}.values", values, why)
    else:
        errs.invalid(f"{path}.operator", operator, "not a valid selector operator")


def _check_spec(errs: Errors, spec: Obj) -> None:
    _check_amounts(errs, spec.get("hard"), "spec.hard")
    unfit = _unfit_scopes(spec.get("hard") or ())
    _check_scopes(errs, spec, unfit)
    selector = spec.get("scopeSelector")
    if selector is None:
        return
    path = "spec.scopeSelector.matchExpressions"
    items = selector.get("matchExpressions") or ()
    shown = capitalised(selector)
    for item in items:
        _check_requirement(errs, item, path, shown if item.get("scopeName") in unfit else None)
    named = {i.get("scopeName") for i in items}
    for pair in _PAIRS:
        if all(p in named for p in pair):
            errs.invalid(path, spec.get("scopes"), "conflicting scopes")


def validate_quota(errs: Errors, obj: Obj) -> None:
    _check_spec(errs, obj.get("spec") or {})


def validate_quota_update(errs: Errors, new: Obj, old: Obj) -> None:
    spec = new.get("spec") or {}
    _check_spec(errs, spec)
    scopes = spec.get("scopes")
    if set(scopes or ()) != set((old.get("spec") or {}).get("scopes") or ()):
        errs.invalid("spec.scopes", scopes, IMMUTABLE)


def validate_quota_status(errs: Errors, new: Obj, old: Obj) -> None:
    status = new.get("status") or {}
    _check_amounts(errs, status.get("hard"), "status.hard")
    _check_amounts(errs, status.get("used"), "status.used")


def _check_limit_type(errs: Errors, kind: str, path: str) -> None:
    if found := qualified_name(kind):
        errs.invalid_each(path, kind, found)
    elif "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
        errs.invalid(path, kind, "must be a standard limit type or fully qualified")


def _check_limit_names(errs: Errors, limit: Obj, kind: str, path: str) -> list[str]:
    check = check_container_resource_name if kind in ("Pod", "Container") else check_resource_name
    names: dict[str, None] = {}

    def visit(group: str) -> None:
        for name in limit.get(group) or ():
            check(errs, name, f"{path}.{group}[{name}]")
            names[name] = None

    visit("max")
    visit("min")
    for group in ("default", "defaultRequest"):
        if kind != "Pod":
            visit(group)
        elif limit.get(group):
            errs.forbidden(f"{path}.{group}", "may not be specified when `type` is 'Pod'")
    if kind == "PersistentVolumeClaim" and not any(
        "storage" in (limit.get(g) or ()) for g in ("min", "max")
    ):
        why = "either minimum or maximum storage value is required, but neither was provided"
        errs.required(f"{path}.limits", why)
    visit("maxLimitRequestRatio")
    return list(names)


_ORDERS = (
    ("min", "max", "min", "min value {0} is greater than max value {1}", 0),
    ("min", "defaultRequest", "defaultRequest",
     "min value {0} is greater than default request value {1}", 1),
    ("defaultRequest", "max", "defaultRequest",
     "default request value {0} is greater than max value {1}", 0),
    ("defaultRequest", "default", "defaultRequest",
     "default request value {0} is greater than default limit value {1}", 0),
    ("min", "default", "default", "min value {0} is greater than default value {1}", 0),
    ("default", "max", "default", "default value {0} is greater than max value {1}", 1),
)  # fmt: skip
"""Which amount must not exceed which, where it is reported, the text, the amount printed."""


def _check_limit_amounts(errs: Errors, limit: Obj, kind: str, name: str, path: str) -> None:
    groups = ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
    amounts = {g: (limit.get(g) or {}).get(name) for g in groups}
    if kind == "Pod":
        amounts["default"] = amounts["defaultRequest"] = None
    for lesser, greater, place, text, shown in _ORDERS:
        a, b = amounts[lesser], amounts[greater]
        if a is not None and b is not None and nano(a) > nano(b):
            why = text.format(canonical(a), canonical(b))
            printed = canonical((a, b)[shown])
            errs.invalid(f"{path}.{place}[{name}]", printed, why)
    ratio = amounts["maxLimitRequestRatio"]
    where = f"{path}.maxLimitRequestRatio[{name}]"
    if ratio is not None and nano(ratio) < NANO:
        errs.invalid(where, canonical(ratio), f"ratio {canonical(ratio)} is less than 1")
    low, high = amounts["min"], amounts["max"]
    if ratio is not None and low is not None and high is not None and nano(low):
        bound = nano(high) / nano(low)
        if nano(ratio) / NANO > bound:
            why = f"ratio {canonical(ratio)} is greater than max/min = {bound:f}"
            errs.invalid(where, canonical(ratio), why)
    default, asked = amounts["default"], amounts["defaultRequest"]
    if not overcommits(name) and default is not None and asked is not None:
        if nano(default) != nano(asked):
            why = (
                f"default value {canonical(default)} must equal to defaultRequest value "
                f"{canonical(asked)} in {name}"
            )
            errs.invalid(f"{path}.defaultRequest[{name}]", canonical(asked), why)


def validate_limit_range(errs: Errors, obj: Obj) -> None:
    seen: set[str] = set()
    for i, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{i}]", limit.get("type") or ""
        _check_limit_type(errs, kind, f"{path}.type")
        if kind in seen:
            errs.duplicate(f"{path}.type", kind)
        seen.add(kind)
        for name in _check_limit_names(errs, limit, kind, path):
            _check_limit_amounts(errs, limit, kind, name, path)


KINDS: Kinds = {
    ("", "ResourceQuota"): Rules(validate_quota, validate_quota_update, validate_quota_status),
    ("", "LimitRange"): same_again(validate_limit_range),
}  # fmt: skip
