"""Who makes a request: the user, and the reserved names of users and groups."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from corral.kube.types import Obj

__all__ = [
    "ANONYMOUS",
    "AUTHENTICATED",
    "CREDENTIAL_ID",
    "MASTERS",
    "NODES",
    "UNAUTHENTICATED",
    "UserInfo",
    "node_name",
    "service_account_groups",
    "service_account_username",
    "split_service_account",
]

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
NODES = "system:nodes"
NODE_PREFIX = "system:node:"
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
SERVICE_ACCOUNTS = "system:serviceaccounts"

CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"
EXTRA_NODE_NAME = "authentication.kubernetes.io/node-name"
EXTRA_NODE_UID = "authentication.kubernetes.io/node-uid"

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)


@dataclass(frozen=True, slots=True)
class UserInfo:
    """An authenticated identity; equal users have equal rights."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def as_object(self) -> Obj:
        """The ``UserInfo`` of the authentication API; empty fields are left out."""
        out: Obj = {}
        if self.name:
            out["username"] = self.name
        if self.uid:
            out["uid"] = self.uid
        if self.groups:
            out["groups"] = list(self.groups)
        if self.extra:
            out["extra"] = {key: list(values) for key, values in sorted(self.extra.items())}
        return out


def service_account_username(namespace: str, name: str) -> str:
    return f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, str]:
    return SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}"


def split_service_account(username: str) -> tuple[str, str] | None:
    """Namespace and name, or None when the user is not a well-formed service account."""
    if not username.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, colon, name = username[len(SERVICE_ACCOUNT_PREFIX) :].partition(":")
    if not colon or not _LABEL.fullmatch(namespace) or not _SUBDOMAIN.fullmatch(name):
        return None
    return namespace, name


def node_name(username: str) -> str | None:
    """The node of a ``system:node:NAME`` user with a well-formed name."""
    if not username.startswith(NODE_PREFIX):
        return None
    name = username[len(NODE_PREFIX) :]
    return name if _SUBDOMAIN.fullmatch(name) else None
