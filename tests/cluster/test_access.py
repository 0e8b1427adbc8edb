"""Who may do what: authentication, impersonation, RBAC, reviews, tokens."""

from __future__ import annotations

import base64
import ssl
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.backends import Backend
from tests.backends.base import Reply
from tests.cluster.objects import Obj, Objects, eventually

RBAC = "rbac.authorization.k8s.io/v1"
ROOT = f"/apis/{RBAC}"


class As:
    """Requests in somebody else's name."""

    def __init__(self, backend: Backend, user: str, *groups: str, **headers: str) -> None:
        self.backend = backend
        self.user = user
        self.headers = {"Impersonate-User": user, **headers}
        if groups:
            self.headers["Impersonate-Group"] = groups[0]

    def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> Reply:
        return self.backend.request(method, path, body, headers=self.headers, **more)

    def can(self, verb: str, resource: str, namespace: str = "", **more: str) -> bool:
        attributes = {"verb": verb, "resource": resource, "namespace": namespace, **more}
        review = {
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {k: v for k, v in attributes.items() if v}},
        }  # fmt: skip
        reply = self("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        assert reply.code == 201, reply.body
        return bool(reply.json()["status"]["allowed"])


def role(name: str, *rules: Obj) -> Obj:
    return {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": name}, "rules": list(rules)}


def rule(verbs: str, resources: str, group: str = "", names: str = "") -> Obj:
    made: Obj = {
        "apiGroups": [group], "resources": resources.split(","), "verbs": verbs.split(","),
    }  # fmt: skip
    return made | ({"resourceNames": names.split(",")} if names else {})


def binding(name: str, ref: str, *subjects: str, kind: str = "Role") -> Obj:
    """Subjects are ``User:ann``, ``Group:devs`` or ``ServiceAccount:ns/name``."""
    return {
        "apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": ref},
        "subjects": [subject(s) for s in subjects],
    }  # fmt: skip


def subject(text: str) -> Obj:
    kind, _, name = text.partition(":")
    if kind == "ServiceAccount":
        namespace, _, name = name.partition("/")
        return {"kind": kind, "namespace": namespace, "name": name}
    return {"kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io"}


def may(check: Any) -> None:
    """RBAC follows its objects; the real server takes a moment."""
    eventually(check)


# -- authentication -----------------------------------------------------------------------------


def test_no_or_wrong_credentials(backend: Backend) -> None:
    wrong = backend.request("GET", "/api/v1/namespaces", token="wrong")
    assert wrong.code == 401
    assert wrong.json()["reason"] == "Unauthorized" and wrong.json()["message"] == "Unauthorized"
    anonymous = backend.request("GET", "/api/v1/namespaces", token="")
    assert anonymous.code == 403
    assert anonymous.json()["message"] == (
        'namespaces is forbidden: User "system:anonymous" cannot list resource "namespaces" in '
        'API group "" at the cluster scope'
    )
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert backend.request("GET", path, token="").code == 200


def test_static_token(backend: Backend) -> None:
    reply = backend.request("GET", "/api/v1/namespaces/default/pods", token="nobody-token")
    assert reply.code == 403
    assert reply.json()["message"] == (
        'pods is forbidden: User "nobody" cannot list resource "pods" in API group "" in the '
        'namespace "default"'
    )
    review = whoami(backend, token="nobody-token")
    assert review == {
        "username": "nobody", "uid": "nobody", "groups": ["system:authenticated"],
    }  # fmt: skip


def whoami(backend: Backend, **more: Any) -> Obj:
    reply = backend.request(
        "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, **more,
    )  # fmt: skip
    assert reply.code == 201, reply.body
    user: Obj = reply.json()["status"]["userInfo"]
    return {k: v for k, v in user.items() if k != "extra"}


@pytest.fixture
def issue(backend: Backend, tmp_path: Path) -> Any:
    """Makes a TLS context of a client certificate from the server's own authority."""
    if backend.name != "embedded":
        pytest.skip("only the embedded server's authority is at hand")
    pki = Path(backend.ca_file).parent
    authority = x509.load_pem_x509_certificate((pki / "ca.crt").read_bytes())
    signing = serialization.load_pem_private_key((pki / "ca.key").read_bytes(), None)

    def make(*subject: tuple[x509.ObjectIdentifier, str], days: int = 1) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(*part) for part in subject]))
            .issuer_name(authority.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(signing, hashes.SHA256())  # type: ignore[arg-type]
        )
        both = tmp_path / "client.pem"
        both.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = ssl.create_default_context(cafile=backend.ca_file)
        context.load_cert_chain(both)
        return context

    return make


