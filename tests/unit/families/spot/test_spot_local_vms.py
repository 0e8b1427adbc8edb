"""Machines on this one: credentials of their nodes, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from corral.api.spot.vm import LocalMachine
from corral.clouds import BadRequest
from corral.cluster.apiserver.auth.pki import ensure_pki
from corral.families.spot.machines.local_vms import node_credentials, open_local
from corral.families.spot.machines.settings import LocalVms
from corral.kube.connection.config import ClusterConfig


def test_a_node_s_certificate_is_of_the_cluster_s_authority(tmp_path: Path) -> None:
    pki = ensure_pki(tmp_path)
    certificate, key = node_credentials(tmp_path, "m-0-1", ("system:nodes", "corral:nodes"))
    found = x509.load_pem_x509_certificate(certificate)
    found.verify_directly_issued_by(x509.load_pem_x509_certificate(pki.ca.cert))
    named = [(each.oid, each.value) for each in found.subject]
    assert (NameOID.COMMON_NAME, "system:node:m-0-1") in named
    groups = [value for oid, value in named if oid == NameOID.ORGANIZATION_NAME]
    assert groups == ["system:nodes", "corral:nodes"]
    usage = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert b"PRIVATE KEY" in key


def test_a_node_s_certificate_of_a_wrong_clock_is_valid_at_the_right_time(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    ensure_pki(tmp_path, now=now + timedelta(days=730))
    found = x509.load_pem_x509_certificate(node_credentials(tmp_path, "m", ("g",))[0])
    authority = x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes())
    assert found.not_valid_before_utc == authority.not_valid_before_utc < now - timedelta(days=365)


@pytest.mark.parametrize("authority", [None, Path("/nowhere")])
def test_without_an_authority_no_machine_can_become_a_node(
    tmp_path: Path, authority: Path | None
) -> None:
    local = LocalVms(folder=tmp_path / "vms", authority=authority)
    with pytest.raises(BadRequest, match="--local-vm-authority"):
        open_local(local, LocalMachine(), ClusterConfig("https://127.0.0.1:1"))


async def test_every_zone_and_type_has_its_price(tmp_path: Path) -> None:
    ensure_pki(tmp_path / "pki")
    local = LocalVms(folder=tmp_path / "vms", authority=tmp_path / "pki")
    machine = LocalMachine(zone="a", zones=["b"], machine_type="small", machine_types=["large"])
    provider = open_local(local, machine, ClusterConfig("https://127.0.0.1:1"))
    found = await provider.prices(["small", "large"], ["a", "b"])
    assert len(found) == 8
    assert {price.per_hour for price in found if price.spot} == {local.spot_price}
