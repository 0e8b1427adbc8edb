"""Nobody grants through a role or binding what they do not hold themselves.

Exempt are system:masters, holders of the verb ``escalate`` on the role (for roles) and of the
verb ``bind`` on the referenced role (for bindings), and writes that only move finalizers and
owner references, as the garbage collector does.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.cluster.apiserver.auth.attributes import Attributes
from corral.cluster.apiserver.auth.authorization import Authorizer
from corral.cluster.apiserver.auth.rbac import GROUP
from corral.cluster.apiserver.auth.rules import TooManyParts, compact, covers, quote
from corral.cluster.apiserver.auth.users import MASTERS, UserInfo
from corral.cluster.apiserver.errors import forbidden, not_found
from corral.kube.types import Obj

__all__ = ["check_binding_write", "check_role_write", "escalation_error"]

_EVERYTHING: tuple[Obj, ...] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
_AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"
_ROLES = {"ClusterRole": "clusterroles", "Role": "roles"}
_BINDINGS = {"ClusterRoleBinding": "clusterrolebindings", "RoleBinding": "rolebindings"}
_GC_FIELDS = ("ownerReferences", "finalizers", "selfLink", "managedFields")


def escalation_error(
    authorizer: Authorizer, user: UserInfo, rules: Iterable[Obj], namespace: str = ""
) -> str | None:
    """Which of the rules the user does not hold, in words; None when all are held."""
    held, errors = authorizer.rbac.rules_for(user, namespace)
    try:
        missing = covers(held, rules)
    except TooManyParts:
        return (
            f'user "{user.name}" is attempting to grant more combinations of verbs, groups, '
            "resources and names than can be compared with those it holds; use fewer or wider rules"
        )
    if not missing:
        return None
    listed = "\n".join(compact(missing))
    message = (
        f'user "{user.name}" (groups={quote(user.groups)}) is attempting to grant RBAC '
        f"permissions not currently held:\n{listed}"
    )
    return f"{message}; resolution errors: [{errors}]" if errors else message


def check_role_write(
    authorizer: Authorizer,
    user: UserInfo,
    role: Obj,
    *,
    old: Obj | None = None,
    namespace: str = "",
    request_name: str = "",
) -> None:
    """Refuse a Role or ClusterRole that grants more than its writer holds.

    ``request_name`` is the name in the URL (empty for POST). Raises: Forbidden.
    """
    if MASTERS in user.groups:
        return
    resource = _ROLES[role["kind"]]
    escalate = Attributes(user, "escalate", namespace, GROUP, "*", resource, "", request_name)
    if authorizer.authorize(escalate).allowed:
        return
    if old is not None and _only_gc_fields_differ(role, old):
        return
    name = role["metadata"].get("name", "")
    error = escalation_error(authorizer, user, role.get("rules") or (), namespace)
    if error is not None:
        raise forbidden(GROUP, resource, name, error)
    if (_aggregates(role) or _aggregates(old)) and escalation_error(
        authorizer, user, _EVERYTHING, namespace
    ):
        raise forbidden(GROUP, resource, name, _AGGREGATION)


def check_binding_write(
    authorizer: Authorizer,
    user: UserInfo,
    binding: Obj,
    *,
    old: Obj | None = None,
    namespace: str = "",
) -> None:
    """Refuse a binding to a role that grants more than its writer holds.

    Raises: Forbidden; NotFound where the role has to be looked at and is not there.
    """
    if MASTERS in user.groups:
        return
    if old is not None and _only_gc_fields_differ(binding, old):
        return
    ref = binding["roleRef"]
    kind, role = ref.get("kind", ""), ref.get("name", "")
    if kind in _ROLES:
        group = ref.get("apiGroup", "")
        bind = Attributes(user, "bind", namespace, group, "*", _ROLES[kind], "", role)
        if authorizer.authorize(bind).allowed:
            return
    resource = _BINDINGS[binding["kind"]]
    rules = authorizer.rbac.role_rules(kind, role, namespace)
    if rules is None:
        # The real server names the resource of the request here, not that of the role.
        raise not_found(GROUP, resource, role)
    error = escalation_error(authorizer, user, rules, namespace)
    if error is not None:
        raise forbidden(GROUP, resource, binding["metadata"].get("name", ""), error)


def _aggregates(role: Obj | None) -> bool:
    return bool(((role or {}).get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _only_gc_fields_differ(new: Obj, old: Obj) -> bool:
    return _without_gc_fields(new) == _without_gc_fields(old)


def _without_gc_fields(obj: Obj) -> Obj:
    meta = {key: value for key, value in obj["metadata"].items() if key not in _GC_FIELDS}
    return {**obj, "metadata": meta}
