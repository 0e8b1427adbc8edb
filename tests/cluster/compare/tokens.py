"""Tokens that a server must refuse, and one it must take, signed with each server's own key."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from tests.cluster.compare.kinds import BAD as NAMESPACE
from tests.cluster.compare.pair import Request, Side

ISSUER = "https://kubernetes.default.svc.cluster.local"


def give_tokens(side: Side) -> None:
    """Fill the side's tokens; each name says what is wrong with it."""
    folder = Path(side.backend.folder)
    found = [p for p in (folder / "sa.key", folder / "data" / "pki" / "sa.key") if p.exists()]
    key = serialization.load_pem_private_key(found[0].read_bytes(), None)
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    uid = json.loads(side.send(Request("GET", path)).body)["metadata"]["uid"]
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    issued = json.loads(side.send(Request("POST", f"{path}/token", asked)).body)
    good = issued["status"]["token"]
    header, payload, signature = good.split(".")
    wrong_uid = "00000000-0000-0000-0000-000000000000"
    side.tokens = {
        "good": good,
        "truncated": good[:-20],
        "tampered": f"{header}.{_encode({**_claims(uid), 'sub': 'system:admin'})}.{signature}",
        "unsigned": f"{_encode({'alg': 'none', 'typ': 'JWT'})}.{payload}.",
        "expired": _sign(key, header, _claims(uid, life=-3600)),
        "not-yet": _sign(key, header, _claims(uid, start=3600)),
        "other-key": _sign(other, header, _claims(uid)),
        "other-issuer": _sign(key, header, {**_claims(uid), "iss": "https://elsewhere"}),
        "other-audience": _sign(key, header, {**_claims(uid), "aud": ["elsewhere"]}),
        "other-uid": _sign(key, header, _claims(wrong_uid)),
        "no-claims": _sign(key, header, {"iss": ISSUER, "aud": [ISSUER]}),
    }


def _claims(uid: str, *, life: int = 3600, start: int = 0) -> dict[str, Any]:
    now = int(time.time())
    return {
        "aud": [ISSUER],
        "exp": now + life + start,
        "iat": now + start - 7200,
        "nbf": now + start - (7200 if not start else 0),
        "iss": ISSUER,
        "sub": f"system:serviceaccount:{NAMESPACE}:default",
        "kubernetes.io": {
            "namespace": NAMESPACE,
            "serviceaccount": {"name": "default", "uid": uid},
        },
    }


def _sign(key: Any, header: str, claims: dict[str, Any]) -> str:
    """Signed in the way the header of a good token says; other keys sign as they can."""
    text = f"{header}.{_encode(claims)}"
    if isinstance(key, ec.EllipticCurvePrivateKey):
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    else:
        signature = key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{text}.{_base64(signature)}"


def _encode(value: dict[str, Any]) -> str:
    return _base64(json.dumps(value).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
