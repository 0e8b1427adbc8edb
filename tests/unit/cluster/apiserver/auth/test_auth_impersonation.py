"""Acting as somebody else. Messages are those of a real kube-apiserver 1.37.1."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.auth.attributes import Attributes, Decision
from corral.cluster.apiserver.auth.impersonation import impersonate, wanted_user
from corral.cluster.apiserver.auth.users import UserInfo
from corral.kube.errors import BadRequest, Forbidden

NOBODY = UserInfo("system:anonymous", groups=("system:unauthenticated",))
BOB = UserInfo("bob", groups=("system:authenticated",))
REQUEST = Attributes(BOB, "list", "", "", "v1", "pods")

Headers = list[tuple[str, str]]


class Grants:
    """An authorizer that allows a set of ``verb group/resource/subresource name`` strings."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = set(allowed)
        self.asked: list[str] = []

    def __call__(self, attrs: Attributes) -> Decision:
        where = "/".join(filter(None, (attrs.api_group, attrs.resource, attrs.subresource)))
        name = "/".join(filter(None, (attrs.namespace, attrs.name)))
        text = f"{attrs.verb} {where} {name}".strip()
        self.asked.append(text)
        return Decision(text in self.allowed or "*" in self.allowed)


EVERYTHING = Grants("*")


def act(*headers: tuple[str, str], grants: Grants = EVERYTHING, user: UserInfo = BOB) -> UserInfo:
    return impersonate(headers, REQUEST._replace(user=user), grants)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], BOB),
        ([("Accept", "x")], BOB),
        ([("Impersonate-User", "eve")], UserInfo("eve", groups=("system:authenticated",))),
        (
            [("impersonate-user", "eve"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")],
            UserInfo("eve", groups=("a", "b", "system:authenticated")),
        ),
        (
            [("Impersonate-User", "eve"), ("Impersonate-Group", "system:unauthenticated")],
            UserInfo("eve", groups=("system:unauthenticated",)),
        ),
        ([("Impersonate-User", "system:anonymous")], NOBODY),
        (
            [("Impersonate-User", "system:serviceaccount:team:sa")],
            UserInfo(
                "system:serviceaccount:team:sa",
                groups=(
                    "system:serviceaccounts",
                    "system:serviceaccounts:team",
                    "system:authenticated",
                ),
            ),
        ),
        (
            [("Impersonate-User", "system:serviceaccount:team:sa"), ("Impersonate-Group", "g")],
            UserInfo("system:serviceaccount:team:sa", groups=("g", "system:authenticated")),
        ),
        (
            [("Impersonate-User", "system:node:n1")],
            UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated")),
        ),
        (
            [
                ("Impersonate-User", "eve"),
                ("Impersonate-Uid", "u1"),
                ("Impersonate-Extra-Acme.com%2FProject", "p"),
                ("Impersonate-Extra-Acme.com%2FProject", "q"),
            ],
            UserInfo("eve", "u1", ("system:authenticated",), {"acme.com/project": ("p", "q")}),
        ),
    ],
    ids=[
        "nothing",
        "other headers",
        "user",
        "groups",
        "unauthenticated",
        "anonymous",
        "service account",
        "service account with groups",
        "node",
        "uid and extra",
    ],
)
def test_the_user_acted_as(headers: Headers, expected: UserInfo) -> None:
    assert act(*headers) == expected


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (
            [("Impersonate-Group", "g"), ("Impersonate-Extra-Foo", "x")],
            'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, '
            'Extra:map[string][]string{"foo":[]string{"x"}}} without impersonating a user name',
        ),
        (
            [("Impersonate-Uid", "u1")],
            'requested &user.DefaultInfo{Name:"", UID:"u1", Groups:[]string(nil), '
            "Extra:map[string][]string(nil)} without impersonating a user name",
        ),
        (
            [("Impersonate-Group", "a"), ("Impersonate-Group", "b")],
            'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"a", "b"}, '
            "Extra:map[string][]string(nil)} without impersonating a user name",
        ),
    ],
)
def test_parts_without_a_user(headers: Headers, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        wanted_user(headers)
    assert (caught.value.status_code, caught.value.message) == (400, message)


@pytest.mark.parametrize(
    ("name", "attrs", "message"),
    [
        (
            "bob",
            REQUEST._replace(user=NOBODY),
            'pods is forbidden: User "system:anonymous" cannot impersonate-on:user-info:list '
            'resource "pods" in API group "" at the cluster scope',
        ),
        (
            "system:serviceaccount:default:default",
            REQUEST._replace(user=NOBODY),
            'pods is forbidden: User "system:anonymous" cannot impersonate-on:serviceaccount:list '
            'resource "pods" in API group "" at the cluster scope',
        ),
        (
            "bob",
            Attributes(NOBODY, "get", resource_request=False, path="/foo"),
            'forbidden: User "system:anonymous" cannot impersonate-on:user-info:get path "/foo"',
        ),
    ],
    ids=["user", "service account", "path"],
)
def test_refusals(name: str, attrs: Attributes, message: str) -> None:
    with pytest.raises(Forbidden) as caught:
        impersonate([("Impersonate-User", name)], attrs, Grants())
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("headers", "needed"),
    [
        ([("Impersonate-User", "eve")], ["impersonate users eve"]),
        (
            [("Impersonate-User", "system:serviceaccount:team:sa")],
            ["impersonate serviceaccounts team/sa"],
        ),
        (
            [("Impersonate-User", "eve"), ("Impersonate-Group", "a"), ("Impersonate-Uid", "u")],
            [
                "impersonate users eve",
                "impersonate groups a",
                "impersonate authentication.k8s.io/uids u",
            ],
        ),
        (
            [("Impersonate-User", "eve"), ("Impersonate-Extra-K", "v")],
            ["impersonate users eve", "impersonate authentication.k8s.io/userextras/k v"],
        ),
    ],
    ids=["user", "service account", "group and uid", "extra"],
)
def test_each_part_needs_its_right(headers: Headers, needed: list[str]) -> None:
    act(*headers, grants=Grants(*needed))
    for left_out in needed:
        with pytest.raises(Forbidden):
            act(*headers, grants=Grants(*(set(needed) - {left_out})))


