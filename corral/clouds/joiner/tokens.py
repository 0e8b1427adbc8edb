"""Bootstrap tokens and what kubeadm needs to trust a cluster. Pure.

A token is made for one VM, lives for minutes, and can do no more than ask for a node's own
certificate. The Secret is what the API server's token authenticator and the bootstrap signer read;
writing it is the caller's.
"""

from __future__ import annotations

import hashlib
import math
import re
import secrets
import string
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from corral.clouds.errors import BadRequest

__all__ = ["GROUP", "BootstrapToken", "ca_cert_hash", "is_ca_cert_hash"]

GROUP: Final = "system:bootstrappers:kubeadm:default-node-token"
"""What kubeadm's own roles are bound to."""
_ALPHABET: Final = string.ascii_lowercase + string.digits
_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class BootstrapToken:
    """One token; its secret half never appears in a repr."""

    id: str
    secret: str = field(repr=False)
    expires: float
    """When it expires, in seconds since the epoch."""

    @classmethod
    def fresh(cls, *, now: float, lifetime_s: float) -> BootstrapToken:
        """A new one nobody can guess."""
        return cls(_random(6), _random(16), now + lifetime_s)

    @classmethod
    def parse(cls, text: str, *, expires: float = math.inf) -> BootstrapToken:
        """One that somebody else made. Raises BadRequest."""
        match = _TOKEN.fullmatch(text.strip())
        if match is None:
            raise BadRequest("the join token is not of the form abcdef.0123456789abcdef")
        return cls(match[1], match[2], expires)

    def __str__(self) -> str:
        return f"{self.id}.***"

    @property
    def value(self) -> str:
        """The whole token: give it to nobody but kubeadm."""
        return f"{self.id}.{self.secret}"

    def manifest(self, vm: str) -> dict[str, Any]:
        """The Secret that makes the API server accept it until it expires."""
        until = datetime.fromtimestamp(self.expires, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": f"bootstrap-token-{self.id}",
                "namespace": "kube-system",
                "labels": {"corral.dev/vm": vm},
            },
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "description": f"lets VM {vm} join",
                "token-id": self.id,
                "token-secret": self.secret,
                "expiration": until,
                "usage-bootstrap-authentication": "true",
                "usage-bootstrap-signing": "true",
                "auth-extra-groups": GROUP,
            },
        }


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def ca_cert_hash(pem: bytes) -> str:
    """The hash of a cluster's CA as kubeadm pins it: of the public key. Raises ValueError."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    certificate = x509.load_pem_x509_certificates(pem)[0]
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(key).hexdigest()}"


def is_ca_cert_hash(text: str) -> bool:
    return _HASH.fullmatch(text) is not None
