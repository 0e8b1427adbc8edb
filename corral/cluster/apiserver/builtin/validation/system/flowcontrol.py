"""FlowSchema and PriorityLevelConfiguration."""

from __future__ import annotations

from collections.abc import Sequence

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.names import dns_label, dns_subdomain
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules, again
from corral.cluster.apiserver.fairness.defaults import MANDATORY_LEVELS, MANDATORY_SCHEMAS
from corral.kube.types import Obj

__all__ = ["KINDS"]

_HIGHEST = 10_000
_MOST_QUEUES = 10_000_000
_HASH_BITS = 60
_VERBS = (
    "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch",
)  # fmt: skip
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_NAMESPACE = "each member of this list must be '*' or a DNS-1123 label; "


def validate_flow_schema(errs: Errors, obj: Obj) -> None:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    _check_precedence(errs, spec.get("matchingPrecedence", 0), name)
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in ("ByNamespace", "ByUser"):
        path = "spec.distinguisherMethod.type"
        errs.not_supported(path, method.get("type", ""), ["ByNamespace", "ByUser"])
    level = (spec.get("priorityLevelConfiguration") or {}).get("name", "")
    path = "spec.priorityLevelConfiguration.name"
    if level:
        errs.format(path, level, dns_subdomain)
    else:
        errs.required(path, "must reference a priority level")
    for at, rule in enumerate(spec.get("rules") or ()):
        _check_rule(errs, rule, f"spec.rules[{at}]")
    fixed = MANDATORY_SCHEMAS.get(name)
    if fixed is not None and spec != fixed["spec"]:
        errs.invalid("spec", spec, f"spec of '{name}' must equal the fixed value")
    _check_conditions(errs, obj)


def _check_precedence(errs: Errors, precedence: int, name: str) -> None:
    path = "spec.matchingPrecedence"
    if precedence <= 0:
        errs.invalid(path, precedence, "must be a positive value")
    if precedence > _HIGHEST:
        errs.invalid(path, precedence, f"must not be greater than {_HIGHEST}")
    if precedence == 1 and name != "exempt":
        why = "only the schema named 'exempt' may have matchingPrecedence 1"
        errs.invalid(path, precedence, why)


def _check_rule(errs: Errors, rule: Obj, path: str) -> None:
    subjects = rule.get("subjects") or ()
    for at, subject in enumerate(subjects):
        _check_subject(errs, subject, f"{path}.subjects[{at}]")
    if not subjects:
        errs.required(f"{path}.subjects", "subjects must contain at least one value")
    resources, urls = rule.get("resourceRules") or (), rule.get("nonResourceRules") or ()
    if not resources and not urls:
        why = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errs.required(path, why)
    for at, found in enumerate(resources):
        _check_resources(errs, found, f"{path}.resourceRules[{at}]")
    for at, found in enumerate(urls):
        _check_urls(errs, found, f"{path}.nonResourceRules[{at}]")


def _check_subject(errs: Errors, subject: Obj, path: str) -> None:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        errs.not_supported(f"{path}.kind", kind, sorted(_SUBJECTS))
        return
    own = _SUBJECTS[kind]
    found = subject.get(own)
    if found is None:
        errs.required(f"{path}.{own}", f"{own} is required when subject kind is '{kind}'")
    else:
        _check_who(errs, found, kind, f"{path}.{own}")
    for other, field in sorted(_SUBJECTS.items(), key=lambda item: item[0] != "ServiceAccount"):
        if other != kind and subject.get(field) is not None:
            why = f"{field} is forbidden when subject kind is not '{other}'"
            errs.forbidden(f"{path}.{field}", why)


def _check_who(errs: Errors, found: Obj, kind: str, path: str) -> None:
    name = found.get("name", "")
    if not name:
        errs.required(f"{path}.name", "")
    if kind != "ServiceAccount":
        return
    if name and name != "*":
        errs.format(f"{path}.name", name, dns_subdomain)
    namespace = found.get("namespace", "")
    if namespace:
        errs.format(f"{path}.namespace", namespace, dns_label)
    else:
        errs.required(f"{path}.namespace", "must specify namespace for service account")


def _check_verbs(errs: Errors, verbs: Sequence[str], path: str) -> None:
    if not verbs:
        errs.required(path, "verbs must contain at least one value")
    elif "*" in verbs:
        _check_alone(errs, verbs, path, "verbs")
    elif not set(verbs) <= set(_VERBS):
        errs.not_supported(path, list(verbs), list(_VERBS))


def _check_alone(errs: Errors, values: Sequence[str], path: str, what: str) -> None:
    if len(values) > 1 and "*" in values:
        errs.invalid(path, list(values), f"if '*' is present, must not specify other {what}")


def _check_resources(errs: Errors, rule: Obj, path: str) -> None:
    _check_verbs(errs, rule.get("verbs") or (), f"{path}.verbs")
    for field, what in (("apiGroups", "api group"), ("resources", "resource")):
        values = rule.get(field) or ()
        if not values:
            errs.required(f"{path}.{field}", f"resource rules must supply at least one {what}")
        _check_alone(errs, values, f"{path}.{field}", f"{what}s")
    namespaces = rule.get("namespaces") or ()
    if not namespaces and not rule.get("clusterScope"):
        why = "resource rules that are not cluster scoped must supply at least one namespace"
        errs.required(f"{path}.namespaces", why)
    elif "*" in namespaces:
        _check_alone(errs, namespaces, f"{path}.namespaces", "namespaces")
    else:
        for at, name in enumerate(namespaces):
            found = [_NAMESPACE + why for why in dns_label(name)]
            errs.invalid_each(f"{path}.namespaces[{at}]", name, found)


