"""The RBAC authorizer: roles and bindings in, decisions out.

Guarantees: a decision reflects every object handed to `set_object` and `remove` so far; rights
only add up, a binding to a missing role grants nothing and is named in the reason of a refusal.
Bindings are visited in the order of their names, so reasons are stable. Nothing here is cached
per request; `authorization.Authorizer` does that and clears it through ``on_change``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from corral.cluster.apiserver.auth.attributes import Attributes, Decision
from corral.cluster.apiserver.auth.rules import Rule, compile_rules
from corral.cluster.apiserver.auth.users import (
    SERVICE_ACCOUNT_PREFIX,
    UserInfo,
    service_account_username,
)
from corral.kube.types import Obj

__all__ = ["KINDS", "Rbac", "aggregate"]

GROUP = "rbac.authorization.k8s.io"
MAX_RULES = 10_000
"""That the bindings of one namespace may give to one user; the rest counts for nothing."""
KINDS = frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})


class _Granted(NamedTuple):
    """What one binding gives to one user; ``error`` when its role cannot be had."""

    source: str
    rules: tuple[Rule, ...]
    error: str


class _Binding(NamedTuple):
    name: str
    namespace: str
    role_kind: str
    role_name: str
    subjects: dict[tuple[str, str], tuple[int, tuple[str, str, str]]]
    """By kind and whole name: its place in the order written, (kind, name, namespace)."""

    def subject_for(self, user: UserInfo) -> tuple[str, str, str] | None:
        """The first one that is the user."""
        keys = [("User", user.name), *(("Group", group) for group in user.groups)]
        if user.name.startswith(SERVICE_ACCOUNT_PREFIX):
            keys.append(("ServiceAccount", user.name))
        found = [self.subjects[key] for key in keys if key in self.subjects]
        return min(found)[1] if found else None

    def describe(self, subject: tuple[str, str, str]) -> str:
        kind, name, namespace = subject
        if kind == "ServiceAccount":
            name = f"{name}/{namespace or self.namespace}"
        if self.namespace:
            which = f'RoleBinding "{self.name}/{self.namespace}"'
        else:
            which = f'ClusterRoleBinding "{self.name}"'
        return f'{which} of {self.role_kind} "{self.role_name}" to {kind} "{name}"'


class Rbac:
    """The index of all roles and bindings."""

    def __init__(self, on_change: Callable[[], None] | None = None) -> None:
        self.on_change = on_change
        self._cluster_roles: dict[str, Obj] = {}
        self._rules: dict[tuple[str, str], tuple[Rule, ...]] = {}
        """Compiled rules by (namespace, name); namespace "" for ClusterRoles."""
        self._bindings: dict[str, dict[str, _Binding]] = {"": {}}
        """By namespace, then name; namespace "" for ClusterRoleBindings."""
        self._granted: dict[tuple[str, tuple[str, ...], str], tuple[_Granted, ...]] = {}

    def set_object(self, kind: str, obj: Obj) -> None:
        """Take in a role or binding as stored; the object is kept and must not be mutated."""
        meta = obj["metadata"]
        name, namespace = meta["name"], meta.get("namespace", "")
        if kind == "ClusterRole":
            self._cluster_roles[name] = obj
        if kind in ("ClusterRole", "Role"):
            self._rules[namespace, name] = compile_rules(obj.get("rules"))
        else:
            self._bindings.setdefault(namespace, {})[name] = _binding(obj, name, namespace)
        self._changed()

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Forget a role or binding; unknown ones are ignored."""
        if kind == "ClusterRole":
            self._cluster_roles.pop(name, None)
        if kind in ("ClusterRole", "Role"):
            self._rules.pop((namespace, name), None)
        else:
            self._bindings.get(namespace, {}).pop(name, None)
        self._changed()

    def _changed(self) -> None:
        if self._granted:
            self._granted = {}
        if self.on_change is not None:
            self.on_change()

    def authorize(self, attrs: Attributes) -> Decision:
        return self.evaluate(attrs)[0]

    def evaluate(self, attrs: Attributes) -> tuple[Decision, bool]:
        """The decision, and whether it would be the same for every object name."""
        named = False
        errors: list[str] = []
        for granted in self._visit(attrs.user, attrs.namespace):
            if granted.error:
                errors.append(granted.error)
            for rule in granted.rules:
                if not rule.allows_all_but_name(attrs):
                    continue
                if not rule.names or not attrs.resource_request:
                    return Decision(True, f"RBAC: allowed by {granted.source}"), not named
                named = True
                if attrs.name in rule.names:
                    return Decision(True, f"RBAC: allowed by {granted.source}"), False
        reason = f"RBAC: {_join(errors)}" if errors else ""
        return Decision(False, reason), not named

    def rules_for(self, user: UserInfo, namespace: str) -> tuple[list[Rule], str]:
        """Every rule that applies to the user, and what went wrong finding them."""
        rules: list[Rule] = []
        errors: list[str] = []
        for granted in self._visit(user, namespace):
            rules.extend(granted.rules)
            if granted.error:
                errors.append(granted.error)
        return rules, _join(errors)

    def role_rules(self, role_kind: str, role_name: str, namespace: str) -> list[Obj] | None:
        """The rules a roleRef stands for, or None when there is no such role."""
        rules = self._rules.get((namespace if role_kind == "Role" else "", role_name))
        return None if rules is None else [rule.source for rule in rules]

    def stale_aggregates(self) -> list[tuple[str, list[Obj]]]:
        """ClusterRoles whose rules are not what their aggregationRule gathers, with new rules."""
        out = []
        for name, role in sorted(self._cluster_roles.items()):
            if role.get("aggregationRule") is None:
                continue
            rules = aggregate(role, self._cluster_roles.values())
            if rules != (role.get("rules") or []):
                out.append((name, rules))
        return out

    def _visit(self, user: UserInfo, namespace: str) -> tuple[_Granted, ...]:
        key = (user.name, user.groups, namespace)
        granted = self._granted.get(key)
        if granted is None:
            if len(self._granted) >= 4096:
                self._granted.clear()
            granted = self._granted[key] = tuple(self._resolve(user, namespace))
        return granted

    def _resolve(self, user: UserInfo, namespace: str) -> Iterator[_Granted]:
        for scope in ("", namespace) if namespace else ("",):
            bindings, rules = self._bindings.get(scope), 0
            for _, binding in sorted(bindings.items()) if bindings else ():
                subject = binding.subject_for(user)
                if subject is None:
                    continue
                granted = self._grant(binding, subject)
                rules += len(granted.rules)
                if scope and rules > MAX_RULES:  # whoever writes a namespace's roles pays for them
                    why = f'more than {MAX_RULES} rules of "{user.name}" in namespace "{scope}"'
                    yield _Granted("", (), why)
                    return
                yield granted

    def _grant(self, binding: _Binding, subject: tuple[str, str, str]) -> _Granted:
        kind, name = binding.role_kind, binding.role_name
        if kind not in ("Role", "ClusterRole"):
            return _Granted("", (), f'unsupported role reference kind: "{kind}"')
        rules = self._rules.get((binding.namespace if kind == "Role" else "", name))
        if rules is None:
            return _Granted("", (), f'{kind.lower()}.{GROUP} "{name}" not found')
        return _Granted(binding.describe(subject), rules, "")


