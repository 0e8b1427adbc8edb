"""What a kubelet may do. Reasons are those of a real kube-apiserver 1.37.1."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.auth.attributes import Attributes
from corral.cluster.apiserver.auth.authorization import Authorizer
from corral.cluster.apiserver.auth.users import UserInfo
from corral.kube.errors import Forbidden

NODE = UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))
USED = {
    ("n1", "secrets", "default", "used"),
    ("n1", "pods", "default", "used"),
    ("n1", "serviceaccounts", "default", "used"),
    ("n1", "persistentvolumeclaims", "default", "used"),
    ("n1", "persistentvolumes", "", "used"),
    ("n1", "resourceslices", "", "used"),
    ("n1", "podcertificaterequests", "default", "used"),
}
AUTHORIZER = Authorizer(node_uses=lambda *asked: asked in USED)
UNRELATED = "node: no relationship found between node 'n1' and this object"


def asks(
    verb: str, resource: str, name: str = "", *, namespace: str = "default", selector: str = ""
) -> Attributes:
    resource, _, subresource = resource.partition("/")
    resource, _, group = resource.partition(".")
    return Attributes(
        NODE,
        verb,
        namespace,
        group,
        resource=resource,
        subresource=subresource,
        name=name,
        field_selector=selector,
    )


@pytest.mark.parametrize(
    "attrs",
    [
        asks("get", "nodes", "n1", namespace=""),
        asks("create", "nodes", namespace=""),
        asks("patch", "nodes/status", "n1", namespace=""),
        asks("list", "pods", namespace="", selector="spec.nodeName=n1"),
        asks("watch", "pods", namespace="", selector="status.phase!=x,spec.nodeName==n1"),
        asks("get", "pods", "used"),
        asks("list", "pods", "used"),
        asks("create", "pods"),
        asks("patch", "pods/status", "any"),
        asks("create", "pods/eviction", "any"),
        asks("get", "secrets", "used"),
        asks("watch", "secrets", "used"),
        asks("get", "persistentvolumeclaims", "used"),
        asks("patch", "persistentvolumeclaims/status", "used"),
        asks("get", "persistentvolumes", "used", namespace=""),
        asks("get", "serviceaccounts", "used"),
        asks("create", "serviceaccounts/token", "used"),
        asks("update", "leases.coordination.k8s.io", "n1", namespace="kube-node-lease"),
        asks("create", "leases.coordination.k8s.io", namespace="kube-node-lease"),
        asks("create", "events"),
        asks("create", "certificatesigningrequests.certificates.k8s.io", namespace=""),
        asks("update", "csinodes.storage.k8s.io", "n1", namespace=""),
        asks("list", "services", namespace=""),
        asks("create", "tokenreviews.authentication.k8s.io", namespace=""),
        asks("create", "resourceslices.resource.k8s.io", namespace=""),
        asks("delete", "resourceslices.resource.k8s.io", "used", namespace=""),
        asks("list", "resourceslices.resource.k8s.io", namespace="", selector="spec.nodeName=n1"),
        asks("create", "podcertificaterequests.certificates.k8s.io"),
        asks("get", "podcertificaterequests.certificates.k8s.io", "used"),
        asks("list", "podcertificaterequests.certificates.k8s.io", selector="spec.nodeName=n1"),
    ],
    ids=lambda attrs: f"{attrs.verb} {attrs.resource} {attrs.subresource}",
)
def test_allowed(attrs: Attributes) -> None:
    assert AUTHORIZER.authorize(attrs) == (True, "")


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        (
            asks("list", "nodes", namespace=""),
            "node: node 'n1' cannot read all nodes, only its own Node object",
        ),
        (
            asks("get", "nodes", "n2", namespace=""),
            "node: node 'n1' cannot read 'n2', only its own Node object",
        ),
        (asks("delete", "nodes", "n1", namespace=""), ""),
        (asks("get", "nodes/proxy", "n1", namespace=""), ""),
        (asks("list", "pods"), "node: can only list/watch pods with spec.nodeName field selector"),
        (
            asks("list", "pods", selector="spec.nodeName=n2"),
            "node: can only list/watch pods with spec.nodeName field selector",
        ),
        (asks("get", "pods", "other"), UNRELATED),
        (asks("update", "pods", "used"), ""),
        (asks("get", "pods/log", "used"), ""),
        (asks("get", "secrets", "other"), UNRELATED),
        (asks("list", "secrets"), "node: No Object name found"),
        (
            asks("list", "secrets", namespace=""),
            "node: can only read namespaced object of this type",
        ),
        (asks("update", "secrets", "used"), "node: can only read resources of this type"),
        (
            asks("list", "persistentvolumes", namespace=""),
            "node: can only get individual resources of this type",
        ),
        (
            asks("get", "persistentvolumeclaims/status", "used"),
            "node: can only get/update/patch this type",
        ),
        (
            asks("create", "serviceaccounts"),
            "node: can only create tokens for individual service accounts",
        ),
        (
            asks("create", "serviceaccounts", "used"),
            "node: can only create token subresource of serviceaccount",
        ),
        (asks("create", "serviceaccounts/token", "other"), UNRELATED),
        (
            asks("list", "leases.coordination.k8s.io"),
            "node: can only get, create, update, patch, or delete a node lease",
        ),
        (
            asks("get", "leases.coordination.k8s.io", "n1"),
            'node: can only access leases in the "kube-node-lease" system namespace',
        ),
        (
            asks("get", "leases.coordination.k8s.io", "n2", namespace="kube-node-lease"),
            "node: can only access node lease with the same name as the requesting node",
        ),
        (
            asks("get", "csinodes.storage.k8s.io", "n2", namespace=""),
            "node: can only access CSINode with the same name as the requesting node",
        ),
        (
            asks("list", "csinodes.storage.k8s.io", namespace=""),
            "node: can only get, create, update, patch, or delete a CSINode",
        ),
        (
            asks("get", "csinodes.storage.k8s.io/status", "n1", namespace=""),
            "node: CSINode status access requires CSIVolumeHealth feature",
        ),
        (
            asks("get", "csinodes.storage.k8s.io/x", "n1", namespace=""),
            "node: cannot authorize CSINode subresources",
        ),
        (
            asks("list", "resourceslices.resource.k8s.io", namespace=""),
            "node: can only list/watch/deletecollection resourceslices with nodeName field "
            "selector",
        ),
        (
            asks("get", "resourceslices.resource.k8s.io/x", "used", namespace=""),
            "node: cannot authorize ResourceSlice subresources",
        ),
        (
            asks("proxy", "resourceslices.resource.k8s.io", "used", namespace=""),
            "node: only the following verbs are allowed for a ResourceSlice: "
            "get, watch, list, create, update, patch, delete, deletecollection",
        ),
        (
            asks("list", "podcertificaterequests.certificates.k8s.io"),
            "node: can only list/watch podcertificaterequests with nodeName field selector",
        ),
        (
            asks("delete", "podcertificaterequests.certificates.k8s.io", "used"),
            "node: nodes may not delete podcertificaterequests",
        ),
        (asks("list", "deployments.apps"), ""),
    ],
    ids=lambda value: f"{value.verb} {value.resource}" if isinstance(value, Attributes) else "",
)
def test_refused(attrs: Attributes, reason: str) -> None:
    assert AUTHORIZER.authorize(attrs) == (False, reason)


def test_refusal_as_the_kubelet_sees_it() -> None:
    with pytest.raises(Forbidden) as caught:
        AUTHORIZER.require(asks("get", "secrets", "foo"))
    assert caught.value.message == (
        'secrets "foo" is forbidden: User "system:node:n1" cannot get resource "secrets" in API '
        'group "" in the namespace "default": node: no relationship found between node \'n1\' '
        "and this object"
    )


def test_only_members_of_system_nodes_are_nodes() -> None:
    outsider = asks("get", "nodes", "n1", namespace="")._replace(user=UserInfo("system:node:n1"))
    assert AUTHORIZER.authorize(outsider) == (False, "")
    nameless = outsider._replace(user=UserInfo("system:node:", groups=("system:nodes",)))
    expected = 'node: unknown node for user "system:node:"'
    assert AUTHORIZER.authorize(nameless) == (False, expected)


def test_rights_move_with_the_pods() -> None:
    used: set[tuple[str, ...]] = set()
    authorizer = Authorizer(node_uses=lambda *asked: asked in used)
    attrs = asks("get", "secrets", "s")
    assert not authorizer.authorize(attrs).allowed
    used.add(("n1", "secrets", "default", "s"))
    assert authorizer.authorize(attrs).allowed


def test_bindings_add_to_what_a_node_may() -> None:
    authorizer = Authorizer()
    authorizer.set_object(
        "ClusterRole",
        {
            "metadata": {"name": "r"},
            "rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["nodes"]}],
        },
    )
    authorizer.set_object(
        "ClusterRoleBinding",
        {
            "metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "Group", "name": "system:nodes"}],
        },
    )
    assert authorizer.authorize(asks("list", "nodes", namespace="")).allowed
