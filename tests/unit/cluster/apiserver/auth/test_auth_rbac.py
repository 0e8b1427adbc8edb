"""RBAC decisions, their reasons, and when they are forgotten."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.auth.attributes import Attributes, forbidden_error
from corral.cluster.apiserver.auth.authorization import Authorizer
from corral.cluster.apiserver.auth.bootstrap import bootstrap_objects
from corral.cluster.apiserver.auth.rbac import Rbac, aggregate
from corral.cluster.apiserver.auth.rules import Rule, covers
from corral.cluster.apiserver.auth.users import UserInfo
from corral.kube.errors import Forbidden
from corral.kube.types import Obj

BOB = UserInfo("bob", groups=("system:authenticated",))
NOBODY = UserInfo("system:anonymous", groups=("system:unauthenticated",))


def rule(verbs: str, groups: str, resources: str, names: str = "") -> Obj:
    made: Obj = {
        "verbs": verbs.split(","),
        "apiGroups": groups.split(","),
        "resources": resources.split(","),
    }
    return made | ({"resourceNames": names.split(",")} if names else {})


def role(name: str, *rules: Obj, namespace: str = "", **extra: object) -> tuple[str, Obj]:
    meta: Obj = {"name": name} | ({"namespace": namespace} if namespace else {})
    kind = "Role" if namespace else "ClusterRole"
    return kind, {"kind": kind, "metadata": meta, "rules": list(rules), **extra}


def binding(name: str, ref: str, *subjects: Obj, namespace: str = "") -> tuple[str, Obj]:
    role_kind, _, role_name = ref.partition("/")
    meta: Obj = {"name": name} | ({"namespace": namespace} if namespace else {})
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    ref_obj = {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role_name}
    return kind, {"kind": kind, "metadata": meta, "roleRef": ref_obj, "subjects": list(subjects)}


def user_subject(name: str) -> Obj:
    return {"kind": "User", "name": name}


def authorizer(*objects: tuple[str, Obj]) -> Authorizer:
    made = Authorizer()
    for kind, obj in objects:
        made.set_object(kind, obj)
    return made


def asks(user: UserInfo, verb: str, resource: str, namespace: str = "", **more: str) -> Attributes:
    resource, _, subresource = resource.partition("/")
    resource, _, group = resource.partition(".")
    return Attributes(
        user,
        verb,
        namespace,
        group,
        resource=resource,
        subresource=subresource,
        name=more.get("name", ""),
    )


def path(user: UserInfo, verb: str, where: str) -> Attributes:
    return Attributes(user, verb, resource_request=False, path=where)


@pytest.mark.parametrize(
    ("given", "asked", "allowed"),
    [
        (rule("get", "", "pods"), asks(BOB, "get", "pods"), True),
        (rule("get", "", "pods"), asks(BOB, "list", "pods"), False),
        (rule("*", "", "pods"), asks(BOB, "anything", "pods"), True),
        (rule("get", "apps", "pods"), asks(BOB, "get", "pods"), False),
        (rule("get", "*", "pods"), asks(BOB, "get", "pods.x.io"), True),
        (rule("get", "", "pods"), asks(BOB, "get", "pods/log"), False),
        (rule("get", "", "pods/log"), asks(BOB, "get", "pods/log"), True),
        (rule("get", "", "*"), asks(BOB, "get", "pods/log"), True),
        (rule("get", "", "*/scale"), asks(BOB, "get", "pods/scale"), True),
        (rule("get", "", "*/scale"), asks(BOB, "get", "pods"), False),
        (rule("get", "", "pods/*"), asks(BOB, "get", "pods/log"), False),
        (rule("get", "", "pods", "a,b"), asks(BOB, "get", "pods", name="b"), True),
        (rule("get", "", "pods", "a,b"), asks(BOB, "get", "pods", name="c"), False),
        (rule("list", "", "pods", "a"), asks(BOB, "list", "pods"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/a"]}, path(BOB, "get", "/a"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/a"]}, path(BOB, "get", "/a/b"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/a/*"]}, path(BOB, "get", "/a/b"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["*"]}, path(BOB, "get", "/any"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["*"]}, asks(BOB, "get", "pods"), False),
        (rule("*", "*", "*"), path(BOB, "get", "/any"), False),
    ],
)
def test_rule_matching(given: Obj, asked: Attributes, allowed: bool) -> None:
    assert Rule(given).allows(asked) is allowed


def test_binding_in_a_namespace_grants_only_there() -> None:
    made = authorizer(
        role("editor", rule("*", "", "pods"), namespace="team"),
        binding("editor", "Role/editor", user_subject("bob"), namespace="team"),
    )
    decision = made.authorize(asks(BOB, "list", "pods", "team"))
    expected = 'RBAC: allowed by RoleBinding "editor/team" of Role "editor" to User "bob"'
    assert decision == (True, expected)
    assert made.authorize(asks(BOB, "list", "pods", "other")) == (False, "")
    assert made.authorize(asks(BOB, "list", "pods")) == (False, "")


@pytest.mark.parametrize(
    ("subject", "user", "described"),
    [
        (user_subject("bob"), BOB, 'User "bob"'),
        ({"kind": "Group", "name": "system:authenticated"}, BOB, 'Group "system:authenticated"'),
        (
            {"kind": "ServiceAccount", "name": "sa", "namespace": "x"},
            UserInfo("system:serviceaccount:x:sa"),
            'ServiceAccount "sa/x"',
        ),
        (
            {"kind": "ServiceAccount", "name": "sa"},
            UserInfo("system:serviceaccount:team:sa"),
            'ServiceAccount "sa/team"',
        ),
    ],
    ids=["user", "group", "service account", "service account of the namespace"],
)
def test_subjects(subject: Obj, user: UserInfo, described: str) -> None:
    made = authorizer(
        role("r", rule("get", "", "pods")),
        binding("b", "ClusterRole/r", user_subject("else"), subject, namespace="team"),
    )
    decision = made.authorize(asks(user, "get", "pods", "team"))
    expected = f'RBAC: allowed by RoleBinding "b/team" of ClusterRole "r" to {described}'
    assert decision == (True, expected)


def test_service_account_without_namespace_in_a_cluster_binding_is_nobody() -> None:
    made = authorizer(
        role("r", rule("get", "", "pods")),
        binding("b", "ClusterRole/r", {"kind": "ServiceAccount", "name": "sa"}),
    )
    assert not made.authorize(asks(UserInfo("system:serviceaccount:x:sa"), "get", "pods")).allowed


def test_missing_roles_are_named_in_the_refusal() -> None:
    made = authorizer(
        binding("m", "ClusterRole/nosuch", user_subject("bob"), namespace="authprobe"),
        binding("c", "ClusterRole/nosuch2", user_subject("bob")),
    )
    with pytest.raises(Forbidden) as caught:
        made.require(asks(BOB, "list", "pods", "authprobe"))
    assert caught.value.message == (
        'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the '
        'namespace "authprobe": rbac: RBAC: '
        '[clusterrole.rbac.authorization.k8s.io "nosuch2" not found, '
        'clusterrole.rbac.authorization.k8s.io "nosuch" not found]'
    )


def test_masters_need_no_rule() -> None:
    root = UserInfo("x", groups=("system:masters",))
    assert Authorizer().authorize(asks(root, "delete", "everything")) == (True, "")


def test_decisions_follow_every_change() -> None:
    made = authorizer(binding("b", "ClusterRole/r", user_subject("bob")))
    asked = asks(BOB, "get", "pods", "team", name="x")
    assert not made.authorize(asked).allowed
    made.set_object(*role("r", rule("get", "", "pods")))
    assert made.authorize(asked).allowed
    made.set_object(*role("r", rule("get", "", "secrets")))
    assert not made.authorize(asked).allowed
    made.set_object(*role("r", rule("get", "", "pods")))
    made.remove("ClusterRoleBinding", "", "b")
    assert not made.authorize(asked).allowed
    made.set_object(*binding("b", "Role/r", user_subject("bob"), namespace="team"))
    made.set_object(*role("r", rule("get", "", "pods"), namespace="team"))
    assert made.authorize(asked).allowed
    made.remove("Role", "team", "r")
    assert not made.authorize(asked).allowed


def test_remembered_decisions_keep_names_apart() -> None:
    made = authorizer(
        role("r", rule("get", "", "secrets", "mine")),
        binding("b", "ClusterRole/r", user_subject("bob")),
    )
    for _ in range(2):
        assert made.authorize(asks(BOB, "get", "secrets", "t", name="mine")).allowed
        assert not made.authorize(asks(BOB, "get", "secrets", "t", name="yours")).allowed
    assert made.authorize(asks(BOB, "list", "secrets", "t")) == (False, "")


def test_remembered_decisions_keep_groups_apart() -> None:
    made = authorizer(
        role("r", rule("get", "", "pods")),
        binding("b", "ClusterRole/r", {"kind": "Group", "name": "g"}),
    )
    assert made.authorize(asks(UserInfo("bob", groups=("g",)), "get", "pods")).allowed
    assert not made.authorize(asks(BOB, "get", "pods")).allowed


@pytest.mark.parametrize(
    ("attrs", "message", "details"),
    [
        (
            asks(BOB, "list", "pods", "default"),
            'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the '
            'namespace "default"',
            {"kind": "pods"},
        ),
        (
            asks(NOBODY, "get", "pods/log", "default", name="x"),
            'pods "x" is forbidden: User "system:anonymous" cannot get resource "pods/log" in '
            'API group "" in the namespace "default"',
            {"name": "x", "kind": "pods"},
        ),
        (
            asks(NOBODY, "list", "deployments.apps"),
            'deployments.apps is forbidden: User "system:anonymous" cannot list resource '
            '"deployments" in API group "apps" at the cluster scope',
            {"group": "apps", "kind": "deployments"},
        ),
        (
            path(NOBODY, "get", "/"),
            'forbidden: User "system:anonymous" cannot get path "/"',
            {},
        ),
        (
            path(NOBODY, "get", "/<b>&"),
            'forbidden: User "system:anonymous" cannot get path "/&lt;b&gt;&amp;"',
            {},
        ),
        (
            path(NOBODY, "get", '/a"b\udcff'),
            'forbidden: User "system:anonymous" cannot get path "/a\\"b?"',
            {},
        ),
    ],
    ids=["in a namespace", "subresource", "cluster scope", "path", "looks like HTML", "quotes"],
)
def test_refusals(attrs: Attributes, message: str, details: Obj) -> None:
    error = forbidden_error(attrs)
    assert (error.message, error.details) == (message, details)
    assert (error.status_code, error.status_reason) == (403, "Forbidden")


DEFAULTS = authorizer(*((obj["kind"], obj) for obj in bootstrap_objects()))
SCHEDULER = UserInfo("system:kube-scheduler", groups=("system:authenticated",))
JOBS = UserInfo(
    "system:serviceaccount:kube-system:job-controller", groups=("system:serviceaccounts",)
)


@pytest.mark.parametrize(
    ("attrs", "allowed"),
    [
        (path(NOBODY, "get", "/version"), True),
        (path(NOBODY, "get", "/api"), False),
        (path(BOB, "get", "/openapi/v2"), True),
        (asks(BOB, "create", "selfsubjectaccessreviews.authorization.k8s.io"), True),
        (asks(NOBODY, "create", "selfsubjectaccessreviews.authorization.k8s.io"), False),
        (asks(SCHEDULER, "create", "pods/binding", "any"), True),
        (asks(SCHEDULER, "get", "leases.coordination.k8s.io", "kube-system"), True),
        (asks(SCHEDULER, "get", "leases.coordination.k8s.io", "default"), False),
        (asks(JOBS, "create", "pods", "any"), True),
        (asks(JOBS, "create", "deployments.apps", "any"), False),
        (path(UserInfo("m", groups=("system:monitoring",)), "get", "/metrics"), True),
    ],
)
def test_default_policy(attrs: Attributes, allowed: bool) -> None:
    assert DEFAULTS.authorize(attrs).allowed is allowed


def test_aggregation_gathers_by_label_and_skips_duplicates_and_itself() -> None:
    read = rule("get", "", "pods")
    write = rule("create", "", "pods")
    selector = {"matchExpressions": [{"key": "to", "operator": "In", "values": ["x", "y"]}]}
    whole = role("all", read, aggregationRule={"clusterRoleSelectors": [selector]})[1]
    whole["metadata"]["labels"] = {"to": "x"}
    parts = [role(name, *rules)[1] for name, rules in (("b", [read, write]), ("a", [write]))]
    for part in parts:
        part["metadata"]["labels"] = {"to": "y"}
    other = role("c", rule("delete", "", "pods"))[1]
    assert aggregate(whole, [whole, *parts, other]) == [write, read]


@pytest.mark.parametrize(
    ("term", "labels", "chosen"),
    [
        ({"key": "k", "operator": "Exists"}, {"k": ""}, True),
        ({"key": "k", "operator": "Exists"}, {}, False),
        ({"key": "k", "operator": "DoesNotExist"}, {}, True),
        ({"key": "k", "operator": "NotIn", "values": ["v"]}, {}, True),
        ({"key": "k", "operator": "NotIn", "values": ["v"]}, {"k": "v"}, False),
    ],
)
def test_aggregation_expressions(term: Obj, labels: dict[str, str], chosen: bool) -> None:
    part = role("part", rule("get", "", "pods"))[1]
    part["metadata"]["labels"] = labels
    selectors = {"clusterRoleSelectors": [{"matchExpressions": [term]}]}
    whole = role("all", aggregationRule=selectors)[1]
    assert bool(aggregate(whole, [part])) is chosen


def test_stale_aggregates() -> None:
    rbac = Rbac()
    selectors = {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}
    rbac.set_object(*role("all", aggregationRule=selectors))
    assert rbac.stale_aggregates() == []
    part = role("part", rule("get", "", "pods"))[1]
    part["metadata"]["labels"] = {"to": "all"}
    rbac.set_object("ClusterRole", part)
    assert rbac.stale_aggregates() == [("all", [rule("get", "", "pods")])]
    assert DEFAULTS.rbac.stale_aggregates() == []


@pytest.mark.parametrize(
    ("owner", "wanted", "missing"),
    [
        (rule("get", "", "builds"), rule("get", "", "builds"), 0),
        (rule("get", "", "*/scale"), rule("get", "", "foo/scale"), 0),
        (rule("get", "", "foo"), rule("get", "", "foo/scale"), 1),
        (rule("*", "*", "*"), rule("a,b", "x,y", "c,d/e"), 0),
        (rule("get", "", "pods"), rule("get,list", "", "pods,secrets"), 3),
        (rule("get", "", "pods", "a"), rule("get", "", "pods"), 1),
        (rule("get", "", "pods", "a"), rule("get", "", "pods", "a,b"), 1),
        (rule("get", "", "pods"), rule("get", "", "pods", "a,b"), 0),
        (
            {"verbs": ["get"], "nonResourceURLs": ["/a/*"]},
            {"verbs": ["get"], "nonResourceURLs": ["/a/b", "/a"]},
            1,
        ),
    ],
)
def test_covering(owner: Obj, wanted: Obj, missing: int) -> None:
    assert len(covers([Rule(owner)], [wanted])) == missing
