"""Where pods may run: affinity, tolerations, taints and topology spread."""

from __future__ import annotations

from collections import Counter

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, FieldError, int_of
from corral.cluster.apiserver.builtin.validation.fields.names import (
    dns_label,
    dns_subdomain,
    label_value,
)
from corral.cluster.apiserver.builtin.validation.fields.selectors import (
    BAD_OPERATOR,
    EXISTS_HAS_NONE,
    IN_NEEDS_VALUES,
    check_label_name,
    check_selector,
)
from corral.cluster.apiserver.builtin.validation.fields.structs import toleration as printed
from corral.cluster.apiserver.errors import show
from corral.kube.types import Obj

__all__ = [
    "check_affinity",
    "check_node_selector",
    "check_spread",
    "check_taints",
    "check_tolerations",
]

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _check_node_requirement(errs: Errors, item: Obj, path: str, *, any_value: bool) -> None:
    operator, values = item.get("operator") or "", item.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            errs.required(f"{path}.values", IN_NEEDS_VALUES)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errs.forbidden(f"{path}.values", EXISTS_HAS_NONE)
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errs.required(f"{path}.values", why)
    else:
        errs.invalid(f"{path}.operator", operator, BAD_OPERATOR)
    check_label_name(errs, f"{path}.key", item.get("key") or "")
    if not any_value:
        for i, value in enumerate(values):
            if found := label_value(value):
                errs.invalid_each(f"{path}.values[{i}]", value, found)


def _check_field_requirement(errs: Errors, item: Obj, path: str) -> None:
    operator, values = item.get("operator") or "", item.get("values") or ()
    if operator not in ("In", "NotIn"):
        errs.invalid(f"{path}.operator", operator, BAD_OPERATOR)
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errs.required(f"{path}.values", why)
    key = item.get("key") or ""
    if key != "metadata.name":
        errs.invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for i, value in enumerate(values):
        errs.format(f"{path}.values[{i}]", value, dns_subdomain)


def _check_term(errs: Errors, term: Obj, path: str, *, any_value: bool) -> None:
    for i, item in enumerate(term.get("matchExpressions") or ()):
        _check_node_requirement(errs, item, f"{path}.matchExpressions[{i}]", any_value=any_value)
    for i, item in enumerate(term.get("matchFields") or ()):
        _check_field_requirement(errs, item, f"{path}.matchFields[{i}]")


def check_node_selector(errs: Errors, selector: Obj, path: str) -> None:
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        errs.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for i, term in enumerate(terms):
        _check_term(errs, term, f"{path}.nodeSelectorTerms[{i}]", any_value=False)


def _check_weight(errs: Errors, weight: int, path: str) -> None:
    if not 0 < weight <= 100:
        errs.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _check_node_affinity(errs: Errors, affinity: Obj, path: str) -> None:
    selector = affinity.get(_REQUIRED)
    if selector is not None:
        check_node_selector(errs, selector, f"{path}.{_REQUIRED}")
    for i, term in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{path}.{_PREFERRED}[{i}]"
        _check_weight(errs, int_of(term.get("weight")), where)
        _check_term(errs, term.get("preference") or {}, f"{where}.preference", any_value=True)


def _check_label_keys(errs: Errors, keys: list[str], selector: Obj | None, path: str) -> None:
    if not keys:
        return
    if selector is None:
        errs.forbidden(path, "must not be specified when labelSelector is not set")
        return
    for i, key in enumerate(keys):
        check_label_name(errs, f"{path}[{i}]", key)


def _check_match_keys(errs: Errors, term: Obj, path: str) -> None:
    match, mismatch = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    if not match and not mismatch:
        return
    selector = term.get("labelSelector")
    _check_label_keys(errs, match, selector, f"{path}.matchLabelKeys")
    _check_label_keys(errs, mismatch, selector, f"{path}.mismatchLabelKeys")
    if selector is not None:
        first: dict[str, int] = {}
        for i, key in enumerate(match):
            first.setdefault(key, i)
        seen = set(selector.get("matchLabels") or ())
        for item in selector.get("matchExpressions") or ():
            key = item.get("key") or ""
            if key in first and key in seen:
                why = "exists in both matchLabelKeys and labelSelector"
                errs.invalid(f"{path}[{first[key]}]", key, why)
            seen.add(key)
    excluded = set(mismatch)
    for i, key in enumerate(match):
        if key in excluded:
            why = "exists in both matchLabelKeys and mismatchLabelKeys"
            errs.invalid(f"{path}.matchLabelKeys[{i}]", key, why)