def with_certificate(backend: Backend, context: ssl.SSLContext) -> tuple[int, Obj]:
    body = orjson.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    request = urllib.request.Request(
        backend.server + "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        data=body, headers={"Content-Type": "application/json"},
    )  # fmt: skip
    try:
        with urllib.request.urlopen(request, context=context, timeout=10) as answer:
            return answer.status, orjson.loads(answer.read())
    except urllib.error.HTTPError as err:
        with err:
            return err.code, orjson.loads(err.read())


def test_client_certificate(backend: Backend, issue: Any) -> None:
    context = issue(
        (NameOID.COMMON_NAME, "ann"), (NameOID.ORGANIZATION_NAME, "devs"),
        (NameOID.ORGANIZATION_NAME, "ops"),
    )  # fmt: skip
    code, answer = with_certificate(backend, context)
    assert code == 201
    user = answer["status"]["userInfo"]
    assert user["username"] == "ann"
    assert sorted(user["groups"]) == ["devs", "ops", "system:authenticated"]


def test_expired_client_certificate(backend: Backend, issue: Any) -> None:
    context = issue((NameOID.COMMON_NAME, "ann"), days=-1)
    try:
        code, _ = with_certificate(backend, context)
    except (OSError, urllib.error.URLError):
        return  # refused in the handshake
    assert code == 401


# -- impersonation --------------------------------------------------------------------------------


