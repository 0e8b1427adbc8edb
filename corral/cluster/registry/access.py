"""Who may do what in a registry.

A caller shows a token of the cluster's API, as Bearer or as the password of Basic (any user name);
the API server says whose it is. Then:

- administrators (``system:masters``) and the operator may do everything;
- a service account may read what is below the repository named as its namespace; with a token
  whose audience is ``registry.corral.dev`` it may also push there: pods of the operator have such
  tokens where they deliver something, and the tokens of ordinary pods are others;
- anyone else, and for anything else, is asked about at the API server: may they ``get``,
  ``create`` or ``delete`` ``repositories`` of ``registry.corral.dev`` in the namespace that the
  repository's name begins with.

Nodes have no rights of their own: they pull with a token of the pod that they pull for.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from ipaddress import ip_address
from typing import Final, Protocol

from corral.cluster.node.server.identity import REVIEWS, User, answered
from corral.cluster.node.server.memory import Memory
from corral.cluster.registry.errors import Refused
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.connection.config import ConfigError
from corral.kube.errors import ApiError
from corral.oci.own import AUDIENCE, PULL_AUDIENCE

__all__ = ["Access", "Action", "ClusterAccess", "OpenAccess", "token_of"]

GROUP: Final = "registry.corral.dev"
RESOURCE: Final = "repositories"
OPERATOR: Final = "corral:operator"

_MASTERS: Final = "system:masters"
_ACCOUNT: Final = "system:serviceaccount:"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_REMEMBER: Final = 60.0
"""Seconds for which an answer about a token holds."""
_REMEMBER_RIGHT: Final = 10.0
_REMEMBER_REFUSAL: Final = 1.0
"""Short: who is refused asks for the right, and tries again."""
_REVIEWS: Final = 32
"""At a time; others wait: made-up tokens cost the API server no more than this."""
_LONGEST: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Caller:
    """Who shows a token, and whether that was made for registries."""

    user: User
    pushes: bool = False


class Action(StrEnum):
    """What is done, as the API's verbs."""

    read = "get"
    write = "create"
    delete = "delete"


class Access(Protocol):
    """Decides about requests."""

    async def check(
        self, authorization: str, *, peer: str, action: Action, repository: str
    ) -> str | None:
        """Who it is, where that is known. Raises Refused; an empty repository is the registry."""

    async def close(self) -> None:
        """No more questions."""


class OpenAccess:
    """Everybody may do everything: for tests, and behind something that asks."""

    async def check(
        self, authorization: str, *, peer: str, action: Action, repository: str
    ) -> None:
        return None

    async def close(self) -> None:
        return None


class ClusterAccess:
    """By the tokens and rights of a cluster."""

    def __init__(self, client: KubeClient, *, anonymous_read: bool = False) -> None:
        """``anonymous_read``: whether callers on this machine may read without a token."""
        self._client = client
        self._anonymous_read = anonymous_read
        self._users: Memory[bytes, Caller] = Memory()
        self._reviews = asyncio.Semaphore(_REVIEWS)
        self._rights: Memory[tuple[str, ...], bool] = Memory()

    async def close(self) -> None:
        await self._users.close()
        await self._rights.close()

    async def check(
        self, authorization: str, *, peer: str, action: Action, repository: str
    ) -> str | None:
        token = token_of(authorization)
        if not token:
            if self._anonymous_read and action is Action.read and _is_loopback(peer):
                return None
            raise _unauthorized("show a token of the cluster")
        try:
            caller = await self._user(token)
            if repository and not await self._may(caller, action, repository):
                words = f"{caller.user.name} may not {action.value} the repository {repository}"
                raise Refused(403, "DENIED", words)
            return caller.user.name
        except (ApiError, KubeConnectionError, ConfigError) as error:
            words = "the API server cannot be asked about this token now: try again"
            raise Refused(503, "UNAVAILABLE", words, {"Retry-After": "1"}) from error

    async def _user(self, token: str) -> Caller:
        key = hashlib.sha256(token.encode()).digest()
        return await self._users.get(key, partial(self._review, token))

    async def _review(self, token: str) -> tuple[Caller, float]:
        """Raises Refused; that is not remembered: made-up tokens take no place of known ones."""
        async with self._reviews:
            known = await self._reviewed(token, [])
            if known is None:
                known = await self._reviewed(token, [AUDIENCE, PULL_AUDIENCE])
        if known is None:
            raise _unauthorized("the API server does not know this token")
        return known, _REMEMBER

    async def _reviewed(self, token: str, audiences: list[str]) -> Caller | None:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, **({"audiences": audiences} if audiences else {})},
        }
        status = await answered(self._client, REVIEWS, review)
        found = status.get("user") or {}
        if not status.get("authenticated") or not found.get("username"):
            return None
        granted = set(status.get("audiences") or ()) & set(audiences)
        if audiences and not granted:
            return None  # an API server that does not look at audiences has not checked this one
        groups = tuple(found.get("groups") or ())
        extra = tuple((key, tuple(values)) for key, values in (found.get("extra") or {}).items())
        user = User(found["username"], found.get("uid") or "", groups, extra)
        return Caller(user, pushes=AUDIENCE in granted)

    async def _may(self, caller: Caller, action: Action, repository: str) -> bool:
        if may_by_name(caller, action, repository):
            return True
        user = caller.user
        namespace, _, name = repository.partition("/")
        key = (user.name, user.uid, *user.groups, action.value, repository)
        return await self._rights.get(key, partial(self._ask, user, action, namespace, name))

    async def _ask(
        self, user: User, action: Action, namespace: str, name: str
    ) -> tuple[bool, float]:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.name,
                "uid": user.uid,
                "groups": list(user.groups),
                "extra": {key: list(values) for key, values in user.extra},
                "resourceAttributes": {
                    "group": GROUP,
                    "resource": RESOURCE,
                    "verb": action.value,
                    "namespace": namespace,
                    "name": name,
                },
            },
        }
        status = await answered(self._client, _ACCESS_REVIEWS, review)
        allowed = bool(status.get("allowed"))
        return allowed, _REMEMBER_RIGHT if allowed else _REMEMBER_REFUSAL


def may_by_name(caller: Caller, action: Action, repository: str) -> bool:
    """What needs no question."""
    user = caller.user
    if _MASTERS in user.groups or user.name == OPERATOR:
        return True
    if not user.name.startswith(_ACCOUNT):
        return False
    namespace = user.name.removeprefix(_ACCOUNT).partition(":")[0]
    pushes = caller.pushes and action is Action.write
    return repository.startswith(f"{namespace}/") and (action is Action.read or pushes)


def token_of(authorization: str) -> str:
    """The token that a header shows; empty where it shows none."""
    kind, _, value = authorization.strip().partition(" ")
    value = value.strip()
    if len(value) > _LONGEST:
        return ""
    if kind.lower() == "bearer":
        return value
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _unauthorized(words: str) -> Refused:
    how = f"{words}: as Bearer, or as the password of any user (`kubectl create token NAME`)"
    return Refused(401, "UNAUTHORIZED", how, {"WWW-Authenticate": 'Basic realm="corral"'})


def _is_loopback(peer: str) -> bool:
    try:
        return ip_address(peer).is_loopback
    except ValueError:
        return False
