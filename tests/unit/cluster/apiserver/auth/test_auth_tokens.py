"""Service account tokens: what is in them, and when they hold."""

from __future__ import annotations

import base64
from collections.abc import Callable

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from corral.cluster.apiserver.auth.authentication import Authenticator
from corral.cluster.apiserver.auth.jwt import JwtError, Signer, Verifier, unverified_claims
from corral.cluster.apiserver.auth.token_request import token_request
from corral.cluster.apiserver.auth.tokens import (
    BoundObject,
    ServiceAccountTokens,
    TokenIssuer,
)
from corral.kube.errors import ApiError, BadRequest, Unauthorized
from corral.kube.types import Obj

ISSUER = "https://kubernetes.default.svc.cluster.local"
NOW = 1_794_729_710
SIGNER = Signer(ec.generate_private_key(ec.SECP256R1()))
USER = "system:serviceaccount:team:default"


class Cluster:
    """Objects by (resource, namespace, name), a clock, and an authenticator over both."""

    def __init__(self) -> None:
        self.now = float(NOW)
        self.lookups = 0
        self.objects: dict[tuple[str, str, str], Obj] = {
            ("serviceaccounts", "team", "default"): {"metadata": {"uid": "sa-uid"}},
            ("pods", "team", "p"): {
                "metadata": {"uid": "pod-uid"},
                "spec": {"serviceAccountName": "default", "nodeName": "n1"},
            },
            ("nodes", "", "n1"): {"metadata": {"uid": "node-uid"}},
            ("secrets", "team", "s"): {"metadata": {"uid": "secret-uid"}},
        }
        self.issuer = TokenIssuer(SIGNER, clock=lambda: self.now)
        tokens = ServiceAccountTokens(self.issuer, self.lookup)
        self.authenticator = Authenticator(service_accounts=tokens, clock=lambda: self.now)

    def lookup(self, resource: str, namespace: str, name: str) -> Obj | None:
        self.lookups += 1
        return self.objects.get((resource, namespace, name))

    def token(self, bound: BoundObject | None = None, *, expiration: int = 3600) -> str:
        token, _ = self.issuer.issue(
            "team", "default", sa_uid="sa-uid", expiration=expiration, bound_object=bound
        )
        return token

    def why_not(self, token: str) -> str:
        error = self.authenticator.token_review({"token": token}).get("error", "")
        return str(error).removeprefix("[invalid bearer token, ").removesuffix("]")


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


POD = BoundObject("Pod", "p", "pod-uid", node_name="n1", node_uid="node-uid")


def payload(token: str) -> Obj:
    claims = unverified_claims(token)
    assert claims is not None
    return claims


def test_header_and_claims_are_those_of_kubernetes(cluster: Cluster) -> None:
    token, expires = cluster.issuer.issue("team", "default", sa_uid="sa-uid")
    claims = payload(token)
    assert len(claims.pop("jti")) == 36
    assert claims == {
        "aud": [ISSUER],
        "exp": NOW + 3600,
        "iat": NOW,
        "iss": ISSUER,
        "kubernetes.io": {
            "namespace": "team",
            "serviceaccount": {"name": "default", "uid": "sa-uid"},
        },
        "nbf": NOW,
        "sub": USER,
    }
    head = token.partition(".")[0]
    header = orjson.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    assert header == {"alg": "ES256", "kid": SIGNER.verifier.key_id}
    assert expires == "2026-11-15T09:01:50Z"


def test_pod_bound_token_of_an_hour_lives_a_year_and_warns(cluster: Cluster) -> None:
    token, expires = cluster.issuer.issue(
        "team", "default", sa_uid="sa-uid", expiration=3607, bound_object=POD
    )
    claims = payload(token)
    assert claims["exp"] == NOW + 365 * 24 * 3600
    assert claims["kubernetes.io"] == {
        "namespace": "team",
        "serviceaccount": {"name": "default", "uid": "sa-uid"},
        "pod": {"name": "p", "uid": "pod-uid"},
        "node": {"name": "n1", "uid": "node-uid"},
        "warnafter": NOW + 3607,
    }
    assert expires == "2026-11-15T09:01:57Z"


def test_other_audiences_are_not_extended(cluster: Cluster) -> None:
    token, _ = cluster.issuer.issue(
        "team", "default", sa_uid="x", audiences=["vault"], expiration=3607, bound_object=POD
    )
    assert payload(token)["exp"] == NOW + 3607