def test_impersonated_user_with_groups_and_extra(backend: Backend) -> None:
    ann = As(
        backend, "ann", "devs",
        **{"Impersonate-Uid": "u-1", "Impersonate-Extra-Scopes": "view"},
    )  # fmt: skip
    reply = ann(
        "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )  # fmt: skip
    assert reply.json()["status"]["userInfo"] == {
        "username": "ann", "uid": "u-1", "groups": ["devs", "system:authenticated"],
        "extra": {"scopes": ["view"]},
    }  # fmt: skip


def test_impersonated_service_account_gets_its_groups(backend: Backend) -> None:
    who = whoami(backend, headers={"Impersonate-User": "system:serviceaccount:default:default"})
    assert who["groups"] == [
        "system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated",
    ]  # fmt: skip


def test_impersonation_needs_permission(backend: Backend) -> None:
    reply = backend.request(
        "GET", "/api/v1/namespaces", token="nobody-token", headers={"Impersonate-User": "ann"}
    )
    assert reply.code == 403
    assert reply.json()["message"] == (
        'namespaces is forbidden: User "nobody" cannot impersonate-on:user-info:list resource '
        '"namespaces" in API group "" at the cluster scope'
    )


def test_group_without_user_cannot_be_impersonated(backend: Backend) -> None:
    reply = backend.request("GET", "/version", headers={"Impersonate-Group": "devs"})
    assert reply.code == 400
    assert "without impersonating a user" in reply.json()["message"]


# -- RBAC -----------------------------------------------------------------------------------------


def test_role_gives_what_it_names_and_no_more(backend: Backend, objects: Objects) -> None:
    namespace = objects.namespace
    ann = As(backend, f"ann-{namespace}")
    objects.create("roles", role("reader", rule("get,list", "configmaps")))
    objects.create("rolebindings", binding("ann", "reader", f"User:{ann.user}"))
    may(lambda: ann.can("list", "configmaps", namespace))
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert ann("GET", path).code == 200
    refused = ann("POST", path, {"metadata": {"name": "x"}})
    assert refused.code == 403
    assert refused.json()["message"] == (
        f'configmaps is forbidden: User "{ann.user}" cannot create resource "configmaps" in API '
        f'group "" in the namespace "{namespace}"'
    )
    assert refused.json()["details"] == {"kind": "configmaps"}
    assert ann("GET", path + "?watch=1&timeoutSeconds=1").code == 403
    assert ann("GET", "/api/v1/namespaces/default/configmaps").code == 403
    assert ann("GET", "/api/v1/configmaps").code == 403
    assert ann("GET", f"/api/v1/namespaces/{namespace}/secrets").code == 403
    objects.delete(RBAC, "rolebindings", "ann")
    may(lambda: ann("GET", path).code == 403)


def test_resource_names_and_subresources(backend: Backend, objects: Objects) -> None:
    namespace = objects.namespace
    ann = As(backend, f"ann-{namespace}")
    objects.create(
        "roles",
        role(
            "some", rule("get", "configmaps", names="one"), rule("patch", "pods/status"),
            rule("get", "*/scale", "apps"),
        ),
    )  # fmt: skip
    objects.create("rolebindings", binding("some", "some", f"User:{ann.user}"))
    may(lambda: ann.can("get", "configmaps", namespace, name="one"))
    assert not ann.can("get", "configmaps", namespace, name="two")
    assert not ann.can("get", "configmaps", namespace)
    assert ann.can("patch", "pods", namespace, subresource="status")
    assert not ann.can("patch", "pods", namespace)
    assert ann.can("get", "deployments", namespace, group="apps", subresource="scale")
    assert not ann.can("get", "deployments", namespace, group="apps")
    one = f"/api/v1/namespaces/{namespace}/configmaps/one"
    assert ann("GET", one).code == 404 and ann("GET", one[:-3] + "two").code == 403


def test_list_of_one_name_is_allowed_by_name(backend: Backend, objects: Objects) -> None:
    """What a client does that watches the one object it may read."""
    namespace = objects.namespace
    ann = As(backend, f"ann-{namespace}")
    objects.create("roles", role("one", rule("get,list,watch", "configmaps", names="one")))
    objects.create("rolebindings", binding("one", "one", f"User:{ann.user}"))
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    may(lambda: ann("GET", path + "?fieldSelector=metadata.name%3Done").code == 200)
    watched = ann("GET", path + "?fieldSelector=metadata.name%3Done&watch=1&timeoutSeconds=1")
    assert watched.code == 200
    assert ann("GET", path + "?fieldSelector=metadata.name%3Dtwo").code == 403
    assert ann("GET", path + "?fieldSelector=metadata.name!%3Done").code == 403
    assert ann("GET", path).code == 403


@pytest.mark.parametrize("who", ["Group", "ServiceAccount"])
def test_groups_and_accounts_as_subjects(backend: Backend, objects: Objects, who: str) -> None:
    namespace = objects.namespace
    if who == "Group":
        caller = As(backend, "ann", f"devs-{namespace}")
        bound = f"Group:devs-{namespace}"
    else:
        caller = As(backend, f"system:serviceaccount:{namespace}:builder")
        bound = f"ServiceAccount:{namespace}/builder"
    objects.create("rolebindings", binding("b", "view", bound, kind="ClusterRole"))
    may(lambda: caller.can("list", "pods", namespace))
    assert not caller.can("list", "secrets", namespace)
    assert not caller.can("list", "pods", "default")


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("view", ["get pods", "watch deployments.apps"], ["create pods", "get secrets", "get roles.rbac.authorization.k8s.io"]),  # noqa: E501
        ("edit", ["create pods", "get secrets", "create pods/exec", "patch deployments.apps"], ["create roles.rbac.authorization.k8s.io", "update resourcequotas"]),  # noqa: E501
        ("admin", ["create roles.rbac.authorization.k8s.io", "create localsubjectaccessreviews.authorization.k8s.io"], ["update resourcequotas", "delete namespaces"]),  # noqa: E501
        ("cluster-admin", ["delete namespaces", "anything things.example.test"], []),
    ],
)  # fmt: skip
def test_default_roles(
    backend: Backend, objects: Objects, name: str, allowed: list[str], refused: list[str]
) -> None:
    namespace = objects.namespace
    ann = As(backend, f"{name}-{namespace}")
    objects.create("rolebindings", binding("b", name, f"User:{ann.user}", kind="ClusterRole"))

    def can(text: str) -> bool:
        verb, _, what = text.partition(" ")
        path, _, group = what.partition(".")
        resource, _, sub = path.partition("/")
        return ann.can(verb, resource, namespace, group=group, subresource=sub)

    may(lambda: can(allowed[0]))
    assert [text for text in allowed if not can(text)] == []
    assert [text for text in refused if can(text)] == []


def test_everybody_may_discover_and_review_themselves(backend: Backend) -> None:
    nobody = As(backend, "somebody-new")
    for path in ("/api", "/apis", "/openapi/v2", "/version"):
        assert nobody("GET", path).code == 200
    assert not nobody.can("list", "pods")
    assert nobody("GET", "/metrics").code == 403


