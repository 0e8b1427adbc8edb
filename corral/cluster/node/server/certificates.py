"""The node's serving certificate, and whose client certificates are believed.

The certificate is made once, kept in a folder, and made anew a month before it ends or when the
node has other names; that is looked at when a client connects, so a server that runs for years
stays reachable. A certificate that was given is read again when its file changes.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

log = logging.getLogger(__name__)

LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
BACKDATED = timedelta(minutes=5)
"""Clocks of two machines differ."""


class Certificates:
    """Makes TLS contexts. Raises OSError, ssl.SSLError, ValueError when a certificate is no use."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        *,
        client_ca: bytes | None = None,
        given: tuple[Path, Path] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``names`` are host names and addresses; ``given`` are files: certificate, key."""
        self._names = list(dict.fromkeys(names))
        self._given = given
        self._cert, self._key = given or (folder / "node.crt", folder / "node.key")
        self._client_ca = client_ca
        self._now = now
        self._current: ssl.SSLContext | None = None
        self._loaded: tuple[int, int] = (0, 0)
        self._since = datetime.min.replace(tzinfo=UTC)
        self._due = datetime.max.replace(tzinfo=UTC)

    def listening(self) -> ssl.SSLContext:
        """A context for a listener; every connection gets what is current when it comes."""
        self._current = self._load()
        outer = self._context()
        outer.sni_callback = self._choose
        return outer

    def _choose(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _: ssl.SSLContext
    ) -> None:
        if not self._since <= self._now() < self._due or self._stamp() != self._loaded:
            try:
                self._current = self._load()
            except (OSError, ValueError) as err:  # an SSLError is an OSError
                # half-written files: what is loaded still serves
                log.warning("the serving certificate could not be renewed: %s", err)
        if self._current is not None:
            connection.context = self._current

    def _load(self) -> ssl.SSLContext:
        if self._given is None and not self._is_good():
            self._make()
        context = self._context()
        self._loaded = self._stamp()
        if self._given is None:
            found = x509.load_pem_x509_certificate(self._cert.read_bytes())
            self._since = found.not_valid_before_utc
            self._due = found.not_valid_after_utc - RENEW_BEFORE
        return context

    def _stamp(self) -> tuple[int, int]:
        try:
            return self._cert.stat().st_mtime_ns, self._key.stat().st_mtime_ns
        except OSError:
            return self._loaded

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        # a resumed session would outlive the trust in the certificate it began with
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        context.load_cert_chain(self._cert, self._key)
        if self._client_ca:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(cadata=self._client_ca.decode())
        return context

    # -- our own certificate -------------------------------------------------------------------

    def _is_good(self) -> bool:
        try:
            found = x509.load_pem_x509_certificate(self._cert.read_bytes())
            key = serialization.load_pem_private_key(self._key.read_bytes(), password=None)
            names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
            return False
        if key.public_key() != found.public_key():
            return False
        # both ends: it may have been made while the clock was wrong
        fresh = found.not_valid_before_utc <= self._now() < found.not_valid_after_utc - RENEW_BEFORE
        return fresh and {_general(name) for name in self._names} <= set(names)

    def _make(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        now = self._now()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._names[0][:64])])
        cert = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATED)
            .not_valid_after(now + LIFETIME)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([_general(name) for name in self._names]),
                critical=False,
            )
            .sign(key, hashes.SHA256())
        )
        self._cert.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # the key first: a crash in between leaves a pair that is found out and made anew
        _write(
            self._key,
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )
        _write(self._cert, cert.public_bytes(serialization.Encoding.PEM))


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(path: Path, data: bytes) -> None:
    """With mode 0600 and in one piece."""
    new = path.with_name(f".{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
