"""Certificates of the webhook server: what they are, and when which of them is made anew.

Pure but for the making of keys. A *set* is an authority of our own, a serving certificate that it
issued, and a bundle of all authorities that clients must trust. `advance` gives the set that should
be in force at a moment; the same one if nothing is due.

An authority is replaced in two steps, so that nobody ever meets a certificate that he cannot check:
first the following authority is put into the bundle, beside the present one; once the bundle is
known to clients and some time has passed, it issues the serving certificate. The old authority
stays in the bundle until it ends.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["CertificateSet", "CertificateSettings", "Pair", "advance"]

_BACKDATED = timedelta(minutes=5)
"""Clocks differ."""


@dataclass(frozen=True, slots=True)
class CertificateSettings:
    """How long certificates live; each is replaced in the last third of its life."""

    authority_life: timedelta = timedelta(days=730)
    serving_life: timedelta = timedelta(days=90)
    settle: timedelta = timedelta(minutes=10)
    """How long a new authority is in the bundle before it issues."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, in PEM."""

    cert: bytes
    key: bytes

    @property
    def x509(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.cert)


@dataclass(frozen=True, slots=True)
class CertificateSet:
    """Everything that the replicas of a server share."""

    authority: Pair
    serving: Pair
    following: Pair | None = None
    """The next authority; in the bundle already."""
    following_since: datetime | None = None
    retired: tuple[bytes, ...] = ()
    """Certificates of former authorities that have not ended yet."""

    @property
    def bundle(self) -> bytes:
        """What clients must trust."""
        following = (self.following.cert,) if self.following else ()
        return b"".join((self.authority.cert, *following, *self.retired))

    @property
    def serving_end(self) -> datetime:
        return self.serving.x509.not_valid_after_utc

    def as_data(self) -> dict[str, str]:
        """The ``data`` of a Secret of type kubernetes.io/tls."""
        parts = {
            "tls.crt": self.serving.cert,
            "tls.key": self.serving.key,
            "ca.crt": self.authority.cert,
            "ca.key": self.authority.key,
            "bundle.crt": self.bundle,
            "retired.crt": b"".join(self.retired),
        }
        if self.following and self.following_since:
            parts["following.crt"] = self.following.cert
            parts["following.key"] = self.following.key
            parts["following.since"] = self.following_since.isoformat().encode()
        return {key: base64.b64encode(part).decode() for key, part in parts.items()}

    @classmethod
    def from_data(cls, data: dict[str, str]) -> CertificateSet | None:
        """Read what `as_data` wrote; none where anything is missing or damaged."""
        try:
            parts = {key: base64.b64decode(text) for key, text in data.items()}
            following, since = None, None
            if "following.crt" in parts:
                following = Pair(parts["following.crt"], parts["following.key"])
                since = datetime.fromisoformat(parts["following.since"].decode())
            found = cls(
                Pair(parts["ca.crt"], parts["ca.key"]),
                Pair(parts["tls.crt"], parts["tls.key"]),
                following,
                since,
                _split(parts.get("retired.crt", b"")),
            )
            return found if _is_sound(found) else None
        except (KeyError, ValueError, TypeError, binascii.Error):
            return None


def advance(
    current: CertificateSet | None,
    hosts: Iterable[str],
    now: datetime,
    *,
    known: bytes = b"",
    settings: CertificateSettings | None = None,
) -> CertificateSet:
    """The set that should be in force now; ``current`` itself if nothing is due.

    ``known`` is the bundle that clients are known to have. Names of the present certificate stay
    in the next one, so that replicas with different names do not renew in turns.
    """
    settings = settings or CertificateSettings()
    if current is None or not _is_valid(current.authority.x509, now):
        authority = _new_authority(now, settings.authority_life)
        fresh = CertificateSet(authority, _issue(authority, hosts, now, settings.serving_life))
        return fresh
    current = _without_ended(current, now)
    current = _with_following(current, now, settings)
    current = _promoted(current, now, known, settings)
    wanted = {*hosts, *_hosts_of(current.serving.x509)}
    if _is_due(current.serving.x509, now) or not _fits(current, wanted):
        serving = _issue(current.authority, wanted, now, settings.serving_life)
        current = replace(current, serving=serving)
    return current