def _check_pod_term(errs: Errors, term: Obj, path: str) -> None:
    check_selector(errs, term.get("labelSelector"), f"{path}.labelSelector")
    check_selector(errs, term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        errs.format(f"{path}.namespace", name, dns_label)
    _check_match_keys(errs, term, path)
    key = term.get("topologyKey") or ""
    if not key:
        errs.required(f"{path}.topologyKey", "can not be empty")
    check_label_name(errs, f"{path}.topologyKey", key)


def _check_pod_affinity(errs: Errors, affinity: Obj, path: str) -> None:
    for i, term in enumerate(affinity.get(_REQUIRED) or ()):
        _check_pod_term(errs, term, f"{path}.{_REQUIRED}[{i}]")
    for i, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{path}.{_PREFERRED}[{i}]"
        _check_weight(errs, int_of(weighted.get("weight")), where)
        _check_pod_term(errs, weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")


def check_affinity(errs: Errors, affinity: Obj | None, path: str) -> None:
    if not affinity:
        return
    if node := affinity.get("nodeAffinity"):
        _check_node_affinity(errs, node, f"{path}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        if pods := affinity.get(kind):
            _check_pod_affinity(errs, pods, f"{path}.{kind}")


def check_tolerations(errs: Errors, tolerations: list[Obj], path: str) -> None:
    for i, item in enumerate(tolerations):
        key, operator = item.get("key") or "", item.get("operator") or ""
        value, effect = item.get("value") or "", item.get("effect") or ""
        if key:
            check_label_name(errs, f"{path}[{i}].key", key)
        elif operator != "Exists":
            why = (
                "operator must be Exists when `key` is empty, which means "
                '"match all values and all keys"'
            )
            errs.invalid(f"{path}[{i}].operator", operator, why)
        if item.get("tolerationSeconds") is not None and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errs.invalid(f"{path}[{i}].effect", effect, why)
        _check_operator(errs, operator, value, f"{path}[{i}].operator")
        if effect and effect not in EFFECTS:
            errs.not_supported(f"{path}[{i}].effect", effect, EFFECTS)


def _check_operator(errs: Errors, operator: str, value: str, path: str) -> None:
    if operator in ("Equal", ""):
        if found := label_value(value):
            errs.invalid(path, value, ";".join(found))
    elif operator == "Exists":
        if value:
            errs.invalid(path, value, "value must be empty when `operator` is 'Exists'")
    elif operator in ("Lt", "Gt"):
        errs.not_supported(path, operator, ("Equal", "Exists", "Lt", "Gt"))
    else:
        errs.not_supported(path, operator, ("Equal", "Exists"))


def check_taints(errs: Errors, taints: list[Obj], path: str) -> None:
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        check_label_name(errs, f"{path}[{i}].key", key)
        if found := label_value(value := taint.get("value") or ""):
            errs.invalid(f"{path}[{i}].value", value, ";".join(found))
        if not effect:
            errs.required(f"{path}[{i}].effect")
        elif effect not in EFFECTS:
            errs.not_supported(f"{path}[{i}].effect", effect, EFFECTS)
        if (effect, key) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": None}
            body = f"Duplicate value: {show(shown)}: taints must be unique by key and effect pair"
            errs.append(FieldError("FieldValueDuplicate", f"{path}[{i}]", body))
        seen.add((effect, key))


def _spread_pair(constraint: Obj) -> tuple[str, str]:
    return constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""


def check_spread(errs: Errors, constraints: list[Obj], path: str) -> None:
    later = Counter(map(_spread_pair, constraints))
    for i, item in enumerate(constraints):
        where = f"{path}[{i}]"
        skew, (key, action) = int_of(item.get("maxSkew")), _spread_pair(item)
        if skew <= 0:
            errs.invalid(f"{where}.maxSkew", skew, "must be greater than zero")
        if not key:
            errs.required(f"{where}.topologyKey", "can not be empty")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            allowed = ("DoNotSchedule", "ScheduleAnyway")
            errs.not_supported(f"{where}.whenUnsatisfiable", action, allowed)
        later[key, action] -= 1
        if later[key, action]:
            shown = f"{{{key}, {action}}}"
            body = f"Duplicate value: {show(shown)}"
            field = f"{where}.{{topologyKey, whenUnsatisfiable}}"
            errs.append(FieldError("FieldValueDuplicate", field, body))
        _check_spread_options(errs, item, action, where)


def _check_spread_options(errs: Errors, item: Obj, action: str, path: str) -> None:
    domains = item.get("minDomains")
    if domains is not None:
        if domains <= 0:
            errs.invalid(f"{path}.minDomains", domains, "must be greater than zero")
        if action != "DoNotSchedule":
            why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errs.invalid(f"{path}.minDomains", domains, why)
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = item.get(name)
        if policy is not None and policy not in ("Honor", "Ignore"):
            errs.not_supported(f"{path}.{name}", policy, ("Honor", "Ignore"))
    _check_match_keys(errs, item, path)
    check_selector(errs, item.get("labelSelector"), f"{path}.labelSelector")


def duplicate_toleration(item: Obj, path: str) -> FieldError:
    """Two tolerations that say the same thing, where a list may not repeat itself."""
    return FieldError("FieldValueDuplicate", path, f"Duplicate value: {show(printed(item))}")
