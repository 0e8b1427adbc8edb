"""Roles and role bindings."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.names import dns_subdomain, path_segment
from corral.cluster.apiserver.builtin.validation.fields.selectors import check_selector, well_formed
from corral.kube.types import Obj

__all__ = [
    "validate_cluster_role",
    "validate_cluster_role_binding",
    "validate_cluster_role_binding_update",
    "validate_role",
    "validate_role_binding",
    "validate_role_binding_update",
]

_GROUP = "rbac.authorization.k8s.io"


def _check_rule(errs: Errors, rule: Obj, path: str, *, namespaced: bool) -> None:
    urls = rule.get("nonResourceURLs")
    if urls:
        where = f"{path}.nonResourceURLs"
        if namespaced:
            errs.invalid(where, urls, "namespaced rules cannot apply to non-resource URLs")
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            errs.invalid(where, urls, why)
        return
    if not rule.get("apiGroups"):
        errs.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        errs.required(f"{path}.resources", "resource rules must supply at least one resource")


def _check_rules(errs: Errors, obj: Obj, *, namespaced: bool) -> Errors:
    """The rules; missing verbs are found by declaration and come after everything else."""
    late = Errors()
    for i, rule in enumerate(obj.get("rules") or ()):
        _check_rule(errs, rule, f"rules[{i}]", namespaced=namespaced)
        if not rule.get("verbs"):
            late.required(f"rules[{i}].verbs")
    return late


def validate_role(errs: Errors, obj: Obj) -> None:
    errs.extend(_check_rules(errs, obj, namespaced=True))


def validate_cluster_role(errs: Errors, obj: Obj) -> None:
    late = _check_rules(errs, obj, namespaced=False)
    aggregation = obj.get("aggregationRule")
    if aggregation is not None:
        selectors = aggregation.get("clusterRoleSelectors") or ()
        path = "aggregationRule.clusterRoleSelectors"
        if not selectors:
            why = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            errs.required(path, why)
        for i, selector in enumerate(selectors):
            check_selector(errs, selector, f"{path}[{i}]")
            if not well_formed(selector):
                errs.invalid(f"{path}[{i}]", None, "invalid label selector.")
    errs.extend(late)


def _check_subject(errs: Errors, subject: Obj, path: str, *, namespaced: bool) -> None:
    kind, name = subject.get("kind") or "", subject.get("name") or ""
    group = subject.get("apiGroup") or ""
    if kind == "ServiceAccount":
        if name:
            errs.format(f"{path}.name", name, dns_subdomain)
        if group:
            errs.not_supported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            errs.required(f"{path}.namespace")
    elif kind in ("User", "Group"):
        if group != _GROUP:
            errs.not_supported(f"{path}.apiGroup", group, (_GROUP,))
    else:
        errs.not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))


def _check_binding(errs: Errors, obj: Obj, kinds: tuple[str, ...], *, namespaced: bool) -> None:
    ref = obj.get("roleRef") or {}
    group, kind, name = ref.get("apiGroup") or "", ref.get("kind") or "", ref.get("name") or ""
    if group != _GROUP:
        errs.not_supported("roleRef.apiGroup", group, (_GROUP,))
    if kind not in kinds:
        errs.not_supported("roleRef.kind", kind, kinds)
    if name:
        errs.format("roleRef.name", name, path_segment)
    late = Errors()
    for i, subject in enumerate(obj.get("subjects") or ()):
        _check_subject(errs, subject, f"subjects[{i}]", namespaced=namespaced)
        if not subject.get("name"):
            late.required(f"subjects[{i}].name")
    errs.extend(late)
    if not name:
        errs.required("roleRef.name")


def validate_role_binding(errs: Errors, obj: Obj) -> None:
    _check_binding(errs, obj, ("Role", "ClusterRole"), namespaced=True)


def validate_cluster_role_binding(errs: Errors, obj: Obj) -> None:
    _check_binding(errs, obj, ("ClusterRole",), namespaced=False)


def _printed(ref: Obj | None) -> Obj:
    ref = ref or {}
    return {
        "APIGroup": ref.get("apiGroup") or "",
        "Kind": ref.get("kind") or "",
        "Name": ref.get("name") or "",
    }


def validate_role_binding_update(errs: Errors, new: Obj, old: Obj) -> None:
    validate_role_binding(errs, new)
    errs.immutable("roleRef", _printed(new.get("roleRef")), _printed(old.get("roleRef")))


def validate_cluster_role_binding_update(errs: Errors, new: Obj, old: Obj) -> None:
    validate_cluster_role_binding(errs, new)
    errs.immutable("roleRef", _printed(new.get("roleRef")), _printed(old.get("roleRef")))
