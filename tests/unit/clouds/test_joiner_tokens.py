"""Bootstrap tokens as the API server reads them, hashes as kubeadm computes them."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from corral.clouds import BadRequest
from corral.clouds.joiner import BootstrapToken, Cluster, Login, ca_cert_hash
from corral.clouds.joiner.kubeadm import configuration, redacted, script

CERTIFICATE = b"""\
-----BEGIN CERTIFICATE-----
MIIBgjCCASegAwIBAgIULxhoQSCl8QWCCmLsT7ON/kyA5kAwCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKa3ViZXJuZXRlczAgFw0yNjExMTYwMjI4MjBaGA8yMTI2MTAy
MzAyMjgyMFowFTETMBEGA1UEAwwKa3ViZXJuZXRlczBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABMk0uZThGsqo38hhwY/pvSV8CK97BU1boik1e2kP5nZc9kwovszd
Z5ivZcOBxf93WBe5XOeIm9zKLEN4UBU7f6ujUzBRMB0GA1UdDgQWBBRsHV4wR8X7
iiHSr9/gfkyB34YFbDAfBgNVHSMEGDAWgBRsHV4wR8X7iiHSr9/gfkyB34YFbDAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0kAMEYCIQDgk1vI72tWLtH94jIJ
SuwgqrjDZAw/dDAOj5eHN5/rWQIhAJVFFomu0WVHbMzBJOQPEdROkifbsD8je2wH
mfjs56gL
-----END CERTIFICATE-----
"""
HASH = "sha256:0cb27a460cda893fbe0d1495e3aaeefd935f844c7eb0458be78f5fb73bcba261"
CLUSTER = Cluster(endpoint="[fd00::1]:6443", ca_hashes=[HASH])
TOKEN = BootstrapToken("abcdef", "0123456789abcdef", 1_800_000_000.0)


def test_the_hash_is_the_one_openssl_computes() -> None:
    assert ca_cert_hash(CERTIFICATE) == HASH


def test_no_certificate_has_no_hash() -> None:
    with pytest.raises(ValueError, match=r"."):
        ca_cert_hash(b"nothing")


def test_fresh_tokens_have_the_form_and_differ() -> None:
    tokens = [BootstrapToken.fresh(now=100.0, lifetime_s=60.0) for _ in range(50)]
    assert all(re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", token.value) for token in tokens)
    assert len({token.value for token in tokens}) == 50
    assert tokens[0].expires == 160.0


def test_tokens_of_others() -> None:
    assert BootstrapToken.parse(" abcdef.0123456789abcdef\n").value == TOKEN.value
    for text in ("", "abcdef", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcde"):
        with pytest.raises(BadRequest, match="form"):
            BootstrapToken.parse(text)


def test_a_token_does_not_show_itself() -> None:
    assert TOKEN.secret not in f"{TOKEN} {TOKEN!r}"
    assert "PRIVATE" not in repr(
        Login(host="h", user="u", private_key="PRIVATE", host_keys=["ssh-ed25519 AAAA"])
    )
    assert redacted(f"bad token {TOKEN.value}\n", TOKEN) == "bad token abcdef.***"


def test_the_secret_is_what_the_authenticator_wants() -> None:
    manifest = TOKEN.manifest("trainer-0")
    assert manifest["metadata"]["name"] == "bootstrap-token-abcdef"
    assert manifest["metadata"]["namespace"] == "kube-system"
    assert manifest["type"] == "bootstrap.kubernetes.io/token"
    assert manifest["stringData"] == {
        "description": "lets VM trainer-0 join",
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "expiration": "2027-01-15T08:00:00Z",
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
        "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
    }


def test_labels_as_each_version_of_kubeadm_writes_them() -> None:
    cluster = replace(CLUSTER, labels={"b": "2", "a": "1"})
    new = json.loads(configuration(cluster, TOKEN, "n"))["nodeRegistration"]
    assert new["kubeletExtraArgs"] == [{"name": "node-labels", "value": "a=1,b=2"}]
    old = replace(cluster, api_version="kubeadm.k8s.io/v1beta3")
    registration = json.loads(configuration(old, TOKEN, "n"))["nodeRegistration"]
    assert registration["kubeletExtraArgs"] == {"node-labels": "a=1,b=2"}


def test_the_script_has_nothing_secret_in_it() -> None:
    assert script(300.0) == script(300.0)
    assert "timeout -k 5 300" in script(300.0)
    assert "--token" not in script(1.0)


@pytest.mark.parametrize(
    "change",
    [
        {"host": "-oProxyCommand=evil"},
        {"user": "-l"},
        {"user": "root;id"},
        {"host_keys": []},
        {"host_keys": ["@cert-authority * ssh-ed25519 AAAA"]},
    ],
)
def test_logins_that_ssh_would_misunderstand(change: dict[str, object]) -> None:
    login = Login(host="h", user="u", private_key="k", host_keys=["ssh-ed25519 AAAA"])
    login.checked()
    with pytest.raises(BadRequest):
        replace(login, **change).checked()  # type: ignore[arg-type]
