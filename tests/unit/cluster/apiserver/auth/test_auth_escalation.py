"""Who may write roles and bindings. Messages are those of a real kube-apiserver 1.37.1."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.auth.authorization import Authorizer
from corral.cluster.apiserver.auth.bootstrap import bootstrap_objects
from corral.cluster.apiserver.auth.escalation import check_binding_write, check_role_write
from corral.cluster.apiserver.auth.users import UserInfo
from corral.kube.errors import Forbidden, NotFound
from corral.kube.types import Obj

EVE = UserInfo("eve", groups=("system:authenticated",))
ROOT = UserInfo("root", groups=("system:masters", "system:authenticated"))
GROUP = "rbac.authorization.k8s.io"


@pytest.fixture
def authorizer() -> Authorizer:
    made = Authorizer()
    for obj in bootstrap_objects():
        made.set_object(obj["kind"], obj)
    return made


def grant(authorizer: Authorizer, rules: list[Obj]) -> None:
    authorizer.set_object("ClusterRole", {"metadata": {"name": "eves"}, "rules": rules})
    binding = {
        "metadata": {"name": "eves"},
        "roleRef": {"kind": "ClusterRole", "name": "eves"},
        "subjects": [{"kind": "User", "name": "eve"}],
    }
    authorizer.set_object("ClusterRoleBinding", binding)


def role(*rules: Obj) -> Obj:
    return {"kind": "Role", "metadata": {"name": "x"}, "rules": list(rules)}


def cluster_role(**fields: object) -> Obj:
    return {"kind": "ClusterRole", "metadata": {"name": "x"}, **fields}


def role_binding(role: str) -> Obj:
    ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}
    return {"kind": "RoleBinding", "metadata": {"name": "x"}, "roleRef": ref}


PODS: Obj = {"verbs": ["get", "list"], "resources": ["pods", "secrets"], "apiGroups": [""]}
MAPS: Obj = {
    "verbs": ["get"],
    "resources": ["configmaps"],
    "resourceNames": ["a", "b"],
    "apiGroups": [""],
}


def test_role_beyond_the_writer(authorizer: Authorizer) -> None:
    with pytest.raises(Forbidden) as caught:
        check_role_write(authorizer, EVE, role(PODS, MAPS), namespace="team")
    assert caught.value.message == (
        'roles.rbac.authorization.k8s.io "x" is forbidden: user "eve" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently '
        "held:\n"
        '{APIGroups:[""], Resources:["configmaps"], ResourceNames:["a"], Verbs:["get"]}\n'
        '{APIGroups:[""], Resources:["configmaps"], ResourceNames:["b"], Verbs:["get"]}\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}'
    )
    assert caught.value.details == {"name": "x", "group": GROUP, "kind": "roles"}


def test_role_within_the_writer(authorizer: Authorizer) -> None:
    grant(authorizer, [PODS, MAPS])
    check_role_write(authorizer, EVE, role(PODS, MAPS), namespace="team")


def test_masters_may_write_anything(authorizer: Authorizer) -> None:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    check_role_write(authorizer, ROOT, role(everything), namespace="team")
    check_binding_write(authorizer, ROOT, role_binding("nosuch"), namespace="team")


def test_verb_escalate(authorizer: Authorizer) -> None:
    grant(authorizer, [{"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["roles"]}])
    check_role_write(authorizer, EVE, role(PODS), namespace="team")
    with pytest.raises(Forbidden):
        check_role_write(authorizer, EVE, cluster_role(rules=[PODS]))


def test_garbage_collection_is_no_escalation(authorizer: Authorizer) -> None:
    old, new = role(PODS), role(PODS)
    old["metadata"]["finalizers"] = ["x/y"]
    check_role_write(authorizer, EVE, new, old=old, namespace="team", request_name="x")
    new["metadata"]["labels"] = {"a": "b"}
    with pytest.raises(Forbidden):
        check_role_write(authorizer, EVE, new, old=old, namespace="team", request_name="x")


def test_aggregation_rule_is_for_cluster_admins(authorizer: Authorizer) -> None:
    selectors = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    with pytest.raises(Forbidden) as caught:
        check_role_write(authorizer, EVE, cluster_role(rules=[], aggregationRule=selectors))
    assert caught.value.message == (
        'clusterroles.rbac.authorization.k8s.io "x" is forbidden: must have cluster-admin '
        "privileges to use the aggregationRule"
    )
    check_role_write(authorizer, EVE, cluster_role(rules=[], aggregationRule={}))


def test_binding_beyond_the_writer(authorizer: Authorizer) -> None:
    with pytest.raises(Forbidden) as caught:
        check_binding_write(authorizer, EVE, role_binding("system:monitoring"), namespace="team")
    assert caught.value.message == (
        'rolebindings.rbac.authorization.k8s.io "x" is forbidden: user "eve" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently '
        "held:\n"
        '{APIGroups:[""], Resources:["nodes/metrics"], Verbs:["get"]}\n'
        '{NonResourceURLs:["/flagz"], Verbs:["get"]}\n'
        '{NonResourceURLs:["/healthz/*"], Verbs:["get"]}\n'
        '{NonResourceURLs:["/livez/*"], Verbs:["get"]}\n'
        '{NonResourceURLs:["/metrics"], Verbs:["get"]}\n'
        '{NonResourceURLs:["/metrics/slis"], Verbs:["get"]}\n'
        '{NonResourceURLs:["/readyz/*"], Verbs:["get"]}\n'
        '{NonResourceURLs:["/statusz"], Verbs:["get"]}'
    )


def test_binding_to_a_role_that_is_not_there(authorizer: Authorizer) -> None:
    with pytest.raises(NotFound) as caught:
        check_binding_write(authorizer, EVE, role_binding("nosuch"), namespace="team")
    expected = 'rolebindings.rbac.authorization.k8s.io "nosuch" not found'
    assert caught.value.message == expected


@pytest.mark.parametrize("names", [[], ["view"]], ids=["any role", "that role"])
def test_verb_bind(authorizer: Authorizer, names: list[str]) -> None:
    rule: Obj = {"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"]}
    grant(authorizer, [rule | ({"resourceNames": names} if names else {})])
    check_binding_write(authorizer, EVE, role_binding("view"), namespace="team")
    if names:
        with pytest.raises(Forbidden):
            check_binding_write(authorizer, EVE, role_binding("edit"), namespace="team")


def test_binding_within_the_writer(authorizer: Authorizer) -> None:
    discovery = role_binding("system:discovery")
    check_binding_write(authorizer, EVE, discovery, namespace="team")


def test_resolution_errors_are_told(authorizer: Authorizer) -> None:
    binding = {
        "metadata": {"name": "broken"},
        "roleRef": {"kind": "ClusterRole", "name": "nosuch"},
        "subjects": [{"kind": "User", "name": "eve"}],
    }
    authorizer.set_object("ClusterRoleBinding", binding)
    with pytest.raises(Forbidden, match=r"resolution errors: \[clusterrole.* not found\]"):
        check_role_write(authorizer, EVE, role(PODS), namespace="team")
