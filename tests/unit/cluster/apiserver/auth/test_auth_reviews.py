"""The review kinds. Answers are those of a real kube-apiserver 1.37.1."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from corral.cluster.apiserver.auth.authentication import Authenticator
from corral.cluster.apiserver.auth.authorization import Authorizer
from corral.cluster.apiserver.auth.bootstrap import bootstrap_objects
from corral.cluster.apiserver.auth.reviews import (
    local_subject_access_review,
    self_subject_access_review,
    self_subject_review,
    self_subject_rules_review,
    subject_access_review,
    token_review,
)
from corral.cluster.apiserver.auth.users import UserInfo
from corral.kube.errors import BadRequest, Invalid
from corral.kube.types import Obj

DORA = UserInfo("dora", groups=("system:authenticated",))
PODS = {"namespace": "authprobe", "verb": "list", "resource": "pods"}
REASON = 'RBAC: allowed by RoleBinding "editor/authprobe" of Role "editor" to User "dora"'


@pytest.fixture(scope="module")
def authorizer() -> Authorizer:
    made = Authorizer()
    for obj in bootstrap_objects():
        made.set_object(obj["kind"], obj)
    meta = {"name": "editor", "namespace": "authprobe"}
    rules = [
        {"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]},
        {"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]},
    ]
    made.set_object("Role", {"metadata": meta, "rules": rules})
    subjects = [{"kind": "User", "name": "dora"}]
    ref = {"kind": "Role", "name": "editor"}
    made.set_object("RoleBinding", {"metadata": meta, "roleRef": ref, "subjects": subjects})
    return made


def review(**spec: object) -> Obj:
    return {"spec": spec}


def test_subject_access_review(authorizer: Authorizer) -> None:
    asked = review(user="dora", resourceAttributes=PODS)
    assert subject_access_review(asked, authorizer.authorize) == {
        "kind": "SubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {"user": "dora", "resourceAttributes": PODS},
        "status": {"allowed": True, "reason": REASON},
    }


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"user": "zoe", "resourceAttributes": PODS}, {"allowed": False}),
        (
            {"groups": ["system:masters"], "nonResourceAttributes": {"path": "/x", "verb": "get"}},
            {"allowed": True},
        ),
        (
            {
                "user": "system:node:n1",
                "groups": ["system:nodes"],
                "resourceAttributes": {"verb": "list", "resource": "pods"},
            },
            {
                "allowed": False,
                "reason": "node: can only list/watch pods with spec.nodeName field selector",
            },
        ),
        (
            {
                "user": "system:node:n1",
                "groups": ["system:nodes"],
                "resourceAttributes": {
                    "verb": "list",
                    "resource": "pods",
                    "fieldSelector": {"rawSelector": "spec.nodeName=n1"},
                },
            },
            {"allowed": True},
        ),
        (
            {
                "user": "system:node:n1",
                "groups": ["system:nodes"],
                "resourceAttributes": {
                    "verb": "list",
                    "resource": "pods",
                    "fieldSelector": {
                        "requirements": [
                            {"key": "spec.nodeName", "operator": "In", "values": ["n1"]}
                        ]
                    },
                },
            },
            {"allowed": True},
        ),
    ],
    ids=["no right", "masters", "node", "node with selector", "node with requirements"],
)
def test_subject_access_review_status(authorizer: Authorizer, spec: Obj, status: Obj) -> None:
    assert subject_access_review({"spec": spec}, authorizer.authorize)["status"] == status


ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            review(),
            f"[spec: Invalid value: null: {ONE_OF}, spec.user: Invalid value: "
            '"": at least one of user or group must be specified]',
        ),
        (
            review(user="x", resourceAttributes={}, nonResourceAttributes={"path": "/"}),
            f'spec: Invalid value: {{"Path":"/","Verb":""}}: {ONE_OF}',
        ),
        (
            review(user="x", resourceAttributes={}) | {"metadata": {"name": "x"}},
            'metadata: Invalid value: {"name":"x"}: must be empty',
        ),
        (
            review(user="x", resourceAttributes={"fieldSelector": {}}),
            "spec.resourceAttributes.fieldSelector.requirements: Required value: when "
            "spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is "
            "required",
        ),
        (
            review(
                user="x",
                resourceAttributes={"labelSelector": {"rawSelector": "a", "requirements": [{}]}},
            ),
            'spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a": may not '
            "specified at the same time as requirements",
        ),
    ],
    ids=["nothing", "both", "metadata", "empty selector", "two selectors"],
)
def test_subject_access_review_refusals(authorizer: Authorizer, asked: Obj, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        subject_access_review(asked, authorizer.authorize)
    assert caught.value.message == f'.authorization.k8s.io "" is invalid: {message}'


def test_local_subject_access_review(authorizer: Authorizer) -> None:
    asked = review(user="dora", resourceAttributes=PODS)
    answer = local_subject_access_review(asked, "authprobe", authorizer.authorize)
    assert answer["metadata"] == {"namespace": "authprobe"}
    assert answer["status"] == {"allowed": True, "reason": REASON}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            review(user="dora", resourceAttributes={"namespace": "other"}),
            'spec.resourceAttributes.namespace: Invalid value: "other": must match '
            "metadata.namespace",
        ),
        (
            review(user="dora", nonResourceAttributes={"path": "/"}),
            'spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":""}: disallowed on '
            "this kind of request",
        ),
    ],
)
def test_local_subject_access_review_refusals(
    authorizer: Authorizer, asked: Obj, message: str
) -> None:
    with pytest.raises(Invalid) as caught:
        local_subject_access_review(asked, "authprobe", authorizer.authorize)
    assert caught.value.message == f'.authorization.k8s.io "" is invalid: {message}'


def test_local_subject_access_review_of_another_namespace(authorizer: Authorizer) -> None:
    asked = review(user="dora", resourceAttributes={"namespace": "b"})
    with pytest.raises(BadRequest):
        local_subject_access_review(
            asked | {"metadata": {"namespace": "b"}}, "a", authorizer.authorize
        )


def test_self_subject_access_review(authorizer: Authorizer) -> None:
    answer = self_subject_access_review(review(resourceAttributes=PODS), DORA, authorizer.authorize)
    assert answer["status"] == {"allowed": True, "reason": REASON}
    with pytest.raises(Invalid):
        self_subject_access_review(review(), DORA, authorizer.authorize)


def test_self_subject_rules_review(authorizer: Authorizer) -> None:
    answer = self_subject_rules_review(review(namespace="authprobe"), DORA, authorizer)
    status = answer["status"]
    assert answer["spec"] == {} and status["incomplete"] is False
    assert status["resourceRules"] == [
        {
            "verbs": ["create"],
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        },
        {
            "verbs": ["create"],
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["selfsubjectreviews"],
        },
        {"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]},
        {"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]},
    ]
    assert {
        "verbs": ["get"],
        "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"],
    } in status["nonResourceRules"]
    assert "evaluationError" not in status


def test_self_subject_rules_review_of_a_node_is_incomplete(authorizer: Authorizer) -> None:
    node = UserInfo("system:node:n1", groups=("system:nodes",))
    status = self_subject_rules_review(review(namespace="x"), node, authorizer)["status"]
    assert status["incomplete"] is True
    assert status["evaluationError"] == "node authorizer does not support user rule resolution"


def test_self_subject_rules_review_needs_a_namespace(authorizer: Authorizer) -> None:
    with pytest.raises(BadRequest, match="no namespace on request"):
        self_subject_rules_review(review(), DORA, authorizer)


def test_self_subject_review() -> None:
    user = UserInfo("admin", "admin", ("system:masters", "system:authenticated"))
    now = datetime(2026, 11, 15, 8, 1, 50, tzinfo=UTC)
    assert self_subject_review(user, now=now) == {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": "2026-11-15T08:01:50Z"},
        "status": {
            "userInfo": {
                "username": "admin",
                "uid": "admin",
                "groups": ["system:masters", "system:authenticated"],
            }
        },
    }


def test_token_review() -> None:
    authenticator = Authenticator(static_tokens={"t": DORA})
    answer = token_review(review(token="t"), authenticator)
    assert answer["status"]["user"] == {"username": "dora", "groups": ["system:authenticated"]}
    assert (answer["kind"], answer["spec"]) == ("TokenReview", {"token": "t"})
    with pytest.raises(BadRequest) as caught:
        token_review(review(), authenticator)
    assert caught.value.message == "token is required for TokenReview in authentication"
