"""Who is asking: client certificate, bearer token, or nobody.

Guarantees: credentials that are given and wrong are refused (401), never taken as anonymous; a
request without any is anonymous, where that is allowed. A verified token is remembered by its
hash for ten seconds, as long as kube-apiserver remembers it, so the objects it is bound to are
looked up no more often than that; the signature is checked only once.
"""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import io
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from corral.cluster.apiserver.auth.tokens import (
    DEFAULT_ISSUER,
    Clock,
    ServiceAccountTokens,
    TokenRejected,
)
from corral.cluster.apiserver.auth.users import (
    ANONYMOUS,
    AUTHENTICATED,
    CREDENTIAL_ID,
    UNAUTHENTICATED,
    UserInfo,
)
from corral.kube.errors import Unauthorized
from corral.kube.types import Obj

__all__ = ["Authenticator", "parse_token_file", "user_from_certificate"]

NOBODY = UserInfo(ANONYMOUS, groups=(UNAUTHENTICATED,))
TOKEN_TTL_SECONDS = 10.0
_TOKENS_KEPT = 4096
_CERTIFICATES_KEPT = 1024
_INVALID = "invalid bearer token"
_WEBSOCKET_BEARER = "base64url.bearer.authorization.k8s.io."
_UID_OID = "1.3.6.1.4.1.57683.2"


class _Verified(NamedTuple):
    claims: dict[str, Any]
    user: UserInfo
    until: float


class Authenticator:
    """Finds the user of a request."""

    def __init__(
        self,
        *,
        service_accounts: ServiceAccountTokens | None = None,
        static_tokens: Mapping[str, UserInfo] | None = None,
        audiences: Sequence[str] = (DEFAULT_ISSUER,),
        anonymous: bool = True,
        clock: Clock = time.monotonic,
    ) -> None:
        """``clock`` says how long a verified token is believed: one that cannot be put back."""
        self._service_accounts = service_accounts
        self._static = {token: _authenticated(u) for token, u in (static_tokens or {}).items()}
        self._audiences = tuple(audiences)
        self._anonymous = anonymous
        self._clock = clock
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()
        self._certificates: dict[bytes, UserInfo | None] = {}

    def authenticate(
        self,
        authorization: str | None = None,
        *,
        certificate: bytes | Mapping[str, Any] | None = None,
        protocols: str | None = None,
    ) -> UserInfo:
        """The user of a request.

        ``authorization`` and ``protocols`` are the headers Authorization and
        Sec-WebSocket-Protocol; ``certificate`` is the peer's, verified by TLS, as DER or as the
        dict of ``getpeercert()``. Raises: Unauthorized.
        """
        if certificate:
            user = self._certificate_user(certificate)
            if user is not None:
                return user
        token = _bearer(authorization) if authorization else _websocket_bearer(protocols)
        if token is None:
            if self._anonymous:
                return NOBODY
            raise Unauthorized("Unauthorized")
        try:
            return self._token_user(token)
        except TokenRejected as error:
            raise Unauthorized("Unauthorized") from error

    def token_review(self, spec: Obj) -> Obj:
        """The status of a TokenReview."""
        token = spec.get("token", "")
        wanted = spec.get("audiences") or self._audiences
        try:
            user, granted = self._review(token, wanted)
        except TokenRejected as error:
            reason = str(error)
            return {
                "user": {},
                "error": _INVALID if reason == _INVALID else f"[{_INVALID}, {reason}]",
            }
        return {"authenticated": True, "user": user.as_object(), "audiences": granted}

    def forget_tokens(self) -> None:
        """Verify every token anew from here on."""
        self._verified.clear()

    def _certificate_user(self, certificate: bytes | Mapping[str, Any]) -> UserInfo | None:
        if not isinstance(certificate, bytes):
            return user_from_certificate(certificate)
        try:
            return self._certificates[certificate]
        except KeyError:
            if len(self._certificates) >= _CERTIFICATES_KEPT:
                self._certificates.clear()
            user = self._certificates[certificate] = user_from_certificate(certificate)
            return user

    def _token_user(self, token: str) -> UserInfo:
        static = self._static.get(token)
        if static is not None:
            return static
        digest = _digest(token)
        known = self._verified.get(digest)
        if known is not None and self._clock() < known.until:
            self._verified.move_to_end(digest)
            return known.user
        return self._verify(digest, token, self._audiences)[0]

    def _review(self, token: str, wanted: Sequence[str]) -> tuple[UserInfo, list[str]]:
        static = self._static.get(token)
        if static is not None:
            granted = [audience for audience in self._audiences if audience in wanted]
            if not granted:
                raise TokenRejected(_INVALID)
            return static, granted
        return self._verify(_digest(token), token, wanted)

    def _verify(
        self, digest: bytes, token: str, audiences: Sequence[str]
    ) -> tuple[UserInfo, list[str]]:
        if self._service_accounts is None:
            raise TokenRejected(_INVALID)
        known = self._verified.get(digest)
        claims = known.claims if known else self._service_accounts.verify(token)
        if claims is None:
            raise TokenRejected(_INVALID)
        user, granted = self._service_accounts.user(claims, token, audiences)
        if audiences == self._audiences:
            left = self._service_accounts.seconds_left(claims)
            until = self._clock() + max(min(TOKEN_TTL_SECONDS, left), 0.0)
            self._verified[digest] = _Verified(claims, user, until)
            self._verified.move_to_end(digest)
            if len(self._verified) > _TOKENS_KEPT:
                self._verified.popitem(last=False)
        return user, granted


