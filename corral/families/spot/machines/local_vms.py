"""Machines on the operator's own machine: node agents with credentials of their own."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from corral.clouds.base import Price, VmRequest
from corral.clouds.errors import BadRequest
from corral.families.spot.machines.nodes import marks_of
from corral.families.spot.machines.requests import NAMESPACE_LABEL
from corral.families.spot.machines.settings import LocalVms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from corral.api.spot.vm import LocalMachine
    from corral.clouds.local import LocalProvider
    from corral.kube.connection.config import ClusterConfig

__all__ = ["end_all", "node_credentials", "open_local"]

_LIFETIME: Final = timedelta(days=365)


def open_local(local: LocalVms, machine: LocalMachine, cluster: ClusterConfig) -> LocalProvider:
    """The provider of machines on this one, which become nodes of the cluster.

    Raises:
        BadRequest: nodes cannot be given credentials.
        OSError: the folder cannot be made.
    """
    from corral.clouds.local import LocalProvider, LocalSettings, node_command

    authority = _authority(local, cluster)
    zones = [machine.zone, *(machine.zones or ())]
    types = [machine.machine_type, *(machine.machine_types or ())]
    marks = ("--marks", "{folder}/marks.json", "--client-ca", "{folder}/ca.crt")

    def files(request: VmRequest) -> Mapping[str, str]:
        credentials = node_credentials(authority, request.name, local.groups)
        return {
            "kubeconfig": _kubeconfig(cluster, request.name, *credentials),
            "ca.crt": (authority / "ca.crt").read_text(),
            "marks.json": json.dumps(marks_of(request.name, "local")),
        }

    return LocalProvider(
        LocalSettings(
            folder=local.folder,
            command=node_command(*marks, *local.options),
            files=files,
            capacity=machine.capacity or {},
            quota=local.most,
            label_quota=(NAMESPACE_LABEL, local.most_per_namespace),
            notice_s=float(machine.notice_seconds),
            stop_grace_s=local.stop_grace_s,
            prices=[
                Price(
                    machine_type=kind,
                    zone=zone,
                    spot=spot,
                    per_hour=local.spot_price if spot else local.on_demand_price,
                )
                for zone in zones
                for kind in types
                for spot in (True, False)
            ],
        )
    )


def _authority(local: LocalVms, cluster: ClusterConfig) -> Path:
    """The folder of the authority by which nodes are known. Raises BadRequest."""
    if local.authority is None and not cluster.ca_file:
        raise BadRequest("who signs for nodes is not known here: say --local-vm-authority")
    found = local.authority or Path(cluster.ca_file).parent
    if not (found / "ca.key").exists():
        raise BadRequest(
            f"there is no ca.key in {found}, so machines cannot become nodes: "
            "say --local-vm-authority"
        )
    return found


async def end_all(local: LocalVms, hurry: asyncio.Event) -> None:
    """End every machine on the folder, as when all is switched off in order; or at once."""
    from corral.clouds.local import LocalProvider, LocalSettings

    if not local.folder.exists():
        return
    settings = LocalSettings(folder=local.folder, stop_grace_s=local.stop_grace_s)
    provider = LocalProvider(settings)
    found = await provider.every()
    ending: asyncio.Future[Any] = asyncio.gather(*(provider.delete(vm.ref) for vm in found))
    hurried: asyncio.Future[Any] = asyncio.create_task(hurry.wait())
    try:
        await asyncio.wait({ending, hurried}, return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            await asyncio.gather(*(provider.kill(vm.ref) for vm in found))
        await ending
    finally:
        hurried.cancel()


def _kubeconfig(cluster: ClusterConfig, node: str, certificate: bytes, key: bytes) -> str:
    authority = cluster.ca_data or Path(cluster.ca_file).read_bytes()
    user = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    server = {
        "server": cluster.server,
        "certificate-authority-data": base64.b64encode(authority).decode(),
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "corral", "cluster": server}],
            "users": [{"name": node, "user": user}],
            "contexts": [{"name": "corral", "context": {"cluster": "corral", "user": node}}],
            "current-context": "corral",
        }
    )


def node_credentials(folder: Path, node: str, groups: tuple[str, ...]) -> tuple[bytes, bytes]:
    """A certificate by which the API server knows a node, and its key. Raises OSError.

    It begins when its authority's does: what a clock that is ahead has made is valid when the clock
    has been set right.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    signer = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise OSError(f"{folder / 'ca.key'} is not an EC key")
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(authority.not_valid_before_utc)
        .not_valid_after(min(now + _LIFETIME, authority.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(encoding), private