def test_user_of_a_pod_bound_token(cluster: Cluster) -> None:
    token = cluster.token(POD)
    user = cluster.authenticator.authenticate(f"Bearer {token}")
    assert (user.name, user.uid) == (USER, "sa-uid")
    assert user.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:team",
        "system:authenticated",
    )
    assert user.extra == {
        "authentication.kubernetes.io/credential-id": (f"JTI={payload(token)['jti']}",),
        "authentication.kubernetes.io/node-name": ("n1",),
        "authentication.kubernetes.io/node-uid": ("node-uid",),
        "authentication.kubernetes.io/pod-name": ("p",),
        "authentication.kubernetes.io/pod-uid": ("pod-uid",),
    }


SECRET = BoundObject("Secret", "s", "secret-uid")
NODE = BoundObject("Node", "n1", "node-uid")
GONE = "service account token has been invalidated"
LONG_AGO = "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("bound", "key", "change", "why"),
    [
        (None, ("serviceaccounts", "team", "default"), None, 'serviceaccounts "default" not found'),
        (
            None,
            ("serviceaccounts", "team", "default"),
            {"uid": "new"},
            "service account UID (new) does not match claim (sa-uid)",
        ),
        (
            None,
            ("serviceaccounts", "team", "default"),
            {"uid": "sa-uid", "deletionTimestamp": LONG_AGO},
            "service account team/default has been deleted",
        ),
        (POD, ("pods", "team", "p"), None, GONE),
        (
            POD,
            ("pods", "team", "p"),
            {"uid": "new"},
            "pod UID (new) does not match service account pod ref claim (pod-uid)",
        ),
        (POD, ("pods", "team", "p"), {"uid": "pod-uid", "deletionTimestamp": LONG_AGO}, GONE),
        (POD, ("nodes", "", "n1"), None, ""),
        (SECRET, ("secrets", "team", "s"), None, GONE),
        (
            SECRET,
            ("secrets", "team", "s"),
            {"uid": "new"},
            "secret UID (new) does not match service account secret ref claim (secret-uid)",
        ),
        (NODE, ("nodes", "", "n1"), None, GONE),
        (
            NODE,
            ("nodes", "", "n1"),
            {"uid": "new"},
            "node UID (new) does not match service account node ref claim (node-uid)",
        ),
    ],
)
def test_a_token_dies_with_what_it_is_bound_to(
    cluster: Cluster,
    bound: BoundObject | None,
    key: tuple[str, str, str],
    change: Obj | None,
    why: str,
) -> None:
    token = cluster.token(bound)
    assert cluster.why_not(token) == ""
    if change is None:
        del cluster.objects[key]
    else:
        cluster.objects[key] = {"metadata": change}
    assert cluster.why_not(token) == why


def test_just_deleted_is_within_the_leeway(cluster: Cluster) -> None:
    cluster.objects["pods", "team", "p"]["metadata"]["deletionTimestamp"] = "2026-11-15T08:01:40Z"
    assert cluster.why_not(cluster.token(POD)) == ""


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        (0, ""),
        (3600 + 59, ""),
        (3600 + 61, "service account token has expired"),
        (-59, ""),
        (-61, "service account token is not valid yet"),
    ],
)
def test_times_with_a_minute_of_leeway(cluster: Cluster, seconds: int, why: str) -> None:
    token = cluster.token()
    cluster.now += seconds
    assert cluster.why_not(token) == why


def test_verified_tokens_are_remembered_for_ten_seconds(cluster: Cluster) -> None:
    header = f"Bearer {cluster.token()}"
    cluster.authenticator.authenticate(header)
    asked = cluster.lookups
    cluster.now += 9
    cluster.authenticator.authenticate(header)
    assert cluster.lookups == asked
    del cluster.objects["serviceaccounts", "team", "default"]
    cluster.now += 2
    with pytest.raises(Unauthorized):
        cluster.authenticator.authenticate(header)


def test_forgotten_tokens_are_verified_anew(cluster: Cluster) -> None:
    header = f"Bearer {cluster.token()}"
    cluster.authenticator.authenticate(header)
    cluster.objects.clear()
    cluster.authenticator.forget_tokens()
    with pytest.raises(Unauthorized):
        cluster.authenticator.authenticate(header)


def test_a_remembered_token_still_expires(cluster: Cluster) -> None:
    header = f"Bearer {cluster.token(expiration=600)}"
    cluster.now += 655
    cluster.authenticator.authenticate(header)
    cluster.now += 6
    with pytest.raises(Unauthorized):
        cluster.authenticator.authenticate(header)


def test_tokens_for_others_do_not_open_the_api(cluster: Cluster) -> None:
    token, _ = cluster.issuer.issue("team", "default", sa_uid="sa-uid", audiences=["vault"])
    with pytest.raises(Unauthorized) as caught:
        cluster.authenticator.authenticate(f"Bearer {token}")
    assert caught.value.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }
    review = cluster.authenticator.token_review({"token": token, "audiences": ["vault"]})
    assert (review["authenticated"], review["audiences"]) == (True, ["vault"])


