"""Tokens kept in Secrets of type ``kubernetes.io/service-account-token``.

They never expire; they hold as long as the Secret holds the very same token and the service
account is still the one they were made for.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from typing import Any, TypeAlias

from corral.cluster.apiserver.auth import users
from corral.cluster.apiserver.auth.users import UserInfo
from corral.kube.types import Obj

__all__ = ["SECRET_ISSUER", "Lookup", "TokenRejected", "secret_claims", "secret_token_user"]

SECRET_ISSUER = "kubernetes/serviceaccount"
_CLAIM = "kubernetes.io/serviceaccount/"
_INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"

Lookup: TypeAlias = Callable[[str, str, str], Obj | None]
"""(resource, namespace, name) to the stored object."""


class TokenRejected(ValueError):
    """A token of ours that does not hold, with the reason a TokenReview prints."""


def secret_claims(namespace: str, account: str, uid: str, secret: str) -> dict[str, Any]:
    """What the token in a Secret says."""
    return {
        "iss": SECRET_ISSUER,
        "sub": users.service_account_username(namespace, account),
        f"{_CLAIM}namespace": namespace,
        f"{_CLAIM}secret.name": secret,
        f"{_CLAIM}service-account.name": account,
        f"{_CLAIM}service-account.uid": uid,
    }


def secret_token_user(claims: dict[str, Any], token: str, lookup: Lookup) -> UserInfo:
    """Who a verified token from a Secret stands for. Raises: TokenRejected."""
    namespace = claims.get(f"{_CLAIM}namespace", "")
    name = claims.get(f"{_CLAIM}service-account.name", "")
    uid = claims.get(f"{_CLAIM}service-account.uid", "")
    secret_name = claims.get(f"{_CLAIM}secret.name", "")
    if users.split_service_account(claims.get("sub", "")) != (namespace, name):
        raise TokenRejected("sub claim is invalid")
    secret = lookup("secrets", namespace, secret_name)
    if secret is None or secret["metadata"].get("deletionTimestamp"):
        raise TokenRejected("Token has been invalidated")
    kept = base64.b64decode((secret.get("data") or {}).get("token", ""))
    if not hmac.compare_digest(kept, token.encode()):
        raise TokenRejected("Token does not match server's copy")
    account = lookup("serviceaccounts", namespace, name)
    if account is None:
        raise TokenRejected(f'serviceaccounts "{name}" not found')
    if account["metadata"].get("deletionTimestamp"):
        raise TokenRejected(f"ServiceAccount {namespace}/{name} has been deleted")
    if account["metadata"].get("uid", "") != uid:
        found = account["metadata"].get("uid", "")
        raise TokenRejected(f"ServiceAccount UID ({found}) does not match claim ({uid})")
    if (secret["metadata"].get("labels") or {}).get(_INVALID_SINCE):
        raise TokenRejected(
            f"the token in secret {namespace}/{secret_name} for service account "
            f"{namespace}/{name} has been marked invalid. Use tokens from the TokenRequest API "
            "or manually created secret-based tokens, or remove the "
            f"'{_INVALID_SINCE}' label from the secret to temporarily allow use of this token"
        )
    groups = (*users.service_account_groups(namespace), users.AUTHENTICATED)
    return UserInfo(users.service_account_username(namespace, name), uid, groups)
