"""Who calls: a bearer token that goes to the Kubernetes API as it is.

Where a model is asked for, it goes to the registry of the same cluster too; and nowhere else.

The gateway has no rights of its own and checks no token itself: the API server does. A token is
kept out of every ``repr``, log line and answer; where something has to be told apart by token, its
`Caller.key` is used, from which no token can be found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Final

__all__ = ["Caller", "Unauthenticated", "caller_of", "flow_of", "redacted"]

_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""What RFC 6750 calls b64token; everything that Kubernetes issues is one."""
_LONGEST: Final = 16 * 1024
_ACCOUNTS: Final = "system:serviceaccount:"
_BEARERS: Final = re.compile(r"(?i)(bearer\s+)[A-Za-z0-9\-._~+/]+=*")


class Unauthenticated(Exception):
    """The request says nothing usable about who sent it; the words are for people."""


@dataclass(frozen=True)
class Caller:
    """Somebody with a token of the cluster."""

    token: str = field(repr=False)
    address: str = ""
    """Where the request came from."""
    request_id: str = ""
    user: str = ""
    """The name that the API server knows the token by; set when it was asked."""

    @property
    def flow(self) -> str:
        """What limits go by; empty where nobody knows yet who calls."""
        return flow_of(self.user)

    @cached_property
    def key(self) -> str:
        """Tells tokens apart; says nothing about them."""
        return sha256(b"corral gateway\0" + self.token.encode()).hexdigest()


def flow_of(user: str) -> str:
    """Who shares limits: a user, or all service accounts of a namespace together.

    Anybody who may create service accounts could else have as many shares as he makes.
    """
    if not user.startswith(_ACCOUNTS):
        return user
    return _ACCOUNTS + user.removeprefix(_ACCOUNTS).partition(":")[0]


def caller_of(authorization: str | None, *, address: str = "", request_id: str = "") -> Caller:
    """The caller that an ``Authorization`` header names.

    Raises:
        Unauthenticated: there is no header, or none of a bearer token.
    """
    if not authorization:
        raise Unauthenticated(
            "this needs a token of the cluster: send `Authorization: Bearer TOKEN` "
            "(`kubectl create token NAME` makes one for a service account)"
        )
    scheme, _, token = authorization.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer":
        raise Unauthenticated("only bearer tokens are understood: `Authorization: Bearer TOKEN`")
    if len(token) > _LONGEST or not _TOKEN.fullmatch(token):
        raise Unauthenticated("what follows Bearer is no token: check that it was copied whole")
    return Caller(token, address, request_id)


def redacted(text: str) -> str:
    """A text that may be logged: whatever follows the word Bearer is left out."""
    return _BEARERS.sub(r"\1[redacted]", text)