def test_escalation_is_refused(backend: Backend, objects: Objects) -> None:
    namespace = objects.namespace
    ann = As(backend, f"ann-{namespace}")
    objects.create(
        "roles",
        role(
            "maker", rule("create", "roles,rolebindings", "rbac.authorization.k8s.io"),
            rule("get", "pods"),
        ),
    )  # fmt: skip
    objects.create("rolebindings", binding("maker", "maker", f"User:{ann.user}"))
    may(lambda: ann.can("create", "roles", namespace, group="rbac.authorization.k8s.io"))
    roles = f"{ROOT}/namespaces/{namespace}/roles"
    assert ann("POST", roles, role("same", rule("get", "pods"))).code == 201
    refused = ann("POST", roles, role("more", rule("get,delete", "pods")))
    assert refused.code == 403
    assert refused.json()["message"].startswith(
        f'roles.rbac.authorization.k8s.io "more" is forbidden: user "{ann.user}" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently '
        "held:"
    )
    assert '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}' in refused.json()["message"]
    bindings = f"{ROOT}/namespaces/{namespace}/rolebindings"
    bound = ann("POST", bindings, binding("up", "admin", f"User:{ann.user}", kind="ClusterRole"))
    assert bound.code == 403
    assert "is attempting to grant RBAC permissions not currently held" in bound.json()["message"]
    assert ann("POST", bindings, binding("ok", "same", "User:bob")).code == 201


def test_bind_and_escalate_verbs(backend: Backend, objects: Objects) -> None:
    namespace = objects.namespace
    ann = As(backend, f"ann-{namespace}")
    group = "rbac.authorization.k8s.io"
    objects.create(
        "roles",
        role(
            "maker", rule("create", "roles,rolebindings", group), rule("escalate", "roles", group),
            rule("bind", "clusterroles", group, names="view"),
        ),
    )  # fmt: skip
    objects.create("rolebindings", binding("maker", "maker", f"User:{ann.user}"))
    may(lambda: ann.can("escalate", "roles", namespace, group=group))
    roles = f"{ROOT}/namespaces/{namespace}/roles"
    assert ann("POST", roles, role("more", rule("delete", "pods"))).code == 201
    bindings = f"{ROOT}/namespaces/{namespace}/rolebindings"
    view = binding("v", "view", "User:bob", kind="ClusterRole")
    edit = binding("e", "edit", "User:bob", kind="ClusterRole")
    assert ann("POST", bindings, view).code == 201
    assert ann("POST", bindings, edit).code == 403


def test_role_reference_cannot_change(objects: Objects) -> None:
    objects.create("rolebindings", binding("b", "view", "User:bob", kind="ClusterRole"))
    path = objects.path(RBAC, "rolebindings", "b")
    reply = objects.backend.request(
        "PATCH", path, {"roleRef": {"name": "edit"}}, content_type="application/merge-patch+json"
    )
    assert reply.code == 422
    assert [c["field"] for c in reply.json()["details"]["causes"]] == ["roleRef"]
    assert reply.json()["message"].endswith("field is immutable")


# -- reviews ------------------------------------------------------------------------------------


def test_subject_access_review(backend: Backend, objects: Objects) -> None:
    namespace = objects.namespace
    objects.create(
        "rolebindings", binding("b", "view", f"Group:devs-{namespace}", kind="ClusterRole")
    )
    spec = {
        "user": "ann", "groups": [f"devs-{namespace}"],
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": namespace},
    }  # fmt: skip
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

    def status() -> Obj:
        reply = backend.request("POST", path, review)
        assert reply.code == 201, reply.body
        found: Obj = reply.json()["status"]
        return found

    may(lambda: status()["allowed"])
    assert status()["reason"] == (
        f'RBAC: allowed by RoleBinding "b/{namespace}" of ClusterRole "view" to Group '
        f'"devs-{namespace}"'
    )
    spec["groups"] = []
    assert status() == {"allowed": False} or status()["allowed"] is False
    del spec["resourceAttributes"]
    spec["nonResourceAttributes"] = {"path": "/version", "verb": "get"}
    spec["groups"] = ["system:authenticated"]
    assert status()["allowed"] is True
    del spec["user"]
    spec["groups"] = []
    assert backend.request("POST", path, review).code == 422


def test_local_subject_access_review(backend: Backend, objects: Objects) -> None:
    namespace = objects.namespace
    path = f"/apis/authorization.k8s.io/v1/namespaces/{namespace}/localsubjectaccessreviews"
    attributes = {"verb": "get", "resource": "pods", "namespace": namespace}
    review = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview",
        "metadata": {"namespace": namespace},
        "spec": {"user": "ann", "resourceAttributes": attributes},
    }  # fmt: skip
    reply = backend.request("POST", path, review)
    assert reply.code == 201 and reply.json()["status"]["allowed"] is False
    attributes["namespace"] = "default"
    assert backend.request("POST", path, review).code == 422