def _without_ended(current: CertificateSet, now: datetime) -> CertificateSet:
    left = tuple(
        cert
        for cert in current.retired
        if x509.load_pem_x509_certificate(cert).not_valid_after_utc > now
    )
    return current if left == current.retired else replace(current, retired=left)


def _with_following(
    current: CertificateSet, now: datetime, settings: CertificateSettings
) -> CertificateSet:
    if current.following is not None or not _is_due(current.authority.x509, now):
        return current
    following = _new_authority(now, settings.authority_life)
    return replace(current, following=following, following_since=now)


def _promoted(
    current: CertificateSet, now: datetime, known: bytes, settings: CertificateSettings
) -> CertificateSet:
    following, since = current.following, current.following_since
    if following is None or since is None or following.cert not in known:
        return current
    if now < since + settings.settle:
        return current
    retired = (current.authority.cert, *current.retired)
    serving = _issue(following, _hosts_of(current.serving.x509), now, settings.serving_life)
    return CertificateSet(following, serving, retired=retired)


def _is_valid(cert: x509.Certificate, now: datetime) -> bool:
    """A certificate may have been made while a clock was wrong: both ends count."""
    return cert.not_valid_before_utc <= now < cert.not_valid_after_utc


def _is_due(cert: x509.Certificate, now: datetime) -> bool:
    """Whether a certificate is in the last third of its life, or not valid yet."""
    life = cert.not_valid_after_utc - cert.not_valid_before_utc
    return not cert.not_valid_before_utc <= now < cert.not_valid_after_utc - life / 3


def _fits(current: CertificateSet, wanted: set[str]) -> bool:
    return set(_hosts_of(current.serving.x509)) >= {_normal(host) for host in wanted}


def _is_sound(found: CertificateSet) -> bool:
    """Whether keys belong to certificates, and the serving one was issued by the authority."""
    pairs = [found.authority, found.serving, *([found.following] if found.following else [])]
    for pair in pairs:
        key = serialization.load_pem_private_key(pair.key, password=None)
        if key.public_key() != pair.x509.public_key():
            return False
    try:
        found.serving.x509.verify_directly_issued_by(found.authority.x509)
    except InvalidSignature:
        return False
    return True


def _split(pem: bytes) -> tuple[bytes, ...]:
    if not pem.strip():
        return ()
    found = x509.load_pem_x509_certificates(pem)
    return tuple(cert.public_bytes(serialization.Encoding.PEM) for cert in found)


# --- making --------------------------------------------------------------------------------------


def _new_authority(now: datetime, life: timedelta) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # A name of its own, so that the former authority is not mistaken for it.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"corral-webhooks-{serial:x}"[:64])])
    builder = _builder(name, name, key.public_key(), serial=serial, now=now, end=now + life)
    cert = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(cert, key)


def _issue(authority: Pair, hosts: Iterable[str], now: datetime, life: timedelta) -> Pair:
    issuer = authority.x509
    signer = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the authority is no EC key")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "corral-webhooks")])
    end = min(now + life, issuer.not_valid_after_utc)
    serial = x509.random_serial_number()
    builder = _builder(name, issuer.subject, key.public_key(), serial=serial, now=now, end=end)
    signer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    names = x509.SubjectAlternativeName([_general(h) for h in sorted(set(map(_normal, hosts)))])
    cert = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(server, critical=False)
        .add_extension(names, critical=False)
        .add_extension(signer_id, critical=False)
        .sign(signer, hashes.SHA256())
    )
    return _pair(cert, key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    *,
    serial: int,
    now: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(now.astimezone(UTC) - _BACKDATED)
        .not_valid_after(end.astimezone(UTC))
    )


def _pair(cert: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(
        cert.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _normal(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _hosts_of(cert: x509.Certificate) -> list[str]:
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return [*names.get_values_for_type(x509.DNSName), *addresses]
