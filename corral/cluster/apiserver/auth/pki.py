"""Keys and certificates of the embedded cluster, kept as files in one folder.

`ensure_pki` makes what is missing and renews what is about to expire, is not valid yet or no longer
fits; the keys of the CA and of service accounts are made once and then kept, so that certificates
and tokens handed out stay good across restarts. A clock that was wrong does not lock anybody out:
the CA's own certificate begins long before it is made, and one that is not valid now is made anew
with the same key. Files are written with mode 0600 under another name and moved into place. Keys
are EC P-256: made in a fraction of a millisecond, understood by every client.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from corral.files.private import private_folder
from corral.kube.connection.kubeconfig import SOCKET_EXTENSION
from corral.kube.types import Obj

__all__ = ["KeyPair", "Pki", "ensure_pki", "kubeconfig", "write_kubeconfig", "write_private"]

SERVICE_IP = "10.96.0.1"
SERVING_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
    SERVICE_IP,
)
CA_LIFETIME = timedelta(days=3650)
LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
_BACKDATED = timedelta(minutes=5)
_CA_BACKDATED = CA_LIFETIME
"""Who trusts it must go on when a clock that was ahead is put right."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key: files, and their PEM contents."""

    cert_file: Path
    key_file: Path

    @property
    def cert(self) -> bytes:
        return self.cert_file.read_bytes()

    @property
    def key(self) -> bytes:
        return self.key_file.read_bytes()


@dataclass(frozen=True, slots=True)
class Pki:
    """What `ensure_pki` made."""

    folder: Path
    ca: KeyPair
    serving: KeyPair
    admin: KeyPair
    kubelet_client: KeyPair
    service_account_key_file: Path

    def issue_client_cert(self, name: str, groups: Sequence[str] = ()) -> KeyPair:
        """A client certificate for user ``name``, kept and renewed like the others."""
        now = datetime.now(UTC)
        authority = _Authority(_ensure_ca(self.folder, now), now)
        return _ensure_client(self.folder, authority, name, groups, _file_name(name))


def ensure_pki(folder: Path, *, hosts: Iterable[str] = (), now: datetime | None = None) -> Pki:
    """Make or renew everything the server needs; ``hosts`` are extra names and addresses."""
    private_folder(folder)
    moment = now or datetime.now(UTC)
    ca = _ensure_ca(folder, moment)
    authority = _Authority(ca, moment)
    names = list(dict.fromkeys((*SERVING_NAMES, *hosts)))
    masters = ("system:masters",)
    kubelet = "kube-apiserver-kubelet-client"
    return Pki(
        folder=folder,
        ca=ca,
        serving=_ensure_serving(folder, authority, names),
        admin=_ensure_client(folder, authority, "kubernetes-admin", masters, "admin"),
        kubelet_client=_ensure_client(folder, authority, kubelet, masters, kubelet),
        service_account_key_file=_ensure_key(folder / "sa.key"),
    )