def _digest(token: str) -> bytes:
    # Header bytes that are no text arrive as lone surrogates; they must not break hashing.
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _authenticated(user: UserInfo) -> UserInfo:
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return UserInfo(user.name, user.uid, (*user.groups, AUTHENTICATED), user.extra)


def _bearer(authorization: str) -> str | None:
    parts = authorization.strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer" or not parts[1]:
        return None
    return parts[1]


def _websocket_bearer(protocols: str | None) -> str | None:
    """Browsers cannot set headers on a websocket, so the token may come as a subprotocol."""
    for protocol in protocols.split(",") if protocols else ():
        encoded = protocol.strip()
        if encoded.startswith(_WEBSOCKET_BEARER):
            text = encoded[len(_WEBSOCKET_BEARER) :]
            try:
                return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode() or None
            except (binascii.Error, ValueError) as error:
                raise Unauthorized("Unauthorized") from error
    return None


def user_from_certificate(certificate: bytes | Mapping[str, Any]) -> UserInfo | None:
    """The user a client certificate names: CN is the name, every O a group."""
    if isinstance(certificate, bytes):
        names, extra = _der_subject(certificate)
    else:
        names = [pair for rdn in certificate.get("subject", ()) for pair in rdn]
        extra = {}
    subject: dict[str, list[str]] = {}
    for key, value in names:
        subject.setdefault(key, []).append(value)
    if not subject.get("commonName"):
        return None
    uid = subject["uid"][0] if "uid" in subject else ""
    groups = tuple(subject.get("organizationName", ()))
    return _authenticated(UserInfo(subject["commonName"][-1], uid, groups, extra))


def _der_subject(der: bytes) -> tuple[list[tuple[str, str]], dict[str, tuple[str, ...]]]:
    # Imported here: processes that never see a client certificate need not load it.
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    labels = {
        NameOID.COMMON_NAME: "commonName",
        NameOID.ORGANIZATION_NAME: "organizationName",
        x509.ObjectIdentifier(_UID_OID): "uid",
    }
    names = [
        (labels[attribute.oid], str(attribute.value))
        for attribute in x509.load_der_x509_certificate(der).subject
        if attribute.oid in labels
    ]
    fingerprint = hashlib.sha256(der).hexdigest()
    return names, {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}


def parse_token_file(text: str) -> dict[str, UserInfo]:
    """Read a static token file: ``token,user,uid[,"group1,group2"]`` a line.

    Raises: ValueError for a line with fewer than three columns.
    """
    tokens: dict[str, UserInfo] = {}
    for row in csv.reader(io.StringIO(text)):
        if not row:
            continue
        if len(row) < 3:
            raise ValueError(
                "token file must have at least 3 columns (token, user name, user uid), "
                f"found {len(row)}"
            )
        if row[0]:
            groups = tuple(row[3].split(",")) if len(row) >= 4 else ()
            tokens[row[0]] = UserInfo(row[1], row[2], groups)
    return tokens