def test_rules_review(backend: Backend, objects: Objects) -> None:
    namespace = objects.namespace
    ann = As(backend, f"ann-{namespace}")
    objects.create("roles", role("r", rule("get", "configmaps", names="one")))
    objects.create("rolebindings", binding("b", "r", f"User:{ann.user}"))
    review = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }  # fmt: skip
    wanted = {
        "verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"],
    }  # fmt: skip

    def listed() -> bool:
        reply = ann("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)
        assert reply.code == 201, reply.body
        status = reply.json()["status"]
        assert any("/version" in r["nonResourceURLs"] for r in status["nonResourceRules"])
        return wanted in status["resourceRules"]

    may(listed)


# -- tokens of service accounts -------------------------------------------------------------------


def claims(token: str) -> Obj:
    part = token.split(".")[1]
    found: Obj = orjson.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def ask_token(objects: Objects, account: str = "default", **spec: Any) -> Reply:
    path = objects.path("v1", "serviceaccounts", f"{account}/token")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return objects.backend.request("POST", path, body)


def token(objects: Objects, account: str = "default", **spec: Any) -> str:
    reply = ask_token(objects, account, **spec)
    assert reply.code == 201, reply.body
    made: str = reply.json()["status"]["token"]
    return made


def review_token(backend: Backend, made: str, *audiences: str) -> Obj:
    spec = {"token": made} | ({"audiences": list(audiences)} if audiences else {})
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    reply = backend.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)
    assert reply.code == 201, reply.body
    status: Obj = reply.json()["status"]
    return status


def test_token_of_a_service_account(backend: Backend, objects: Objects) -> None:
    namespace = objects.namespace
    reply = ask_token(objects, expirationSeconds=600)
    status = reply.json()["status"]
    expires = datetime.fromisoformat(status["expirationTimestamp"])
    assert 500 < (expires - datetime.now(UTC)).total_seconds() <= 601
    made = status["token"]
    found = claims(made)
    account = objects.get("v1", "serviceaccounts", "default")
    assert found["sub"] == f"system:serviceaccount:{namespace}:default"
    assert found["kubernetes.io"]["namespace"] == namespace
    assert found["kubernetes.io"]["serviceaccount"] == {
        "name": "default", "uid": account["metadata"]["uid"],
    }  # fmt: skip
    who = whoami(backend, token=made)
    assert who["username"] == f"system:serviceaccount:{namespace}:default"
    assert who["groups"] == [
        "system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated",
    ]  # fmt: skip
    refused = backend.request("GET", objects.path("v1", "pods"), token=made)
    assert refused.code == 403
    review = review_token(backend, made)
    assert review["authenticated"] is True
    assert review["user"]["uid"] == account["metadata"]["uid"]


def test_tokens_die_with_what_they_are_bound_to(backend: Backend, objects: Objects) -> None:
    """One case for account, pod and secret: servers may remember a good token for seconds."""
    spec = {"containers": [{"name": "main", "image": "example.test/a:1"}]}
    anchors = {
        "Pod": objects.create("pods", {**_named("Pod", "anchor"), "spec": spec}),
        "Secret": objects.create("secrets", _named("Secret", "anchor")),
    }
    objects.create("serviceaccounts", _named("ServiceAccount", "extra"))
    tokens = [token(objects, account="extra")]
    for kind, made in anchors.items():
        reference = {"apiVersion": "v1", "kind": kind, "name": "anchor"}
        wrong = ask_token(objects, boundObjectRef={**reference, "uid": "other"})
        assert wrong.code == 409, wrong.body
        bound = token(objects, boundObjectRef={**reference, "uid": made["metadata"]["uid"]})
        assert claims(bound)["kubernetes.io"][kind.lower()]["name"] == "anchor"
        tokens.append(bound)
    assert [backend.request("GET", "/api", token=t).code for t in tokens] == [200, 200, 200]
    objects.delete("v1", "serviceaccounts", "extra")
    objects.delete("v1", "secrets", "anchor")
    path = objects.path("v1", "pods", "anchor")
    backend.request("DELETE", path, {"gracePeriodSeconds": 0})
    for dead in tokens:
        eventually(lambda t=dead: backend.request("GET", "/api", token=t).code == 401)
        assert review_token(backend, dead).get("authenticated") is not True


def _named(kind: str, name: str) -> Obj:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


