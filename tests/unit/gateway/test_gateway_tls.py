from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from corral.gateway.tls import CertificateFiles, ServerTls, listening_hosts, own_certificate
from corral.kube.connection.config import ConfigError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def names(files: CertificateFiles) -> set[str]:
    cert = x509.load_pem_x509_certificate(files.cert.read_bytes())
    found = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in found}


def test_a_certificate_of_our_own_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    made = own_certificate(folder, ["localhost", "127.0.0.1"], now=lambda: NOW)
    assert names(made) == {"localhost", "127.0.0.1"}
    before = made.cert.read_bytes()
    assert made.key.stat().st_mode & 0o077 == 0
    own_certificate(folder, ["localhost"], now=lambda: NOW + timedelta(days=1))
    assert made.cert.read_bytes() == before
    ssl.create_default_context(cafile=folder / "ca.crt")


def test_it_is_renewed_in_time_by_the_same_authority(tmp_path: Path) -> None:
    made = own_certificate(tmp_path, ["localhost"], now=lambda: NOW)
    before, authority = made.cert.read_bytes(), (tmp_path / "ca.crt").read_bytes()
    own_certificate(tmp_path, ["localhost"], now=lambda: NOW + timedelta(days=80))
    assert made.cert.read_bytes() != before
    assert (tmp_path / "ca.crt").read_bytes() == authority


def test_a_damaged_state_is_made_anew(tmp_path: Path) -> None:
    own_certificate(tmp_path, ["localhost"], now=lambda: NOW)
    (tmp_path / "certificates.json").write_text("{")
    ServerTls(own_certificate(tmp_path, ["localhost"], now=lambda: NOW))


def test_files_are_read_again_and_half_a_pair_is_not_used(tmp_path: Path) -> None:
    made = own_certificate(tmp_path / "a", ["localhost"])
    tls = ServerTls(made)
    other = own_certificate(tmp_path / "b", ["localhost"])
    made.cert.write_bytes(other.cert.read_bytes())
    with pytest.raises(ConfigError, match="no usable certificate"):
        tls.refresh()
    made.key.write_bytes(other.key.read_bytes())
    tls.refresh()


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        ServerTls(CertificateFiles(tmp_path / "x", tmp_path / "y"))


def test_the_names_of_an_address() -> None:
    assert listening_hosts("10.0.0.1", ["gw.example"])[-2:] == ["gw.example", "10.0.0.1"]
    assert "0.0.0.0" not in listening_hosts("0.0.0.0")
