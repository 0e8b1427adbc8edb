"""Service account tokens: issuing them, and finding out whether one still holds.

A token is bound to its service account and, where asked for, to a pod, secret or node: it dies
with any of them. Objects are looked up through a callback, ``lookup(resource, namespace, name)``.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from corral.cluster.apiserver.auth import users
from corral.cluster.apiserver.auth.jwt import JwtError, Signer, Verifier, unverified_claims
from corral.cluster.apiserver.auth.rules import quote
from corral.cluster.apiserver.auth.secret_tokens import (
    SECRET_ISSUER,
    Lookup,
    TokenRejected,
    secret_claims,
    secret_token_user,
)
from corral.cluster.apiserver.auth.users import UserInfo
from corral.kube.types import Obj

__all__ = [
    "DEFAULT_ISSUER",
    "BoundObject",
    "Lookup",
    "ServiceAccountTokens",
    "TokenIssuer",
    "TokenRejected",
]

DEFAULT_ISSUER = "https://kubernetes.default.svc.cluster.local"
WARN_ONLY_SECONDS = 3607
"""A pod asking for exactly this gets a token of a year that warns after an hour."""
EXTENDED_SECONDS = 365 * 24 * 3600
LEEWAY_SECONDS = 60

Clock: TypeAlias = Callable[[], float]


@dataclass(frozen=True, slots=True)
class BoundObject:
    """What a token is bound to: a Pod (with its node), a Secret or a Node."""

    kind: str
    name: str
    uid: str
    node_name: str = ""
    node_uid: str = ""

    def claims(self) -> dict[str, Any]:
        out = {self.kind.lower(): {"name": self.name, "uid": self.uid}}
        if self.kind == "Pod" and self.node_name:
            out["node"] = _reference(self.node_name, self.node_uid)
        return out


def _reference(name: str, uid: str) -> dict[str, str]:
    return {"name": name, "uid": uid} if uid else {"name": name}


class TokenIssuer:
    """Signs service account tokens and publishes what others need to verify them."""

    def __init__(
        self,
        signer: Signer,
        *,
        issuer: str = DEFAULT_ISSUER,
        audiences: Sequence[str] = (),
        verifiers: Sequence[Verifier] = (),
        clock: Clock = time.time,
    ) -> None:
        self._signer = signer
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        self.verifiers = (signer.verifier, *verifiers)
        self.clock = clock

    def issue(
        self,
        namespace: str,
        sa: str,
        *,
        sa_uid: str,
        audiences: Sequence[str] = (),
        expiration: int = 3600,
        bound_object: BoundObject | None = None,
    ) -> tuple[str, str]:
        """A token and its expirationTimestamp."""
        now = int(self.clock())
        wanted = list(audiences) or list(self.audiences)
        private: dict[str, Any] = {
            "namespace": namespace,
            "serviceaccount": {"name": sa, "uid": sa_uid},
            **(bound_object.claims() if bound_object else {}),
        }
        lifetime = expiration
        if (
            bound_object is not None
            and bound_object.kind == "Pod"
            and expiration == WARN_ONLY_SECONDS
            and set(wanted) <= set(self.audiences)
        ):
            private["warnafter"] = now + expiration
            lifetime = EXTENDED_SECONDS
        claims = {
            "iss": self.issuer,
            "sub": users.service_account_username(namespace, sa),
            "aud": wanted,
            "iat": now,
            "nbf": now,
            "exp": now + lifetime,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
        }
        expires = datetime.fromtimestamp(now + expiration, UTC)
        return self._signer.sign(claims), expires.strftime("%Y-%m-%dT%H:%M:%SZ")

    def issue_for_secret(self, namespace: str, sa: str, *, sa_uid: str, secret: str) -> str:
        """The token to keep in a Secret of type kubernetes.io/service-account-token."""
        return self._signer.sign(secret_claims(namespace, sa, sa_uid, secret))

    def openid_configuration(self, server: str) -> Obj:
        """The document of ``/.well-known/openid-configuration``; server is the public URL."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{server.rstrip('/')}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted(
                {verifier.algorithm for verifier in self.verifiers}
            ),
        }

    def jwks(self) -> Obj:
        """The document of ``/openid/v1/jwks``."""
        return {"keys": [verifier.jwk() for verifier in self.verifiers]}


