"""Who asks: by a client certificate, by a token that the API server knows, or nobody."""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson
from aiohttp import web

from corral.cluster.node.server.memory import Memory
from corral.cluster.streaming import upgrade
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.connection.config import ConfigError
from corral.kube.errors import ApiError
from corral.kube.types import Obj

log = logging.getLogger(__name__)

TOKEN_TTL = 120.0
"""Seconds for which the answer about a token holds."""
MAX_TOKEN = 64 * 1024
AUTHENTICATED = "system:authenticated"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


@dataclass(frozen=True, slots=True)
class User:
    """As in the reviews of the API."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


class Unauthenticated(Exception):
    """Nobody we know."""


class Identity:
    """Finds the user of a request."""

    def __init__(self, client: KubeClient, memory: Memory[bytes, User | None]) -> None:
        self._client = client
        self._memory = memory

    async def user_of(self, request: web.BaseRequest, *, anonymous: bool) -> User:
        """Raises Unauthenticated; also when the API server cannot be asked about a token."""
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        if certificate and (user := user_of_certificate(certificate)) is not None:
            return user
        token = token_of(request)
        if not token:
            if anonymous:
                return ANONYMOUS
            raise Unauthenticated("no credentials")
        if len(token) > MAX_TOKEN:
            raise Unauthenticated("the token is too long")
        try:
            found = await self._memory.get(
                hashlib.sha256(token.encode()).digest(), partial(self._review, token)
            )
        except (ApiError, KubeConnectionError, ConfigError) as err:
            log.warning("a token could not be reviewed: %s", err)
            raise Unauthenticated("the token could not be reviewed") from err
        if found is None:
            raise Unauthenticated("the token is not valid")
        return found

    async def _review(self, token: str) -> tuple[User | None, float]:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        status = await answered(self._client, REVIEWS, review)
        if not status.get("authenticated"):
            return None, TOKEN_TTL
        return _user(status.get("user") or {}), TOKEN_TTL


async def answered(client: KubeClient, path: str, review: Obj) -> Obj:
    """The status of a review. Raises ApiError, KubeConnectionError, ConfigError."""
    body = await client.request("POST", path, body=review)
    try:
        status = orjson.loads(body).get("status") or {}
    except (orjson.JSONDecodeError, AttributeError) as err:
        raise KubeConnectionError("the answer to a review is no object") from err
    assert isinstance(status, dict)
    return status


def user_of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """The common name is the user, the organisations are the groups."""
    fields = [pair for part in certificate.get("subject", ()) for pair in part]
    name = next((value for key, value in reversed(fields) if key == "commonName"), "")
    if not name:
        return None
    groups = [value for key, value in fields if key == "organizationName"]
    return User(name, groups=(*groups, AUTHENTICATED))


def token_of(request: web.BaseRequest) -> str:
    """From the Authorization header, or in the clothes of a WebSocket protocol."""
    kind, _, value = request.headers.get("Authorization", "").strip().partition(" ")
    if kind.lower() == "bearer" and value.strip():
        return value.strip()
    if not upgrade.is_websocket(request):
        return ""
    offered = ",".join(request.headers.getall(upgrade.SOCKET_PROTOCOL_HEADER, ()))
    for name in map(str.strip, offered.split(",")):
        if name.startswith(upgrade.BEARER_PREFIX):
            text = name.removeprefix(upgrade.BEARER_PREFIX)
            try:
                return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
            except (binascii.Error, UnicodeDecodeError):
                return ""
    return ""


def _user(found: Mapping[str, Any]) -> User | None:
    name = found.get("username")
    if not name:
        return None
    groups = tuple(found.get("groups") or ())
    if AUTHENTICATED not in groups:
        groups += (AUTHENTICATED,)
    extra = tuple((key, tuple(values)) for key, values in (found.get("extra") or {}).items())
    return User(name, uid=found.get("uid") or "", groups=groups, extra=extra)