def test_token_review_for_the_wrong_audience(cluster: Cluster) -> None:
    review = cluster.authenticator.token_review({"token": cluster.token(), "audiences": ["vault"]})
    assert review == {
        "user": {},
        "error": "[invalid bearer token, token audiences "
        '["https://kubernetes.default.svc.cluster.local"] is invalid for the target audiences '
        '["vault"]]',
    }


def forged(change: Callable[[Obj], Obj], key: Signer = SIGNER) -> str:
    return key.sign(change(payload(Cluster().token())))


@pytest.mark.parametrize(
    "token",
    [
        "garbage",
        "a.b.c",
        "",
        "..",
        "eyJhbGciOiJub25lIn0.e30.",
        Cluster().token()[:-4] + "AAAA",
        Cluster().token() + "x",
        forged(lambda claims: claims, Signer(ec.generate_private_key(ec.SECP256R1()))),
        forged(lambda claims: claims | {"iss": "https://elsewhere"}),
        "t\udcff",
    ],
)
def test_tokens_that_are_not_ours(cluster: Cluster, token: str) -> None:
    with pytest.raises(Unauthorized):
        cluster.authenticator.authenticate(f"Bearer {token or '-'}")


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS256"])
def test_algorithm_is_that_of_the_key_not_of_the_header(algorithm: str) -> None:
    _, body, signature = SIGNER.sign({"sub": "x"}).split(".")
    header = base64.urlsafe_b64encode(orjson.dumps({"alg": algorithm})).rstrip(b"=").decode()
    with pytest.raises(JwtError):
        SIGNER.verifier.verify(f"{header}.{body}.{signature}")


def test_rsa_keys_of_another_cluster() -> None:
    signer = Signer(rsa.generate_private_key(public_exponent=65537, key_size=2048))
    issuer = TokenIssuer(SIGNER, verifiers=[signer.verifier])
    lookup = Cluster().lookup
    token = TokenIssuer(signer).issue("team", "default", sa_uid="sa-uid")[0]
    claims = ServiceAccountTokens(issuer, lookup).verify(token)
    assert claims is not None and claims["sub"] == USER
    assert issuer.openid_configuration("https://h:1")["id_token_signing_alg_values_supported"] == [
        "ES256",
        "RS256",
    ]
    jwk = signer.verifier.jwk()
    assert {k: jwk[k] for k in ("use", "kty", "alg", "e")} == {
        "use": "sig",
        "kty": "RSA",
        "alg": "RS256",
        "e": "AQAB",
    }


def test_discovery_documents(cluster: Cluster) -> None:
    assert cluster.issuer.openid_configuration("https://192.0.2.2:6443/") == {
        "issuer": ISSUER,
        "jwks_uri": "https://192.0.2.2:6443/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }
    (key,) = cluster.issuer.jwks()["keys"]
    assert {k: key[k] for k in ("use", "kty", "crv", "alg", "kid")} == {
        "use": "sig",
        "kty": "EC",
        "crv": "P-256",
        "alg": "ES256",
        "kid": SIGNER.verifier.key_id,
    }
    assert len(key["x"]) == len(key["y"]) == 43


def test_key_kinds_that_cannot_sign() -> None:
    with pytest.raises(ValueError, match="secp384r1"):
        Verifier(ec.generate_private_key(ec.SECP384R1()).public_key())


def ask(cluster: Cluster, request: Obj, name: str = "default") -> Obj:
    return token_request(request, "team", name, issuer=cluster.issuer, lookup=cluster.lookup)


def test_token_request(cluster: Cluster) -> None:
    answer = ask(cluster, {"spec": {}})
    token = answer["status"].pop("token")
    assert answer == {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": "default",
            "namespace": "team",
            "uid": "sa-uid",
            "creationTimestamp": "2026-11-15T08:01:50Z",
        },
        "spec": {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None},
        "status": {"expirationTimestamp": "2026-11-15T09:01:50Z"},
    }
    assert cluster.why_not(token) == ""