class ServiceAccountTokens:
    """Verifies the tokens of one issuer."""

    def __init__(self, issuer: TokenIssuer, lookup: Lookup) -> None:
        self._issuer = issuer
        self._lookup = lookup

    def verify(self, token: str) -> dict[str, Any] | None:
        """The claims, None when the token is not from this issuer. Raises: TokenRejected."""
        claims = unverified_claims(token)
        if claims is None or claims.get("iss") not in (self._issuer.issuer, SECRET_ISSUER):
            return None
        error: JwtError | None = None
        for verifier in self._issuer.verifiers:
            try:
                return verifier.verify(token)
            except JwtError as failure:
                error = failure
        raise TokenRejected(str(error)) from error

    def user(
        self, claims: dict[str, Any], token: str, audiences: Sequence[str]
    ) -> tuple[UserInfo, list[str]]:
        """Who the verified claims of a token stand for now, and for which of the audiences.

        Raises: TokenRejected.
        """
        granted = self._audiences(claims, audiences)
        if claims["iss"] == SECRET_ISSUER:
            return secret_token_user(claims, token, self._lookup), granted
        self._check_times(claims)
        private = claims.get("kubernetes.io") or {}
        namespace = private.get("namespace", "")
        account = private.get("serviceaccount") or {}
        self._check_account(namespace, account)
        extra = self._check_bound(namespace, private)
        if claims.get("jti"):
            extra[users.CREDENTIAL_ID] = (f"JTI={claims['jti']}",)
        name = account.get("name", "")
        groups = (*users.service_account_groups(namespace), users.AUTHENTICATED)
        username = users.service_account_username(namespace, name)
        return UserInfo(username, account.get("uid", ""), groups, extra), granted

    def _audiences(self, claims: dict[str, Any], wanted: Sequence[str]) -> list[str]:
        given = claims.get("aud") or list(self._issuer.audiences)
        if isinstance(given, str):
            given = [given]
        granted = [audience for audience in given if audience in wanted]
        if not granted:
            raise TokenRejected(
                f"token audiences {quote(given)} is invalid for the target audiences "
                f"{quote(wanted)}"
            )
        return granted

    def seconds_left(self, claims: dict[str, Any]) -> float:
        """For how long verified claims are good."""
        now = self._issuer.clock()
        return float(claims.get("exp", now + 3600)) - now

    def _check_times(self, claims: dict[str, Any]) -> None:
        now = self._issuer.clock()
        if now - LEEWAY_SECONDS > claims.get("exp", now):
            raise TokenRejected("service account token has expired")
        if now + LEEWAY_SECONDS < claims.get("nbf", 0):
            raise TokenRejected("service account token is not valid yet")
        if now + LEEWAY_SECONDS < claims.get("iat", 0):
            raise TokenRejected("service account token is issued in the future")

    def _check_account(self, namespace: str, account: dict[str, Any]) -> None:
        name = account.get("name", "")
        found = self._lookup("serviceaccounts", namespace, name)
        if found is None:
            raise TokenRejected(f'serviceaccounts "{name}" not found')
        uid = found["metadata"].get("uid", "")
        if uid != account.get("uid", ""):
            claimed = account.get("uid", "")
            raise TokenRejected(f"service account UID ({uid}) does not match claim ({claimed})")
        if self._long_deleted(found):
            raise TokenRejected(f"service account {namespace}/{name} has been deleted")

    def _check_bound(self, namespace: str, private: dict[str, Any]) -> dict[str, tuple[str, ...]]:
        extra: dict[str, tuple[str, ...]] = {}
        if secret := private.get("secret"):
            self._check_reference("secret", namespace, secret)
        if pod := private.get("pod"):
            self._check_reference("pod", namespace, pod)
            extra[users.POD_NAME] = (pod["name"],)
            extra[users.POD_UID] = (pod["uid"],)
        if node := private.get("node"):
            if not pod:
                self._check_reference("node", "", node)
            extra[users.EXTRA_NODE_NAME] = (node["name"],)
            if node.get("uid"):
                extra[users.EXTRA_NODE_UID] = (node["uid"],)
        return extra

    def _check_reference(self, kind: str, namespace: str, ref: dict[str, Any]) -> None:
        found = self._lookup(f"{kind}s", namespace, ref.get("name", ""))
        if found is None:
            raise TokenRejected("service account token has been invalidated")
        uid = found["metadata"].get("uid", "")
        if uid != ref.get("uid"):
            raise TokenRejected(
                f"{kind} UID ({uid}) does not match service account {kind} ref claim "
                f"({ref.get('uid')})"
            )
        if self._long_deleted(found):
            raise TokenRejected("service account token has been invalidated")

    def _long_deleted(self, obj: Obj) -> bool:
        deleted = obj["metadata"].get("deletionTimestamp")
        if not deleted:
            return False
        when = datetime.fromisoformat(deleted).timestamp()
        return when < self._issuer.clock() - LEEWAY_SECONDS
