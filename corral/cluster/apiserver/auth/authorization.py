"""The chain of authorizers as the server asks it: system:masters, then Node, then RBAC.

Decisions are remembered, without the object name where no rule looks at it, and forgotten as a
whole on any RBAC change; asking again costs one dict lookup. Nodes are never remembered: their
rights move with their pods.
"""

from __future__ import annotations

from corral.cluster.apiserver.auth.attributes import Attributes, Decision, forbidden_error
from corral.cluster.apiserver.auth.node import NodeAuthorizer, NodeUses, node_identity
from corral.cluster.apiserver.auth.rbac import Rbac
from corral.cluster.apiserver.auth.rules import Rule
from corral.cluster.apiserver.auth.users import MASTERS, UserInfo
from corral.kube.types import Obj

__all__ = ["Authorizer"]

_ALLOW = Decision(True)
_CACHE_SIZE = 65536


def _no_pods(node: str, resource: str, namespace: str, name: str) -> bool:
    return False


class Authorizer:
    """Authorizes requests; feed it every committed RBAC object."""

    def __init__(self, *, node_uses: NodeUses = _no_pods) -> None:
        self.rbac = Rbac(on_change=self._forget)
        self.node = NodeAuthorizer(node_uses)
        self._cache: dict[tuple[object, ...], Decision] = {}
        """Only what holds for every object name; resource requests have the longer keys."""

    def set_object(self, kind: str, obj: Obj) -> None:
        """A ClusterRole, ClusterRoleBinding, Role or RoleBinding was written."""
        self.rbac.set_object(kind, obj)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """A ClusterRole, ClusterRoleBinding, Role or RoleBinding was deleted."""
        self.rbac.remove(kind, namespace, name)

    def _forget(self) -> None:
        if self._cache:
            self._cache = {}

    def authorize(self, attrs: Attributes) -> Decision:
        """Whether the request may proceed, and why or why not."""
        user, verb, namespace, group, _, resource, subresource, _, is_resource, path, _ = attrs
        if MASTERS in user.groups:
            return _ALLOW
        key: tuple[object, ...]
        if is_resource:
            key = (user.name, user.groups, verb, namespace, group, resource, subresource)
        else:
            key = (user.name, user.groups, verb, path)
        decision = self._cache.get(key)
        return decision if decision is not None else self._decide(key, attrs)

    def _decide(self, key: tuple[object, ...], attrs: Attributes) -> Decision:
        if node_identity(attrs.user) is not None:
            return self._decide_node(attrs)
        decision, same_for_all_names = self.rbac.evaluate(attrs)
        if not decision.allowed and decision.reason:
            decision = Decision(False, f"rbac: {decision.reason}")
        if same_for_all_names:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache = {}
            self._cache[key] = decision
        return decision

    def _decide_node(self, attrs: Attributes) -> Decision:
        ours = self.node.authorize(attrs)
        if ours.allowed:
            return ours
        rbac = self.rbac.authorize(attrs)
        if rbac.allowed:
            return rbac
        reasons = ((name, d.reason) for name, d in (("node", ours), ("rbac", rbac)) if d.reason)
        return Decision(False, "\n".join(f"{name}: {reason}" for name, reason in reasons))

    def require(self, attrs: Attributes) -> None:
        """Raise 403 unless the request is allowed."""
        decision = self.authorize(attrs)
        if not decision.allowed:
            raise forbidden_error(attrs, decision.reason)

    def rules_for(self, user: UserInfo, namespace: str) -> tuple[list[Rule], bool, str]:
        """All rules of a user, whether there may be more, and what went wrong."""
        rules, error = self.rbac.rules_for(user, namespace)
        if node_identity(user) is None:
            return rules, False, error
        unresolved = "node authorizer does not support user rule resolution"
        return rules, True, f"[{unresolved}, {error}]" if error else unresolved