def _binding(obj: Obj, name: str, namespace: str) -> _Binding:
    ref = obj["roleRef"]
    subjects: dict[tuple[str, str], tuple[int, tuple[str, str, str]]] = {}
    for place, subject in enumerate(obj.get("subjects") or ()):
        kind, who, home = (subject.get(key, "") for key in ("kind", "name", "namespace"))
        whole = who
        if kind == "ServiceAccount":
            if not (home or namespace):
                continue
            whole = service_account_username(home or namespace, who)
        subjects.setdefault((kind, whole), (place, (kind, who, home)))
    return _Binding(name, namespace, ref.get("kind", ""), ref.get("name", ""), subjects)


def _join(errors: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def aggregate(cluster_role: Obj, all_cluster_roles: Iterable[Obj]) -> list[Obj]:
    """The rules a ClusterRole with an aggregationRule should have, duplicates left out."""
    own = cluster_role["metadata"]["name"]
    roles = sorted(all_cluster_roles, key=lambda role: str(role["metadata"]["name"]))
    rules: list[Obj] = []
    selectors = (cluster_role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    for selector in selectors:
        for role in roles:
            meta = role["metadata"]
            if meta["name"] != own and _selects(selector, meta.get("labels") or {}):
                rules.extend(rule for rule in role.get("rules") or () if rule not in rules)
    return rules


def _selects(selector: Obj, labels: Mapping[str, str]) -> bool:
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(_meets(term, labels) for term in selector.get("matchExpressions") or ())


def _meets(term: Obj, labels: Mapping[str, str]) -> bool:
    key, operator = term["key"], term["operator"]
    values: Sequence[str] = term.get("values") or ()
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    return bool((key in labels) == (operator == "Exists"))