def test_constrained_mode_needs_both_rights() -> None:
    needed = [
        "impersonate-on:user-info:list pods",
        "impersonate:user-info authentication.k8s.io/users eve",
    ]
    header = ("Impersonate-User", "eve")
    assert act(header, grants=Grants(*needed)).name == "eve"
    with pytest.raises(Forbidden) as caught:
        act(header, grants=Grants(needed[0]))
    assert caught.value.message == (
        'users.authentication.k8s.io "eve" is forbidden: User "bob" cannot impersonate:user-info '
        'resource "users" in API group "authentication.k8s.io" at the cluster scope'
    )


def constrained(*headers: tuple[str, str]) -> str:
    grants = Grants(
        "impersonate-on:user-info:list pods",
        "impersonate:user-info authentication.k8s.io/users eve",
    )
    with pytest.raises(Forbidden) as caught:
        act(("Impersonate-User", "eve"), *headers, grants=grants)
    return caught.value.message.rpartition(": ")[2]


def test_what_constrained_impersonation_never_allows() -> None:
    refused = "impersonating the system:masters group is not allowed"
    assert constrained(("Impersonate-Group", "system:masters")) == refused
    refused = "impersonating the empty string group is not allowed"
    assert constrained(("Impersonate-Group", "")) == refused
    refused = "impersonating the empty string value in extra is not allowed"
    assert constrained(("Impersonate-Extra-Acme.com%2Fx", "")) == refused
    refused = "impersonating the empty string key in extra is not allowed"
    assert constrained(("Impersonate-Extra-", "v")) == refused
    refused = 'must be a domain-prefixed path (such as "acme.io/foo")'
    assert constrained(("Impersonate-Extra-Plain", "v")) == refused


def test_many_groups_or_extras_are_asked_for_at_once() -> None:
    grants = Grants(
        "impersonate-on:user-info:list pods",
        "impersonate:user-info authentication.k8s.io/users eve",
        "impersonate:user-info authentication.k8s.io/groups *",
        "impersonate:user-info authentication.k8s.io/userextras/* *",
    )
    groups = [("Impersonate-Group", name) for name in "abcd"]
    extras = [("Impersonate-Extra-A.io%2Fk", name) for name in "abcd"]
    assert act(("Impersonate-User", "eve"), *groups, *extras, grants=grants).groups[:4] == (
        *"abcd",
    )
    with pytest.raises(Forbidden):
        act(("Impersonate-User", "eve"), *groups[:3], grants=grants)


def test_a_pod_may_act_as_its_own_node() -> None:
    extra = {"authentication.kubernetes.io/node-name": ("n1",)}
    agent = UserInfo("system:serviceaccount:kube-system:agent", extra=extra)
    grants = Grants(
        "impersonate-on:associated-node:list pods",
        "impersonate:associated-node authentication.k8s.io/nodes *",
    )
    user = act(("Impersonate-User", "system:node:n1"), grants=grants, user=agent)
    assert user.groups == ("system:nodes", "system:authenticated")
    with pytest.raises(Forbidden) as caught:
        act(("Impersonate-User", "system:node:n2"), grants=grants, user=agent)
    assert "impersonate-on:arbitrary-node:list" in caught.value.message
