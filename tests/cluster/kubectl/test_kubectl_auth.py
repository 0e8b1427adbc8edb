"""Who may do what: `auth`, tokens, impersonation, and certificate requests."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.cluster import manifests
from tests.cluster.kubectl.runner import Kubectl
from tests.cluster.objects import Objects, eventually


@pytest.fixture
def reader(kubectl: Kubectl) -> str:
    """A service account that may read pods and nothing else; its user name."""
    kubectl("create", "serviceaccount", "reader")
    kubectl("create", "role", "reads", "--verb=get,list", "--resource=pods")
    account = f"{kubectl.namespace}:reader"
    kubectl("create", "rolebinding", "reads", "--role=reads", f"--serviceaccount={account}")
    return f"system:serviceaccount:{account}"


def allowed(kubectl: Kubectl, *argv: str) -> None:
    """Wait until a right is there: bindings reach the authorizer a moment after they are stored."""

    def asked() -> bool:
        return kubectl.run("auth", "can-i", "-q", *argv).code == 0

    eventually(asked)


def test_can_i_of_the_admin(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods").out == "yes\n"
    assert kubectl("auth", "can-i", "*", "*", "--all-namespaces").out == "yes\n"
    assert kubectl("auth", "can-i", "get", "/metrics").out == "yes\n"
    unknown = kubectl("auth", "can-i", "list", "nonsense")
    assert "the server doesn't have a resource type 'nonsense'" in unknown.err


def test_can_i_of_others(kubectl: Kubectl, reader: str) -> None:
    allowed(kubectl, "list", "pods", f"--as={reader}")
    assert kubectl("auth", "can-i", "get", "pods/one", f"--as={reader}").out == "yes\n"
    assert (
        kubectl("auth", "can-i", "get", "pods", "--subresource=log", f"--as={reader}", code=1).out
        == "no\n"
    )
    assert kubectl("auth", "can-i", "delete", "pods", f"--as={reader}", code=1).out == "no\n"
    assert (
        kubectl("auth", "can-i", "list", "pods", f"--as={reader}", "-n", "default", code=1).out
        == "no\n"
    )
    assert kubectl(
        "auth", "can-i", "list", "pods", "--as=ann", "--as-group=system:masters"
    ).out == ("yes\n")
    assert kubectl("auth", "can-i", "get", "/healthz", "--as=ann").out == "yes\n"


def test_can_i_list(kubectl: Kubectl, reader: str) -> None:
    allowed(kubectl, "list", "pods", f"--as={reader}")
    rows = kubectl("auth", "can-i", "--list", f"--as={reader}").rows
    assert rows[0] == ["Resources", "Non-Resource", "URLs", "Resource", "Names", "Verbs"]
    assert ["pods", "[]", "[]", "[get", "list]"] in rows
    assert ["selfsubjectreviews.authentication.k8s.io", "[]", "[]", "[create]"] in rows
    everything = kubectl("auth", "can-i", "--list").rows
    assert ["*.*", "[]", "[]", "[*]"] in everything and ["[*]", "[]", "[*]"] in everything


def test_whoami(kubectl: Kubectl) -> None:
    review = kubectl.json("auth", "whoami")
    assert review["status"]["userInfo"]["username"] == "admin"
    assert review["status"]["userInfo"]["groups"] == ["system:masters", "system:authenticated"]
    rows = kubectl("auth", "whoami", "--as=ann", "--as-group=team").rows
    assert ["Username", "ann"] in rows
    assert ["Groups", "[team", "system:authenticated]"] in rows


def test_forbidden(kubectl: Kubectl, reader: str) -> None:
    allowed(kubectl, "list", "pods", f"--as={reader}")
    assert kubectl("get", "pods", f"--as={reader}").out == ""
    refused = kubectl.fails("get", "secrets", f"--as={reader}")
    assert refused == (
        f'Error from server (Forbidden): secrets is forbidden: User "{reader}" cannot list '
        f'resource "secrets" in API group "" in the namespace "{kubectl.namespace}"\n'
    )
    refused = kubectl.fails("create", "deployment", "d", "--image=i", f"--as={reader}")
    assert 'cannot create resource "deployments" in API group "apps"' in refused
    refused = kubectl.fails("get", "nodes", "--as=ann")
    assert 'cannot list resource "nodes" in API group "" at the cluster scope' in refused


def test_tokens(kubectl: Kubectl, objects: Objects, reader: str, tmp_path: Path) -> None:
    allowed(kubectl, "list", "pods", f"--as={reader}")
    token = kubectl(
        "create",
        "token",
        "reader",
        "--duration=20m",
        "--audience=https://kubernetes.default.svc.cluster.local",
    ).out.strip()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == reader and claims["exp"] - claims["iat"] == 1200
    config = yaml.safe_load(Path(kubectl.kubeconfig).read_text())
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "config").write_text(json.dumps(config))
    account = replace(kubectl, kubeconfig=str(tmp_path / "config"))
    whoami = account.json("auth", "whoami")["status"]["userInfo"]
    assert whoami["username"] == reader
    assert set(whoami["groups"]) == {
        "system:serviceaccounts",
        f"system:serviceaccounts:{kubectl.namespace}",
        "system:authenticated",
    }
    assert account("get", "pods").out == ""
    assert "(Forbidden)" in account.fails("get", "cm")


def test_tokens_of_an_account_that_is_gone(kubectl: Kubectl, objects: Objects) -> None:
    kubectl("create", "serviceaccount", "gone")
    token = kubectl("create", "token", "gone").out.strip()
    kubectl("delete", "serviceaccount", "gone")
    path = objects.path("v1", "pods")
    reply = eventually(lambda: unauthorized(objects, path, token))
    assert "(Unauthorized)" in kubectl.fails("get", "pods", f"--token={token}") and reply


def test_tokens_bound_to_a_pod(kubectl: Kubectl, objects: Objects) -> None:
    pod = objects.create("pods", manifests.pod("one"))
    uid = pod["metadata"]["uid"]
    token = kubectl(
        "create", "token", "default", "--bound-object-kind=Pod", "--bound-object-name=one"
    ).out
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["kubernetes.io"]["pod"] == {"name": "one", "uid": uid}
    assert claims["aud"] == ["https://kubernetes.default.svc.cluster.local"]
    assert 'serviceaccounts "none" not found' in kubectl.fails("create", "token", "none")


def test_wrong_tokens(kubectl: Kubectl) -> None:
    assert "You must be logged in to the server" in kubectl.fails("get", "pods", "--token=nonsense")


def unauthorized(objects: Objects, path: str, token: str) -> bool:
    return objects.backend.request("GET", path, token=token).code == 401


def test_reconcile(kubectl: Kubectl, objects: Objects) -> None:
    api_version = "rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    role = manifests.obj(api_version, "Role", "r", rules=[rule])
    role["metadata"]["namespace"] = kubectl.namespace
    said = kubectl("auth", "reconcile", "-f", "-", stdin=role).out
    assert "role.rbac.authorization.k8s.io/r reconciled" in said
    more = role | {"rules": [rule | {"verbs": ["get", "watch"]}]}
    kubectl("auth", "reconcile", "-f", "-", stdin=more)
    rules = objects.get(api_version, "roles", "r")["rules"]
    assert {verb for entry in rules for verb in entry["verbs"]} == {"get", "watch"}
    kubectl("auth", "reconcile", "-f", "-", "--remove-extra-permissions", stdin=role)
    rules = objects.get(api_version, "roles", "r")["rules"]
    assert {verb for entry in rules for verb in entry["verbs"]} == {"get"}


def test_nobody_gives_more_than_they_have(kubectl: Kubectl, reader: str) -> None:
    kubectl("create", "role", "editor", "--verb=create", "--resource=roles")
    kubectl("create", "rolebinding", "editor", "--role=editor", "--user=ann")
    allowed(kubectl, "create", "roles", "--as=ann")
    refused = kubectl.fails(
        "create", "role", "more", "--verb=get", "--resource=secrets", "--as=ann"
    )
    assert (
        'user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions'
        in refused
    )
    assert '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}' in refused


@pytest.fixture
def signing_request(cluster: Objects, unique: str) -> Iterator[str]:
    """A request to a signer that does not exist, so that nobody but the case decides."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ann")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    pem = request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    spec = {
        "request": base64.b64encode(pem).decode(),
        "signerName": "example.test/nobody",
        "usages": ["client auth"],
    }
    name = f"csr-{unique}"
    cluster.create(
        "certificatesigningrequests",
        manifests.obj("certificates.k8s.io/v1", "CertificateSigningRequest", name, spec=spec),
    )
    yield name
    cluster.delete("certificates.k8s.io/v1", "certificatesigningrequests", name)


@pytest.mark.parametrize(("verb", "condition"), [("approve", "Approved"), ("deny", "Denied")])
def test_certificate(
    admin: Kubectl, cluster: Objects, signing_request: str, verb: str, condition: str
) -> None:
    rows = admin("get", "csr", signing_request).rows
    assert rows[0] == ["NAME", "AGE", "SIGNERNAME", "REQUESTOR", "REQUESTEDDURATION", "CONDITION"]
    assert rows[1][2:] == ["example.test/nobody", "admin", "<none>", "Pending"]
    said = admin("certificate", verb, signing_request)
    word = {"approve": "approved", "deny": "denied"}[verb]
    assert said.out == f"certificatesigningrequest.certificates.k8s.io/{signing_request} {word}\n"
    stored = cluster.get("certificates.k8s.io/v1", "certificatesigningrequests", signing_request)
    (given,) = stored["status"]["conditions"]
    assert (given["type"], given["status"]) == (condition, "True")
    assert stored["spec"]["username"] == "admin" and "system:masters" in stored["spec"]["groups"]
    assert admin("get", "csr", signing_request).rows[1][-1] == condition
