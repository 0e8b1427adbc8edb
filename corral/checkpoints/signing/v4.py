"""Signature version 4 in the query, as Amazon S3 and Google Cloud Storage know it.

Both hash the same canonical request; they differ in names and in who signs: S3 derives an HMAC
key from the secret, Google takes the RSA key of a service account. Pure: the time is a parameter.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from corral.checkpoints.signing.base import SignedRequest, check_ttl
from corral.egress.reading import key_bytes

_UNSIGNED = "UNSIGNED-PAYLOAD"


@dataclass(frozen=True, slots=True)
class V4:
    """One dialect of the signature, with the credentials in it."""

    algorithm: str
    vendor: str
    """Of the parameters: X-Amz-... or X-Goog-..."""
    access: str
    """Access key, or the service account's address."""
    scope: str
    """What follows the date in the credential scope."""
    sign: Callable[[str, bytes], bytes]
    """Signature of a string, given the date."""
    token: str = ""
    """The session token of temporary credentials."""

    def presign(
        self,
        method: str,
        url: str,
        *,
        now: float,
        ttl: float,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> SignedRequest:
        """A URL for one request with these headers, from now on for `ttl` seconds."""
        seconds, when = check_ttl(ttl), datetime.fromtimestamp(int(now), UTC)
        parts = urlsplit(url)
        signed = {name.lower(): value.strip() for name, value in (headers or {}).items()}
        names = ";".join(sorted({**signed, "host": ""}))
        stamp, date = when.strftime("%Y%m%dT%H%M%SZ"), when.strftime("%Y%m%d")
        text = _query({**(query or {}), **self._parameters(stamp, seconds, names)})
        lines = sorted({**signed, "host": parts.netloc}.items())
        canonical = "\n".join(
            [
                method,
                parts.path,
                text,
                *(f"{name}:{value}" for name, value in lines),
                "",
                names,
                _UNSIGNED,
            ]
        )
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        message = "\n".join([self.algorithm, stamp, f"{date}/{self.scope}", digest])
        signature = self.sign(date, message.encode()).hex()
        full = f"{url}?{text}&X-{self.vendor}-Signature={signature}"
        return SignedRequest(method, full, int(now) + seconds, dict(headers or {}))

    def _parameters(self, stamp: str, seconds: int, names: str) -> dict[str, str]:
        prefix = f"X-{self.vendor}-"
        found = {
            f"{prefix}Algorithm": self.algorithm,
            f"{prefix}Credential": f"{self.access}/{stamp[:8]}/{self.scope}",
            f"{prefix}Date": stamp,
            f"{prefix}Expires": str(seconds),
            f"{prefix}SignedHeaders": names,
        }
        if self.token:
            found[f"{prefix}Security-Token"] = self.token
        return found


def amazon(access: str, secret: str, *, region: str, token: str = "") -> V4:
    """For S3 and everything that speaks its protocol."""

    def sign(date: str, message: bytes) -> bytes:
        key = f"AWS4{secret}".encode()
        for part in (date, region, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.digest(key, message, "sha256")

    scope = f"{region}/s3/aws4_request"
    return V4("AWS4-HMAC-SHA256", "Amz", access, scope, sign, token)


def google(email: str, private_key: str) -> V4:
    """For Google Cloud Storage, with the key of a service account (PEM).

    Raises:
        ValueError: if that is no RSA key.
    """
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(key_bytes(private_key), None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ValueError("the service account's private_key is not an RSA key")

    def sign(date: str, message: bytes) -> bytes:
        return key.sign(message, padding.PKCS1v15(), SHA256())

    return V4("GOOG4-RSA-SHA256", "Goog", email, "auto/storage/goog4_request", sign)


def object_url(base: str, path: str) -> str:
    """The address of an object, with its name encoded the way the signature wants it."""
    return f"{base.rstrip('/')}/{quote(path, safe='/-_.~')}"


def _query(parameters: Mapping[str, str]) -> str:
    pairs = sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in parameters.items())
    return "&".join(f"{key}={value}" for key, value in pairs)
