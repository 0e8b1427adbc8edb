"""The keys by which the launcher reaches the workers, and the Secret that has them."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from corral.families.mpijob import names
from corral.families.mpijob.view import JobView
from corral.kube.types import Obj

__all__ = ["KeyPair", "generate_keys", "has_keys", "ssh_secret"]


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An ECDSA key on P-521."""

    private: bytes
    """PEM, ``EC PRIVATE KEY``."""
    public: bytes
    """A line of authorized_keys."""


def generate_keys() -> KeyPair:
    """New keys, of the system's randomness."""
    key = ec.generate_private_key(ec.SECP521R1())
    return KeyPair(
        private=key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
        public=key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n",
    )


def ssh_secret(view: JobView, keys: KeyPair) -> Obj:
    data = {names.SSH_PRIVATE_KEY: keys.private, names.SSH_PUBLIC_KEY: keys.public}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": view.metadata(names.secret_name(view.name)),
        "type": "kubernetes.io/ssh-auth",
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


def has_keys(secret: Obj) -> bool:
    """Whether a Secret has both keys and nothing else; else its keys are to be made anew."""
    return set(secret.get("data") or ()) == {names.SSH_PRIVATE_KEY, names.SSH_PUBLIC_KEY}
