"""Certificates: what is in them, what survives, and that TLS accepts them."""

from __future__ import annotations

import base64
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from corral.cluster.apiserver.auth.authentication import user_from_certificate
from corral.cluster.apiserver.auth.jwt import Signer
from corral.cluster.apiserver.auth.pki import Pki, ensure_pki, write_kubeconfig


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return ensure_pki(tmp_path / "pki", hosts=["node.example", "192.0.2.7"])


def names(pem: bytes) -> set[str]:
    cert = x509.load_pem_x509_certificate(pem)
    held = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in held}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_serving_certificate_is_good_for_every_name_of_the_server(pki: Pki) -> None:
    assert names(pki.serving.cert) == {
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "127.0.0.1",
        "::1",
        "10.96.0.1",
        "node.example",
        "192.0.2.7",
    }


@pytest.mark.parametrize(
    ("pair", "name"),
    [("admin", "kubernetes-admin"), ("kubelet_client", "kube-apiserver-kubelet-client")],
)
def test_client_certificates_name_a_master(pki: Pki, pair: str, name: str) -> None:
    pem = getattr(pki, pair).cert
    der = x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)
    user = user_from_certificate(der)
    assert user is not None
    assert (user.name, user.groups) == (name, ("system:masters", "system:authenticated"))


def test_files_are_private_and_nothing_else_is_left(pki: Pki) -> None:
    assert {path.name for path in pki.folder.iterdir()} == {
        "ca.crt",
        "ca.key",
        "apiserver.crt",
        "apiserver.key",
        "admin.crt",
        "admin.key",
        "kube-apiserver-kubelet-client.crt",
        "kube-apiserver-kubelet-client.key",
        "sa.key",
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in pki.folder.iterdir()} == {0o600}


def test_a_second_run_changes_nothing(pki: Pki) -> None:
    before = contents(pki.folder)
    ensure_pki(pki.folder, hosts=["node.example"])
    assert contents(pki.folder) == before


def test_new_hosts_renew_only_the_serving_certificate(pki: Pki) -> None:
    before = contents(pki.folder)
    ensure_pki(pki.folder, hosts=["other.example"])
    after = contents(pki.folder)
    assert {name for name in after if after[name] != before[name]} == {
        "apiserver.crt",
        "apiserver.key",
    }
    assert "other.example" in names(after["apiserver.crt"])


def test_close_to_expiry_everything_but_ca_and_token_key_is_renewed(pki: Pki) -> None:
    before = contents(pki.folder)
    ensure_pki(pki.folder, now=datetime.now(UTC) + timedelta(days=340))
    after = contents(pki.folder)
    assert {name for name in after if after[name] == before[name]} == {
        "ca.crt",
        "ca.key",
        "sa.key",
    }


@pytest.mark.parametrize("damage", [b"", b"-----BEGIN CERTIFICATE-----\nnonsense"])
def test_a_damaged_certificate_is_made_anew(pki: Pki, damage: bytes) -> None:
    pki.admin.cert_file.write_bytes(damage)
    x509.load_pem_x509_certificate(ensure_pki(pki.folder).admin.cert)


def test_a_key_that_does_not_fit_its_certificate_is_found_out(pki: Pki) -> None:
    pki.admin.key_file.write_bytes(pki.kubelet_client.key)
    again = ensure_pki(pki.folder).admin
    key = serialization.load_pem_private_key(again.key, password=None)
    assert key.public_key() == x509.load_pem_x509_certificate(again.cert).public_key()


def test_client_certificates_for_others(pki: Pki) -> None:
    pair = pki.issue_client_cert("system:node:n1", ["system:nodes"])
    assert pair.cert == pki.issue_client_cert("system:node:n1", ["system:nodes"]).cert
    assert pair.cert_file != pki.issue_client_cert("system_node_n1").cert_file
    assert pair.cert != pki.issue_client_cert("system:node:n1", ["other"]).cert


def test_service_account_key_signs_tokens(pki: Pki) -> None:
    signer = Signer.from_pem(pki.service_account_key_file.read_bytes())
    assert signer.verifier.verify(signer.sign({"sub": "x"})) == {"sub": "x"}


def test_kubeconfig(pki: Pki, tmp_path: Path) -> None:
    path = tmp_path / "made" / "kubeconfig"
    write_kubeconfig(
        path, "https://127.0.0.1:6443", ca=pki.ca.cert, cert=pki.admin.cert, key=pki.admin.key
    )
    config = orjson.loads(path.read_bytes())
    assert config["current-context"] == config["contexts"][0]["name"]
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    user = config["users"][0]["user"]
    assert base64.b64decode(user["client-key-data"]) == pki.admin.key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_kubeconfig(path, "https://x", ca=pki.ca.cert, token="t")
    assert orjson.loads(path.read_bytes())["users"][0]["user"] == {"token": "t"}
    with pytest.raises(ValueError, match="certificate and key, or a token"):
        write_kubeconfig(path, "https://x", ca=pki.ca.cert)


def test_tls_handshake_with_client_certificate(pki: Pki) -> None:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=pki.ca.cert.decode())
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(pki.serving.cert_file, pki.serving.key_file)
    client = ssl.create_default_context(cadata=pki.ca.cert.decode())
    client.load_cert_chain(pki.admin.cert_file, pki.admin.key_file)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = server.wrap_bio(up, down, server_side=True)
    client_side = client.wrap_bio(down, up, server_hostname="kubernetes.default.svc")
    for _ in range(3):
        for side in (client_side, server_side):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    parsed, der = server_side.getpeercert(), server_side.getpeercert(binary_form=True)
    assert parsed is not None and der is not None
    by_dict, by_der = user_from_certificate(parsed), user_from_certificate(der)
    assert by_dict is not None and by_der is not None
    assert (by_dict.name, by_dict.groups) == (by_der.name, by_der.groups)
    assert by_der.extra["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")
