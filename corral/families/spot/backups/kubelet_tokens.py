"""The tokens that kubelets are shown: of a ServiceAccount that may checkpoint and nothing else.

A kubelet is a server on a machine that may be anybody's, and it has what it is sent. The account
has one right, ``create`` on ``nodes/checkpoint``, and a token is good for minutes. It is used again
until most of its time is over. ``corral install`` makes the account and gives the operator the
right to its tokens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from corral.families.spot.backups.engines import BackupError
from corral.kube.client import KubeClient
from corral.kube.errors import Forbidden, NotFound
from corral.kube.resources import SERVICEACCOUNTS

__all__ = ["KubeletTokens"]

_SECONDS: Final = 600
"""How long a token is good; the API server gives none for less."""
_USED: Final = 0.8
"""The part of its time in which a token is used."""


class KubeletTokens:
    """Tokens of one ServiceAccount, one at a time."""

    def __init__(
        self,
        client: KubeClient,
        account: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``account`` is ``NAMESPACE/NAME``; empty where there is none."""
        self._client = client
        self._namespace, _, self._name = account.partition("/")
        self._clock = clock
        self._lock = asyncio.Lock()
        self._token = ""
        self._until = 0.0

    async def current(self) -> str:
        """A token that is good for a request that begins now.

        Raises:
            BackupError: there is no account, or the operator may not have tokens of it.
            ApiError, KubeConnectionError: the API server cannot be asked.
        """
        if not self._name:
            raise BackupError(
                "the operator has no client certificate, and no ServiceAccount whose tokens "
                "kubelets are shown"
            )
        async with self._lock:
            if not self._token or self._clock() >= self._until:
                await self._renew()
            return self._token

    async def _renew(self) -> None:
        asked = self._clock()
        try:
            answer = await self._client.create_subresource(
                SERVICEACCOUNTS,
                self._name,
                namespace=self._namespace,
                subresource="token",
                body={
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenRequest",
                    "spec": {"expirationSeconds": _SECONDS},
                },
            )
        except (Forbidden, NotFound) as error:
            raise BackupError(
                "kubelets are shown tokens of the ServiceAccount "
                f"{self._namespace}/{self._name} only, and there is none: {error.message} "
                "(`corral install` makes it, and gives the right to its tokens)"
            ) from error
        given: Any = (answer.get("spec") or {}).get("expirationSeconds") or _SECONDS
        self._token = str(answer["status"]["token"])
        self._until = asked + float(given) * _USED
