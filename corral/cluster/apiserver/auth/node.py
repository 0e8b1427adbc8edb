"""The Node authorizer: a kubelet may touch its own node, its pods, and what those pods use.

Which objects the pods of a node use is asked of a callback, ``node_uses(node, resource,
namespace, name)``, with resource one of pods, secrets, configmaps, persistentvolumeclaims,
persistentvolumes, resourceclaims, resourceslices, serviceaccounts, volumeattachments and
podcertificaterequests. Everything else follows the static rules of ClusterRole system:node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from corral.cluster.apiserver.auth.attributes import Attributes, Decision
from corral.cluster.apiserver.auth.rules import Rule, compile_rules
from corral.cluster.apiserver.auth.users import NODE_PREFIX, NODES, UserInfo

__all__ = ["NodeAuthorizer", "NodeUses", "node_identity"]

NodeUses: TypeAlias = Callable[[str, str, str, str], bool]

_ALLOW = Decision(True)
_NO_OPINION = Decision(False)
_OWN_VERBS = frozenset({"get", "create", "update", "patch", "delete"})
_READ_VERBS = frozenset({"get", "list", "watch"})
_LEASES = "kube-node-lease"


def node_identity(user: UserInfo) -> str | None:
    """The node a user is, or None when it is no node."""
    if user.name.startswith(NODE_PREFIX) and NODES in user.groups:
        return user.name[len(NODE_PREFIX) :]
    return None


class NodeAuthorizer:
    """Answers for users that are nodes; has no opinion on all others."""

    def __init__(self, node_uses: NodeUses) -> None:
        self._uses = node_uses
        self._rules: tuple[Rule, ...] | None = None
        self._by_resource: dict[tuple[str, str], Callable[[str, Attributes], Decision]] = {
            ("", "secrets"): self._readable,
            ("", "configmaps"): self._readable,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._gettable,
            ("", "serviceaccounts"): self._service_account,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
            ("coordination.k8s.io", "leases"): self._lease,
            ("resource.k8s.io", "resourceclaims"): self._gettable,
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("storage.k8s.io", "volumeattachments"): self._gettable,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("certificates.k8s.io", "podcertificaterequests"): self._certificate_request,
        }

    def authorize(self, attrs: Attributes) -> Decision:
        node = node_identity(attrs.user)
        if node is None:
            return _NO_OPINION
        if not node:
            return Decision(False, f'unknown node for user "{attrs.user.name}"')
        if attrs.resource_request:
            check = self._by_resource.get((attrs.api_group, attrs.resource))
            if check is not None:
                return check(node, attrs)
        return _ALLOW if any(rule.allows(attrs) for rule in self._static_rules()) else _NO_OPINION

    def _static_rules(self) -> tuple[Rule, ...]:
        if self._rules is None:
            # Imported late: the table is only parsed where a kubelet really connects.
            from corral.cluster.apiserver.auth.bootstrap import cluster_role_rules

            self._rules = compile_rules(cluster_role_rules("system:node"))
        return self._rules

    def _related(self, node: str, attrs: Attributes) -> Decision:
        if not attrs.name:
            return Decision(False, "No Object name found")
        if self._uses(node, attrs.resource, attrs.namespace, attrs.name):
            return _ALLOW
        return Decision(False, f"no relationship found between node '{node}' and this object")

    def _gettable(self, node: str, attrs: Attributes) -> Decision:
        if attrs.verb != "get":
            return Decision(False, "can only get individual resources of this type")
        if attrs.subresource:
            return Decision(False, "cannot get subresource")
        return self._related(node, attrs)

    def _readable(self, node: str, attrs: Attributes) -> Decision:
        if attrs.verb not in _READ_VERBS:
            return Decision(False, "can only read resources of this type")
        if attrs.subresource:
            return Decision(False, "cannot read subresource")
        if not attrs.namespace:
            return Decision(False, "can only read namespaced object of this type")
        return self._related(node, attrs)

    def _claim(self, node: str, attrs: Attributes) -> Decision:
        if attrs.subresource != "status":
            return self._gettable(node, attrs)
        if attrs.verb not in ("update", "patch"):
            return Decision(False, "can only get/update/patch this type")
        return self._related(node, attrs)

    def _service_account(self, node: str, attrs: Attributes) -> Decision:
        if attrs.verb == "get" and not attrs.subresource:
            return self._readable(node, attrs)
        if attrs.verb != "create" or not attrs.name:
            return Decision(False, "can only create tokens for individual service accounts")
        if attrs.subresource != "token":
            return Decision(False, "can only create token subresource of serviceaccount")
        return self._related(node, attrs)

    def _lease(self, node: str, attrs: Attributes) -> Decision:
        if attrs.verb not in _OWN_VERBS:
            reason = "can only get, create, update, patch, or delete a node lease"
            return Decision(False, reason)
        if attrs.namespace != _LEASES:
            return Decision(False, f'can only access leases in the "{_LEASES}" system namespace')
        if attrs.verb != "create" and attrs.name != node:
            reason = "can only access node lease with the same name as the requesting node"
            return Decision(False, reason)
        return _ALLOW

    def _csi_node(self, node: str, attrs: Attributes) -> Decision:
        if attrs.subresource == "status":
            return Decision(False, "CSINode status access requires CSIVolumeHealth feature")
        if attrs.subresource:
            return Decision(False, "cannot authorize CSINode subresources")
        if attrs.verb not in _OWN_VERBS:
            return Decision(False, "can only get, create, update, patch, or delete a CSINode")
        if attrs.verb != "create" and attrs.name != node:
            reason = "can only access CSINode with the same name as the requesting node"
            return Decision(False, reason)
        return _ALLOW

    def _slice(self, node: str, attrs: Attributes) -> Decision:
        if attrs.subresource:
            return Decision(False, "cannot authorize ResourceSlice subresources")
        if attrs.verb == "create":
            return _ALLOW
        if attrs.verb in ("get", "update", "patch", "delete"):
            return self._related(node, attrs)
        if attrs.verb in ("watch", "list", "deletecollection"):
            if _selects_node(attrs.field_selector, "spec.nodeName", node):
                return _ALLOW
            reason = (
                "can only list/watch/deletecollection resourceslices with nodeName field selector"
            )
            return Decision(False, reason)
        reason = (
            "only the following verbs are allowed for a ResourceSlice: "
            "get, watch, list, create, update, patch, delete, deletecollection"
        )
        return Decision(False, reason)

    def _certificate_request(self, node: str, attrs: Attributes) -> Decision:
        if attrs.subresource:
            reason = "nodes may not access the status subresource of PodCertificateRequests"
            return Decision(False, reason)
        if attrs.verb == "create":
            return _ALLOW
        if attrs.verb == "get":
            return self._related(node, attrs)
        if attrs.verb in ("list", "watch"):
            if _selects_node(attrs.field_selector, "spec.nodeName", node):
                return _ALLOW
            reason = "can only list/watch podcertificaterequests with nodeName field selector"
            return Decision(False, reason)
        return Decision(False, f"nodes may not {attrs.verb} podcertificaterequests")

    def _node(self, node: str, attrs: Attributes) -> Decision:
        if attrs.subresource:
            own_status = attrs.subresource == "status" and attrs.verb in ("update", "patch")
            return _ALLOW if own_status else _NO_OPINION
        if attrs.verb in ("create", "update", "patch"):
            return _ALLOW
        if attrs.verb not in _READ_VERBS:
            return _NO_OPINION
        if attrs.name == node:
            return _ALLOW
        what = f"'{attrs.name}'" if attrs.name else "all nodes"
        return Decision(False, f"node '{node}' cannot read {what}, only its own Node object")

    def _pod(self, node: str, attrs: Attributes) -> Decision:
        verb = attrs.verb
        if attrs.subresource == "status":
            return _ALLOW if verb in ("update", "patch") else _NO_OPINION
        if attrs.subresource == "eviction":
            return _ALLOW if verb == "create" else _NO_OPINION
        if attrs.subresource:
            return _NO_OPINION
        if verb == "get":
            return self._gettable(node, attrs)
        if verb in ("list", "watch"):
            if _selects_node(attrs.field_selector, "spec.nodeName", node):
                return _ALLOW
            if attrs.name:
                return self._related(node, attrs)
            return Decision(False, "can only list/watch pods with spec.nodeName field selector")
        return _ALLOW if verb in ("create", "delete") else _NO_OPINION


def _selects_node(selector: str, field: str, node: str) -> bool:
    return any(term in (f"{field}={node}", f"{field}=={node}") for term in selector.split(","))
