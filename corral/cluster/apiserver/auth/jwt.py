"""Signed JSON web tokens, as far as service accounts need them.

Written on ``cryptography`` directly: what is needed is one compact serialization, two signature
schemes (ES256 to sign, ES256 and RS256 to verify, so that keys of another cluster can be brought
along) and JWKS; a JWT library would add a dependency to choose among far more than that, and its
options are where the known attacks (``none``, key confusion) come from. The algorithm is always
that of the key; what the header says is only compared with it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

__all__ = ["JwtError", "Signer", "Verifier", "unverified_claims"]

_P256_BYTES = 32


class JwtError(ValueError):
    """The token is not one of ours: malformed, unknown key or bad signature."""


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise JwtError("token is not base64url") from error


def _json(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(_decode(text))
    except orjson.JSONDecodeError as error:
        raise JwtError("token is not JSON") from error
    if not isinstance(value, dict):
        raise JwtError("token is not a JSON object")
    return value


def unverified_claims(token: str) -> dict[str, Any] | None:
    """The claims, trusted in nothing, or None when this is no JWT at all."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        return _json(parts[1])
    except JwtError:
        return None


class Verifier:
    """One public key."""

    def __init__(self, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> None:
        if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name != "secp256r1":
            raise ValueError(f"curve {key.curve.name} is not supported, P-256 is")
        self._key = key
        self.algorithm = "ES256" if isinstance(key, ec.EllipticCurvePublicKey) else "RS256"
        der = key.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.key_id = _encode(hashlib.sha256(der).digest())

    @classmethod
    def from_pem(cls, pem: bytes) -> Verifier:
        """Read a public key in PEM."""
        key = serialization.load_pem_public_key(pem)
        if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
            raise ValueError("service account keys are EC P-256 or RSA")
        return cls(key)

    def verify(self, token: str) -> dict[str, Any]:
        """The claims of a token this key has signed. Raises: JwtError."""
        signed, _, signature = token.rpartition(".")
        header, _, payload = signed.partition(".")
        fields = _json(header)
        if fields.get("alg") != self.algorithm:
            raise JwtError(f"token is not signed with {self.algorithm}")
        if fields.get("kid") not in (None, "", self.key_id):
            raise JwtError("invalid signature, no keys found")
        try:
            self._check(_decode(signature), signed.encode())
        except InvalidSignature as error:
            raise JwtError("go-jose/go-jose: error in cryptographic primitive") from error
        return _json(payload)

    def _check(self, signature: bytes, signed: bytes) -> None:
        if isinstance(self._key, rsa.RSAPublicKey):
            self._key.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
            return
        if len(signature) != 2 * _P256_BYTES:
            raise InvalidSignature
        r = int.from_bytes(signature[:_P256_BYTES], "big")
        s = int.from_bytes(signature[_P256_BYTES:], "big")
        self._key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))

    def jwk(self) -> dict[str, str]:
        """The public key as a JSON web key."""
        common = {"use": "sig", "kid": self.key_id, "alg": self.algorithm}
        if isinstance(self._key, rsa.RSAPublicKey):
            numbers = self._key.public_numbers()
            return {"kty": "RSA", **common, "n": _integer(numbers.n), "e": _integer(numbers.e)}
        point = self._key.public_numbers()
        x, y = (_integer(value, _P256_BYTES) for value in (point.x, point.y))
        return {"kty": "EC", "crv": "P-256", **common, "x": x, "y": y}


def _integer(value: int, size: int = 0) -> str:
    return _encode(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


class Signer:
    """One private key, EC P-256 or RSA."""

    def __init__(self, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
        self._key = key
        self.verifier = Verifier(key.public_key())
        header = {"alg": self.verifier.algorithm, "kid": self.verifier.key_id}
        self._header = _encode(orjson.dumps(header))

    @classmethod
    def from_pem(cls, pem: bytes) -> Signer:
        """Read a private key in PEM, unencrypted."""
        key = serialization.load_pem_private_key(pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise ValueError("service account keys are EC P-256 or RSA")
        return cls(key)

    def sign(self, claims: dict[str, Any]) -> str:
        """The compact serialization of the signed claims."""
        payload = _encode(orjson.dumps(claims, option=orjson.OPT_SORT_KEYS))
        signed = f"{self._header}.{payload}"
        return f"{signed}.{_encode(self._signature(signed.encode()))}"

    def _signature(self, signed: bytes) -> bytes:
        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        der = self._key.sign(signed, ec.ECDSA(hashes.SHA256()))
        r, s = decode_dss_signature(der)
        return r.to_bytes(_P256_BYTES, "big") + s.to_bytes(_P256_BYTES, "big")
