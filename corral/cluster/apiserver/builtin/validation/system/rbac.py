"""Roles and role bindings."""

from __future__ import annotations

from corral.cluster.apiserver.builtin.validation.fields import check, names
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.rules import (
    Kinds,
    Rules,
    again,
    changes,
    same_again,
    whole,
)
from corral.cluster.apiserver.builtin.validation.fields.selectors import check_selector, well_formed
from corral.kube.types import Obj

__all__ = ["KINDS"]

_GROUP = "rbac.authorization.k8s.io"


def _rules(*of_urls: check.Check) -> tuple[check.Check, check.Check]:
    """The rules; missing verbs are found by declaration and come after everything else."""
    rule = check.when(
        lambda rule: rule.get("nonResourceURLs"),
        *of_urls,
        check.when(
            lambda rule: any(rule.get(n) for n in ("apiGroups", "resources", "resourceNames")),
            check.needed(
                "nonResourceURLs",
                check.refused("rules cannot apply to both regular resources and non-resource URLs"),
            ),
        ),
        otherwise=check.struct(
            check.needed("apiGroups", why="resource rules must supply at least one api group"),
            check.needed("resources", why="resource rules must supply at least one resource"),
        ),
    )
    return check.items("rules", rule), check.items("rules", check.needed("verbs"))


def _check_aggregated(errs: Errors, selector: Obj, path: str) -> None:
    check_selector(errs, selector, path)
    if not well_formed(selector):
        errs.invalid(path, None, "invalid label selector.")


_SOME_SELECTOR = "at least one clusterRoleSelector required if aggregationRule is non-nil"
_NO_URLS = check.refused("namespaced rules cannot apply to non-resource URLs")
_ROLE = whole(*_rules(check.needed("nonResourceURLs", _NO_URLS)))
_CLUSTER_RULES, _CLUSTER_VERBS = _rules()
_CLUSTER_ROLE = whole(
    _CLUSTER_RULES,
    check.pointer(
        "aggregationRule",
        check.needed("clusterRoleSelectors", check.each(_check_aggregated), _SOME_SELECTOR),
    ),
    _CLUSTER_VERBS,
)
_OF_GROUP = check.always("apiGroup", check.choice(_GROUP))


def _binding(*of_account: check.Check, roles: tuple[str, ...]) -> Rules:
    account = check.struct(
        check.optional("name", check.SUBDOMAIN),
        check.optional("apiGroup", check.choice("")),
        *of_account,
    )
    kinds = check.always("kind", check.choice("ServiceAccount", "User", "Group"))
    subject = check.union(
        "kind", {"ServiceAccount": account, "User": _OF_GROUP, "Group": _OF_GROUP}, kinds
    )
    create = whole(
        check.inside(
            "roleRef",
            _OF_GROUP,
            check.always("kind", check.choice(*roles)),
            check.optional("name", check.PATH_SEGMENT),
        ),
        check.items("subjects", subject),
        check.items("subjects", check.needed("name")),
        check.inside("roleRef", check.needed("name")),
    )
    update = changes(again(create), _same_role)
    return Rules(create, update, name=names.name_is_path_segment, namespaced=not of_account)


def _printed(binding: Obj) -> Obj:
    ref, names = (
        binding.get("roleRef") or {},
        {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"},
    )
    return {shown: ref.get(name) or "" for shown, name in names.items()}


def _same_role(errs: Errors, new: Obj, old: Obj) -> None:
    errs.immutable("roleRef", _printed(new), _printed(old))


KINDS: Kinds = {
    (_GROUP, "Role"): same_again(_ROLE, name=names.name_is_path_segment),
    (_GROUP, "ClusterRole"): same_again(
        _CLUSTER_ROLE, name=names.name_is_path_segment, namespaced=False
    ),
    (_GROUP, "RoleBinding"): _binding(roles=("Role", "ClusterRole")),
    (_GROUP, "ClusterRoleBinding"): _binding(check.needed("namespace"), roles=("ClusterRole",)),
}