def test_token_for_somebody_else_is_no_key_here(backend: Backend, objects: Objects) -> None:
    made = token(objects, audiences=["vault"])
    assert claims(made)["aud"] == ["vault"]
    assert backend.request("GET", "/api", token=made).code == 401
    assert review_token(backend, made).get("authenticated") is not True
    elsewhere = review_token(backend, made, "vault", "other")
    assert elsewhere["authenticated"] is True and elsewhere["audiences"] == ["vault"]


def test_tampered_token(backend: Backend, objects: Objects) -> None:
    head, body, signature = token(objects).split(".")
    changed = claims(f".{body}.") | {"sub": "system:serviceaccount:kube-system:default"}
    forged = base64.urlsafe_b64encode(orjson.dumps(changed)).decode().rstrip("=")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    for bad in (f"{head}.{forged}.{signature}", f"{none}.{forged}.", f"{head}.{body}."):
        assert backend.request("GET", "/api", token=bad).code == 401


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"expirationSeconds": 599}, "spec.expirationSeconds"),
        ({"expirationSeconds": 2**32 + 1}, "spec.expirationSeconds"),
    ],
)
def test_token_life_has_bounds(objects: Objects, spec: Obj, field: str) -> None:
    reply = ask_token(objects, **spec)
    assert reply.code == 422
    assert [c["field"] for c in reply.json()["details"]["causes"]] == [field]


def test_token_of_nobody(objects: Objects) -> None:
    path = objects.path("v1", "serviceaccounts", "ghost/token")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    reply = objects.backend.request("POST", path, body)
    assert reply.code == 404
    assert reply.json()["message"] == 'serviceaccounts "ghost" not found'


def test_token_in_a_secret(backend: Backend, objects: Objects) -> None:
    objects.create(
        "secrets",
        {
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {
                "name": "lasting", "annotations": {"kubernetes.io/service-account.name": "default"},
            },
        },
    )  # fmt: skip

    def filled() -> Obj | None:
        data: Obj = objects.get("v1", "secrets", "lasting").get("data") or {}
        return data if "token" in data else None

    data = eventually(filled)
    assert set(data) == {"ca.crt", "namespace", "token"}
    made = base64.b64decode(data["token"]).decode()
    assert whoami(backend, token=made)["username"] == (
        f"system:serviceaccount:{objects.namespace}:default"
    )


def test_wrong_token_in_a_review(backend: Backend) -> None:
    status = review_token(backend, "nonsense")
    assert status.get("authenticated") is not True and status["error"]


# -- nodes ----------------------------------------------------------------------------------------


def test_node_sees_what_its_pods_use(backend: Backend, objects: Objects) -> None:
    namespace = objects.namespace
    for name in ("used", "unused"):
        objects.create(
            "secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        )
    objects.create(
        "pods",
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {
                "nodeName": "n1",
                "containers": [
                    {
                        "name": "main", "image": "example.test/a:1",
                        "envFrom": [{"secretRef": {"name": "used"}}],
                    }
                ],
            },
        },
    )  # fmt: skip
    secrets = f"/api/v1/namespaces/{namespace}/secrets"

    def node(method: str, path: str, body: Any = None) -> Reply:
        return backend.request(method, path, body, token="node-token")

    eventually(lambda: node("GET", f"{secrets}/used").code == 200)
    assert node("GET", f"{secrets}/unused").code == 403
    assert node("GET", secrets).code == 403
    assert node("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1").code == 200
    assert node("GET", f"/api/v1/namespaces/{namespace}/pods/p").code == 200
    assert node("DELETE", "/api/v1/nodes/n1").code in (403, 404)
    own = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    other = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}}
    try:
        assert node("POST", "/api/v1/nodes", own).code in (201, 409)
        assert node("POST", "/api/v1/nodes", other).code in (201, 403)
        status = {"status": {"phase": "Running"}}
        reply = backend.request(
            "PATCH", f"/api/v1/namespaces/{namespace}/pods/p/status", status,
            content_type="application/merge-patch+json", token="node-token",
        )  # fmt: skip
        assert reply.code == 200, reply.body
    finally:
        backend.request("DELETE", "/api/v1/nodes/n1")
        backend.request("DELETE", "/api/v1/nodes/n2")


def test_clock_of_tokens(objects: Objects) -> None:
    found = claims(token(objects, expirationSeconds=3600))
    assert found["exp"] - found["iat"] == 3600
    assert abs(found["iat"] - time.time()) < 60 and found["nbf"] == found["iat"]
