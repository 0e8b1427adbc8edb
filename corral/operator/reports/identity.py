"""Which pod a request is from.

The token must be for our audience and bound to a pod; the API server says so (TokenReview), and
says which pod. A positive answer counts for a minute, a negative one not at all: a token that is
renewed in place works at once, and a pod that was deleted is out when its minute is over. Tokens
are remembered by their hash only.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.errors import ApiError
from corral.kube.resources import TOKENREVIEWS
from corral.kube.types import Obj
from corral.operator.reports.errors import Unauthorized, Unavailable

__all__ = ["PodIdentity", "TokenChecker"]

logger = logging.getLogger(__name__)

_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"
_ACCOUNT = "system:serviceaccount:"
MAX_TOKEN = 16 << 10
"""Bytes; no token of an API server is as long."""
MAX_REMEMBERED = 20_000
MAX_REVIEWS = 64
"""At a time; others wait: whoever sends made-up tokens costs the API server no more than this."""


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """Whom a token is bound to."""

    namespace: str
    pod: str
    uid: str


class TokenChecker:
    """Asks the API server about tokens."""

    def __init__(
        self,
        client: KubeClient,
        audience: str,
        *,
        remember: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``remember``: seconds that a positive answer counts."""
        self._client = client
        self._audience = audience
        self._remember = remember
        self._clock = clock
        self._known: dict[bytes, tuple[float, PodIdentity]] = {}
        """By hash, oldest first: all count for the same time."""
        self._reviews = asyncio.Semaphore(MAX_REVIEWS)

    async def identify(self, authorization: str) -> PodIdentity:
        """The pod that sent this ``Authorization`` header.

        Raises:
            Unauthorized: it proves nothing.
            Unavailable: the API server cannot be asked.
        """
        kind, _, token = authorization.partition(" ")
        token = token.strip()
        if kind.lower() != "bearer" or not token or len(token) > MAX_TOKEN:
            raise Unauthorized("send the pod's service-account token: Authorization: Bearer …")
        digest = hashlib.sha256(token.encode()).digest()
        self._forget()
        known = self._known.get(digest)
        if known is not None:
            return known[1]
        identity = _identity(await self._review(token), self._audience)
        self._known[digest] = (self._clock() + self._remember, identity)
        return identity

    async def _review(self, token: str) -> Obj:
        review: Obj = {"spec": {"token": token, "audiences": [self._audience]}}
        try:
            async with self._reviews:
                answer = await self._client.create(TOKENREVIEWS, review)
        except (ApiError, KubeConnectionError) as error:
            logger.warning("a token could not be reviewed: %s", error)
            raise Unavailable("the token cannot be checked now") from error
        status: Obj = answer.get("status") or {}
        return status

    def _forget(self) -> None:
        now = self._clock()
        while self._known:
            digest, (until, _) = next(iter(self._known.items()))
            if until > now and len(self._known) < MAX_REMEMBERED:
                return
            del self._known[digest]


def _identity(status: Obj, audience: str) -> PodIdentity:
    if not status.get("authenticated"):
        raise Unauthorized("the token is not valid, or not for this audience")
    if audience not in (status.get("audiences") or ()):
        # A server that knows no audiences leaves the field out: then nothing was checked.
        raise Unauthorized(f"the token is not for audience {audience}")
    user = status.get("user") or {}
    extra = user.get("extra") or {}
    name, uid = (_single(extra.get(key)) for key in (_POD_NAME, _POD_UID))
    account = str(user.get("username") or "")
    if not account.startswith(_ACCOUNT) or not name or not uid:
        raise Unauthorized("the token is not bound to a pod")
    namespace = account.removeprefix(_ACCOUNT).partition(":")[0]
    return PodIdentity(namespace, name, uid)


def _single(values: object) -> str:
    return str(values[0]) if isinstance(values, list) and len(values) == 1 else ""