class _Authority:
    """The CA, loaded, and the moment certificates are judged and issued at."""

    def __init__(self, pair: KeyPair, now: datetime | None = None) -> None:
        self.now = now or datetime.now(UTC)
        self.cert = x509.load_pem_x509_certificate(pair.cert)
        self.key = _load_key(pair)

    def issue(self, pair: KeyPair, builder: x509.CertificateBuilder, usage: _Usage) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        cert = (
            builder.issuer_name(self.cert.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.now - _BACKDATED)
            .not_valid_after(min(self.now + LIFETIME, self.cert.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        _write_pair(pair, cert, key)

    def still_good(self, pair: KeyPair, subject: x509.Name) -> x509.Certificate | None:
        """The stored certificate, unless it must be made anew."""
        if not (pair.cert_file.exists() and pair.key_file.exists()):
            return None
        try:
            cert = x509.load_pem_x509_certificate(pair.cert)
            cert.verify_directly_issued_by(self.cert)
            key = serialization.load_pem_private_key(pair.key, password=None)
        except (ValueError, TypeError, InvalidSignature):
            # Damaged, or of another CA: a new certificate is the remedy.
            return None
        if key.public_key() != cert.public_key():
            return None
        return cert if cert.subject == subject and _lasts(cert, self.now) else None


_Usage = x509.ObjectIdentifier


def _lasts(cert: x509.Certificate, now: datetime) -> bool:
    """Whether a certificate is valid now, and for a while: clocks may have been wrong."""
    return cert.not_valid_before_utc <= now <= cert.not_valid_after_utc - RENEW_BEFORE


def _load_key(pair: KeyPair) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pair.key, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{pair.key_file} is not an EC key")
    return key


def _ensure_ca(folder: Path, now: datetime) -> KeyPair:
    pair = _pair(folder, "ca")
    key = None
    if pair.cert_file.exists() and pair.key_file.exists():
        if _lasts(x509.load_pem_x509_certificate(pair.cert), now):
            return pair
        key = _load_key(pair)  # the same: what it has signed stays good
    key = key or ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CA_BACKDATED)
        .not_valid_after(now + CA_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_pair(pair, cert, key)
    return pair


def _ensure_serving(folder: Path, authority: _Authority, names: Sequence[str]) -> KeyPair:
    pair = _pair(folder, "apiserver")
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    cert = authority.still_good(pair, subject)
    if cert is not None:
        held = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if set(alternatives) <= set(held):
            return pair
    builder = x509.CertificateBuilder().subject_name(subject)
    builder = builder.add_extension(alternatives, critical=False)
    authority.issue(pair, builder, ExtendedKeyUsageOID.SERVER_AUTH)
    return pair


def _ensure_client(
    folder: Path, authority: _Authority, name: str, groups: Sequence[str], file_name: str
) -> KeyPair:
    pair = _pair(folder, file_name)
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    if authority.still_good(pair, subject) is None:
        builder = x509.CertificateBuilder().subject_name(subject)
        authority.issue(pair, builder, ExtendedKeyUsageOID.CLIENT_AUTH)
    return pair


def _ensure_key(path: Path) -> Path:
    if not path.exists():
        write_private(path, _key_pem(ec.generate_private_key(ec.SECP256R1())))
    return path


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(folder: Path, name: str) -> KeyPair:
    return KeyPair(folder / f"{name}.crt", folder / f"{name}.key")


def _file_name(user: str) -> str:
    """A file name for a user; different users get different ones."""
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in user)
    return f"client-{safe}-{user.encode().hex()[:16]}" if safe != user else f"client-{safe}"


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write_pair(pair: KeyPair, cert: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    # The key goes first: a crash in between leaves a pair that is found out and made anew.
    write_private(pair.key_file, _key_pem(key))
    write_private(pair.cert_file, cert.public_bytes(serialization.Encoding.PEM))


def write_private(path: Path, data: bytes) -> None:
    """Write with mode 0600 and move into place, so that readers see all or nothing."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def kubeconfig(
    server: str,
    *,
    ca: bytes,
    cert: bytes | None = None,
    key: bytes | None = None,
    token: str | None = None,
    socket: Path | None = None,
    name: str = "corral",
    namespace: str | None = None,
) -> Obj:
    """A kubeconfig for one server and one user: a certificate and key, or a token.

    ``socket`` is where the server also listens for clients on this machine.
    """
    user: Obj = {"token": token} if token is not None else {}
    if cert is not None and key is not None:
        user["client-certificate-data"] = base64.b64encode(cert).decode()
        user["client-key-data"] = base64.b64encode(key).decode()
    if not user:
        raise ValueError("a kubeconfig needs a certificate and key, or a token")
    cluster: Obj = {"server": server, "certificate-authority-data": base64.b64encode(ca).decode()}
    if socket is not None:
        path = {"path": str(socket)}
        cluster["extensions"] = [{"name": SOCKET_EXTENSION, "extension": path}]
    context = {"cluster": name, "user": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
        "preferences": {},
    }


def write_kubeconfig(
    path: Path,
    server: str,
    *,
    ca: bytes,
    cert: bytes | None = None,
    key: bytes | None = None,
    token: str | None = None,
    socket: Path | None = None,
    name: str = "corral",
    namespace: str | None = None,
) -> None:
    """Write a kubeconfig file (JSON, which is YAML), mode 0600."""
    config = kubeconfig(
        server,
        ca=ca,
        cert=cert,
        key=key,
        token=token,
        socket=socket,
        name=name,
        namespace=namespace,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    data = orjson.dumps(config, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if not _has(path, data):  # a start needs no room on the disk where nothing changes
        write_private(path, data)


def _has(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False
