"""Who a request comes from."""

from __future__ import annotations

import base64

import pytest

from corral.cluster.apiserver.auth.authentication import (
    Authenticator,
    parse_token_file,
    user_from_certificate,
)
from corral.cluster.apiserver.auth.users import UserInfo, node_name, split_service_account
from corral.kube.errors import Unauthorized

TOKEN_FILE = """\
admin-token,admin,admin-uid,"system:masters"
kcm-token,system:kube-controller-manager,kcm,""
dev-token,dev,dev-uid,"a,b"
plain-token,plain,plain-uid

,ignored,x
"""
AUTHENTICATOR = Authenticator(static_tokens=parse_token_file(TOKEN_FILE))
CERTIFICATE = {
    "subject": (
        (("organizationName", "system:masters"),),
        (("organizationName", "ops"),),
        (("commonName", "kubernetes-admin"),),
    )
}


@pytest.mark.parametrize(
    ("token", "name", "uid", "groups"),
    [
        ("admin-token", "admin", "admin-uid", ("system:masters", "system:authenticated")),
        ("kcm-token", "system:kube-controller-manager", "kcm", ("", "system:authenticated")),
        ("dev-token", "dev", "dev-uid", ("a", "b", "system:authenticated")),
        ("plain-token", "plain", "plain-uid", ("system:authenticated",)),
    ],
)
def test_static_tokens(token: str, name: str, uid: str, groups: tuple[str, ...]) -> None:
    assert AUTHENTICATOR.authenticate(f"Bearer {token}") == UserInfo(name, uid, groups)


def test_token_file_with_too_few_columns() -> None:
    with pytest.raises(ValueError, match=r"at least 3 columns .* found 2"):
        parse_token_file("token,user\n")


@pytest.mark.parametrize("header", [None, "", "Basic abc", "Bearer", "Bearer ", "nonsense"])
def test_no_token_is_anonymous(header: str | None) -> None:
    user = AUTHENTICATOR.authenticate(header)
    assert user == UserInfo("system:anonymous", groups=("system:unauthenticated",))


@pytest.mark.parametrize("header", ["Bearer nope", "bearer nope", " BEARER nope "])
def test_wrong_token_is_refused(header: str) -> None:
    with pytest.raises(Unauthorized) as caught:
        AUTHENTICATOR.authenticate(header)
    assert caught.value.message == "Unauthorized"


def test_anonymous_can_be_switched_off() -> None:
    with pytest.raises(Unauthorized):
        Authenticator(anonymous=False).authenticate()


def test_certificate_comes_before_token() -> None:
    user = AUTHENTICATOR.authenticate("Bearer nope", certificate=CERTIFICATE)
    expected = ("system:masters", "ops", "system:authenticated")
    assert (user.name, user.groups) == ("kubernetes-admin", expected)


def test_certificate_without_common_name_names_nobody() -> None:
    nameless = {"subject": ((("organizationName", "ops"),),)}
    assert user_from_certificate(nameless) is None
    assert AUTHENTICATOR.authenticate(certificate=nameless).name == "system:anonymous"


def websocket(token: str) -> str:
    encoded = base64.urlsafe_b64encode(token.encode()).rstrip(b"=").decode()
    return f"v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.{encoded}"


def test_token_as_websocket_protocol() -> None:
    assert AUTHENTICATOR.authenticate(protocols=websocket("dev-token")).name == "dev"
    assert AUTHENTICATOR.authenticate(protocols="v4.channel.k8s.io").name == "system:anonymous"
    for wrong in (websocket("nope"), "base64url.bearer.authorization.k8s.io._"):
        with pytest.raises(Unauthorized):
            AUTHENTICATOR.authenticate(protocols=wrong)


def test_token_review_of_static_tokens() -> None:
    assert AUTHENTICATOR.token_review({"token": "admin-token"}) == {
        "authenticated": True,
        "user": {
            "username": "admin",
            "uid": "admin-uid",
            "groups": ["system:masters", "system:authenticated"],
        },
        "audiences": ["https://kubernetes.default.svc.cluster.local"],
    }
    invalid = {"user": {}, "error": "invalid bearer token"}
    assert AUTHENTICATOR.token_review({"token": "garbage"}) == invalid
    review = {"token": "admin-token", "audiences": ["x", "y"]}
    assert AUTHENTICATOR.token_review(review) == invalid


@pytest.mark.parametrize(
    ("username", "parts"),
    [
        ("system:serviceaccount:team:sa", ("team", "sa")),
        ("system:serviceaccount:team:a.b", ("team", "a.b")),
        ("system:serviceaccount:team", None),
        ("system:serviceaccount:team:sa:x", None),
        ("system:serviceaccount:Team:sa", None),
        ("system:serviceaccount:te.am:sa", None),
        ("bob", None),
    ],
)
def test_service_account_names(username: str, parts: tuple[str, str] | None) -> None:
    assert split_service_account(username) == parts


def test_node_names() -> None:
    assert node_name("system:node:n1.example") == "n1.example"
    assert node_name("system:node:") is None
    assert node_name("system:node:N1") is None
    assert node_name("n1") is None