def bound(kind: str, name: str, **more: str) -> Obj:
    return {"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name, **more}}}


def test_token_request_for_a_pod_tells_its_node(cluster: Cluster) -> None:
    claims = payload(ask(cluster, bound("Pod", "p"))["status"]["token"])["kubernetes.io"]
    assert claims["pod"] == {"name": "p", "uid": "pod-uid"}
    assert claims["node"] == {"name": "n1", "uid": "node-uid"}
    del cluster.objects["nodes", "", "n1"]
    claims = payload(ask(cluster, bound("Pod", "p"))["status"]["token"])["kubernetes.io"]
    assert claims["node"] == {"name": "n1"}


@pytest.mark.parametrize(
    ("request_", "name", "code", "message"),
    [
        (
            {"spec": {"expirationSeconds": 5}},
            "default",
            422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid '
            "value: 5: may not specify a duration less than 10 minutes",
        ),
        (
            {"spec": {"expirationSeconds": 1 << 33}},
            "default",
            422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid '
            "value: 8589934592: may not specify a duration larger than 2^32 seconds",
        ),
        (
            {"metadata": {"name": "zz"}},
            "default",
            422,
            'TokenRequest.authentication.k8s.io "default" is invalid: metadata.name: Invalid '
            'value: "zz": must match the service account name if specified',
        ),
        ({}, "nosuch", 404, 'serviceaccounts "nosuch" not found'),
        (
            bound("ConfigMap", "c"),
            "default",
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (bound("Pod", "nopod"), "default", 404, 'pods "nopod" not found'),
        (
            bound("Secret", "s", uid="wrong"),
            "default",
            409,
            'Operation cannot be fulfilled on Secret "s": the UID in the bound object reference '
            "(wrong) does not match the UID in record. The object might have been deleted and "
            "then recreated",
        ),
        (
            {"metadata": {"uid": "wrong"}},
            "default",
            409,
            'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "default": the '
            "UID in the token request (wrong) does not match the UID of the service account "
            "(sa-uid)",
        ),
        (
            {"spec": {"attestations": {"a": ["b"]}}},
            "default",
            422,
            'TokenRequest.authentication.k8s.io "" is invalid: spec.attestations: Invalid value: '
            '{"a":["b"]}: attestations may only be specified with a webhook bound object reference',
        ),
    ],
    ids=[
        "too short",
        "too long",
        "other name",
        "no account",
        "configmap",
        "no pod",
        "other secret",
        "other account",
        "attestations",
    ],
)
def test_token_request_refusals(
    cluster: Cluster, request_: Obj, name: str, code: int, message: str
) -> None:
    with pytest.raises(ApiError) as caught:
        ask(cluster, request_, name)
    assert (caught.value.status_code, caught.value.message) == (code, message)


def test_token_request_for_a_pod_of_another_account(cluster: Cluster) -> None:
    cluster.objects["pods", "team", "p"]["spec"]["serviceAccountName"] = "other"
    with pytest.raises(BadRequest) as caught:
        ask(cluster, bound("Pod", "p"))
    assert caught.value.message == (
        'cannot bind token for serviceaccount "default" to pod running with different '
        "serviceaccount name."
    )


def kept_token(cluster: Cluster) -> str:
    token = cluster.issuer.issue_for_secret("team", "default", sa_uid="sa-uid", secret="s")
    data = {"token": base64.b64encode(token.encode()).decode()}
    cluster.objects["secrets", "team", "s"] = {"metadata": {"uid": "secret-uid"}, "data": data}
    return token


def test_token_kept_in_a_secret(cluster: Cluster) -> None:
    token = kept_token(cluster)
    assert payload(token) == {
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": "team",
        "kubernetes.io/serviceaccount/secret.name": "s",
        "kubernetes.io/serviceaccount/service-account.name": "default",
        "kubernetes.io/serviceaccount/service-account.uid": "sa-uid",
        "sub": USER,
    }
    cluster.now += 10 * 365 * 24 * 3600
    assert cluster.authenticator.authenticate(f"Bearer {token}").name == USER


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("secrets", None, "Token has been invalidated"),
        (
            "secrets",
            {"metadata": {}, "data": {"token": "eA=="}},
            "Token does not match server's copy",
        ),
        ("serviceaccounts", None, 'serviceaccounts "default" not found'),
        (
            "serviceaccounts",
            {"metadata": {"uid": "new"}},
            "ServiceAccount UID (new) does not match claim (sa-uid)",
        ),
        (
            "serviceaccounts",
            {"metadata": {"deletionTimestamp": LONG_AGO}},
            "ServiceAccount team/default has been deleted",
        ),
    ],
)
def test_token_kept_in_a_secret_dies(
    cluster: Cluster, key: str, value: Obj | None, why: str
) -> None:
    token = kept_token(cluster)
    name = (key, "team", "s" if key == "secrets" else "default")
    if value is None:
        del cluster.objects[name]
    else:
        cluster.objects[name] = value
    assert cluster.why_not(token) == why


def test_token_kept_in_a_secret_marked_invalid(cluster: Cluster) -> None:
    token = kept_token(cluster)
    meta = cluster.objects["secrets", "team", "s"]["metadata"]
    meta["labels"] = {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}
    assert cluster.why_not(token).startswith(
        "the token in secret team/s for service account team/default has been marked invalid."
    )
