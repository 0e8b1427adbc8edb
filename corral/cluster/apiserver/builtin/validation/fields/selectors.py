"""Label selectors: syntax, and whether a selector matches a set of labels."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.meta import check_labels
from corral.cluster.apiserver.builtin.validation.fields.names import label_value, qualified_name
from corral.kube.types import Obj

__all__ = [
    "check_label_name",
    "check_requirement",
    "check_selector",
    "is_empty",
    "matches",
    "well_formed",
]

IN_NEEDS_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
EXISTS_HAS_NONE = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
BAD_OPERATOR = "not a valid selector operator"


def check_label_name(errs: Errors, path: str, name: str) -> None:
    if found := qualified_name(name):
        errs.invalid_each(path, name, found)


def check_requirement(errs: Errors, item: Obj, path: str, *, any_operator: bool = False) -> None:
    """One ``matchExpressions`` entry."""
    operator = item.get("operator") or ""
    values = item.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            errs.required(f"{path}.values", IN_NEEDS_VALUES)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errs.forbidden(f"{path}.values", EXISTS_HAS_NONE)
    elif not any_operator:
        errs.invalid(f"{path}.operator", operator, BAD_OPERATOR)
    check_label_name(errs, f"{path}.key", item.get("key") or "")
    for i, value in enumerate(values):
        if found := label_value(value):
            errs.invalid_each(f"{path}.values[{i}]", value, found)


def check_selector(errs: Errors, selector: Obj | None, path: str) -> None:
    if not selector:
        return
    check_labels(errs, selector.get("matchLabels"), f"{path}.matchLabels")
    for i, item in enumerate(selector.get("matchExpressions") or ()):
        check_requirement(errs, item, f"{path}.matchExpressions[{i}]")


def is_empty(selector: Obj) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def well_formed(selector: Obj | None) -> bool:
    """Whether the selector can be evaluated at all."""
    errs = Errors()
    check_selector(errs, selector, "")
    return not errs


def matches(selector: Obj | None, labels: dict[str, str] | None) -> bool:
    """Evaluate a well-formed selector; none matches nothing, an empty one everything."""
    if selector is None:
        return False
    labels = labels or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(_holds(item, labels) for item in selector.get("matchExpressions") or ())


def _holds(item: Obj, labels: dict[str, str]) -> bool:
    operator, value = item.get("operator"), labels.get(item.get("key") or "")
    if operator == "In":
        return value in (item.get("values") or ())
    if operator == "NotIn":
        return value not in (item.get("values") or ())
    return (value is not None) == (operator == "Exists")