def _check_urls(errs: Errors, rule: Obj, path: str) -> None:
    _check_verbs(errs, rule.get("verbs") or (), f"{path}.verbs")
    urls, path = rule.get("nonResourceURLs") or (), f"{path}.nonResourceURLs"
    if not urls:
        errs.required(path, "nonResourceURLs must contain at least one value")
    elif "*" in urls:
        _check_alone(errs, urls, path, "non-resource URLs")
    else:
        for at, url in enumerate(urls):
            why = _url_problem(url)
            if why:
                errs.invalid(f"{path}[{at}]", url, why)


def _url_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if url == "/":
        return ""
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    stars = url.count("*")
    if stars > 1 or (stars == 1 and not url.endswith("/*")):
        return "wildcard can only do suffix matching"
    return ""


def validate_priority_level(errs: Errors, obj: Obj) -> None:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    kind = spec.get("type", "")
    if (name == "exempt") is not (kind == "Exempt"):
        errs.invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")
    limited, exempt = spec.get("limited"), spec.get("exempt")
    if kind == "Exempt":
        if limited is not None:
            errs.forbidden("spec.limited", "must be nil if the type is not Limited")
        _check_shares(errs, exempt or {}, "spec.exempt")
    elif kind == "Limited":
        if exempt is not None:
            errs.forbidden("spec.exempt", "must be nil if the type is Limited")
        if limited is None:
            errs.required("spec.limited", "must not be empty when type is Limited")
        else:
            _check_limited(errs, limited)
    elif not kind:
        errs.required("spec.type", "")
    else:
        errs.not_supported("spec.type", kind, ["Exempt", "Limited"])
    _check_fixed_level(errs, spec, name)
    _check_conditions(errs, obj)


def _check_fixed_level(errs: Errors, spec: Obj, name: str) -> None:
    fixed = MANDATORY_LEVELS.get(name)
    if fixed is None:
        return
    wanted = fixed["spec"]
    if name == "exempt":
        if {**spec, "exempt": None} != {**wanted, "exempt": None}:
            why = f"spec of '{name}' except the 'spec.exempt' field must equal the fixed value"
            errs.invalid("spec", spec, why)
    elif spec != wanted:
        errs.invalid("spec", spec, f"spec of '{name}' must equal the fixed value")


def _check_shares(errs: Errors, found: Obj, path: str) -> None:
    shares, lendable = found.get("nominalConcurrencyShares"), found.get("lendablePercent")
    if shares is not None and shares < 0:
        errs.invalid(f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer")
    if lendable is not None and not 0 <= lendable <= 100:
        errs.invalid(f"{path}.lendablePercent", lendable, "must be between 0 and 100, inclusive")


def _check_limited(errs: Errors, limited: Obj) -> None:
    path = "spec.limited"
    _check_shares(errs, limited, path)
    _check_response(errs, limited.get("limitResponse") or {}, f"{path}.limitResponse")
    most = limited.get("borrowingLimitPercent")
    if most is not None and most < 0:
        why = "if specified, must be a non-negative integer"
        errs.invalid(f"{path}.borrowingLimitPercent", most, why)


def _check_response(errs: Errors, response: Obj, path: str) -> None:
    kind, queuing = response.get("type", ""), response.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            why = "must be nil if limited.limitResponse.type is not Limited"
            errs.forbidden(f"{path}.queuing", why)
    elif kind == "Queue":
        if queuing is None:
            why = "must not be empty if limited.limitResponse.type is Limited"
            errs.required(f"{path}.queuing", why)
        else:
            _check_queuing(errs, queuing, f"{path}.queuing")
    elif not kind:
        errs.required(f"{path}.type", "")
    else:
        errs.not_supported(f"{path}.type", kind, ["Queue", "Reject"])


def _check_queuing(errs: Errors, queuing: Obj, path: str) -> None:
    length, queues, hand = (
        queuing.get(key, 0) for key in ("queueLengthLimit", "queues", "handSize")
    )
    if length <= 0:
        errs.invalid(f"{path}.queueLengthLimit", length, "must be positive")
    if queues <= 0:
        errs.invalid(f"{path}.queues", queues, "must be positive")
    elif queues > _MOST_QUEUES:
        errs.invalid(f"{path}.queues", queues, f"must not be greater than {_MOST_QUEUES}")
    if hand <= 0:
        errs.invalid(f"{path}.handSize", hand, "must be positive")
    elif hand > queues:
        errs.invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})")
    elif _entropy_bits(queues, hand) > _HASH_BITS:
        why = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be "
            f"greater than {_HASH_BITS}"
        )
        errs.invalid(f"{path}.handSize", hand, why)


def _entropy_bits(queues: int, hand: int) -> int:
    """Bits needed to deal a hand."""
    bits = 0
    for dealt in range(hand):
        bits += (queues - dealt - 1).bit_length()
        if bits > 2 * _HASH_BITS:
            break
    return bits


def validate_flow_status(errs: Errors, new: Obj, old: Obj) -> None:
    _check_conditions(errs, new)


def _check_conditions(errs: Errors, obj: Obj) -> None:
    kinds: set[str] = set()
    for at, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        kind, path = condition.get("type", ""), f"status.conditions[{at}].type"
        if kind in kinds:
            errs.duplicate(path, kind)
        kinds.add(kind)
        if not kind:
            errs.required(path, "")


KINDS: Kinds = {
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): Rules(
        validate_flow_schema, again(validate_flow_schema), validate_flow_status, namespaced=False),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): Rules(
        validate_priority_level, again(validate_priority_level), validate_flow_status,
        namespaced=False),
}  # fmt: skip
