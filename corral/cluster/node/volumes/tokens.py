"""Service account tokens of pods: asked for, kept, and asked for again in good time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from corral.cluster.node.timestamps import parse_time
from corral.cluster.node.volumes.references import tokens_of
from corral.cluster.node.volumes.sources import ConfigError
from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError
from corral.kube.resources import SERVICEACCOUNTS
from corral.kube.types import Obj
from corral.oci.own import PULL_AUDIENCE

__all__ = ["PodTokens"]

DEFAULT_SECONDS: Final = 3600
SHORTEST: Final = 600
"""Seconds; the API server gives no token for less."""
REFRESH_AT: Final = 0.8
"""The share of a token's life after which there should be a new one."""
LEEWAY: Final = 10.0
"""Seconds by which a token may be ahead."""
MAX_AGE: Final = 24 * 3600.0
"""Seconds after which a token is renewed in any case."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    asked_at: float
    refresh_at: float


class PodTokens:
    """The tokens of one pod. ``get`` answers from what ``fetch`` has brought."""

    def __init__(
        self,
        client: KubeClient,
        pod: Obj,
        *,
        turns: asyncio.Semaphore,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``turns`` bounds the requests of all pods."""
        self._client = client
        self._pod = pod
        self._turns = turns
        self._clock = clock
        self._tokens: dict[tuple[str, int], _Token] = {}
        self._problem: ConfigError | None = None

    async def fetch(self) -> None:
        """Have every token that the pod's volumes name, none of them due, as far as possible."""
        wanted = {_key(source) for source in tokens_of(self._pod)}
        now = self._clock()
        due = [key for key in wanted if key not in self._tokens or self._is_due(key, now)]
        if not due:
            return
        answers = await asyncio.gather(*(self._request(key) for key in due), return_exceptions=True)
        for key, answer in zip(due, answers, strict=True):
            if isinstance(answer, _Token):
                self._tokens[key] = answer
            elif isinstance(answer, ConfigError):
                self._problem = answer  # said by ``get`` if there is no older token either
            else:
                raise answer

    def refresh_at(self) -> float | None:
        """When the next token is due; None where there is none."""
        return min((token.refresh_at for token in self._tokens.values()), default=None)

    def get(self, source: Obj) -> str:
        """The token for a projection. Raises ConfigError."""
        token = self._tokens.get(_key(source))
        if token is None:
            raise self._problem or ConfigError("failed to fetch token: not requested yet")
        return token.text

    async def for_pulling(self) -> str:
        """A token of the pod's service account that registries know. Raises ConfigError."""
        key = (PULL_AUDIENCE, SHORTEST)
        if key not in self._tokens or self._is_due(key, self._clock()):
            self._tokens[key] = await self._request(key)
        return self._tokens[key].text

    def _is_due(self, key: tuple[str, int], now: float) -> bool:
        token = self._tokens[key]
        # one of a time that is still to come is refused: the clock was ahead and was put right
        return not token.asked_at - LEEWAY < now < token.refresh_at

    async def _request(self, key: tuple[str, int]) -> _Token:
        audience, seconds = key
        meta, spec = self._pod["metadata"], self._pod["spec"]
        body: Obj = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [audience] if audience else [],
                "expirationSeconds": seconds,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": meta["name"],
                    "uid": meta["uid"],
                },
            },
        }
        account = spec.get("serviceAccountName") or "default"
        now = self._clock()
        try:
            async with self._turns:
                answer = await self._client.create_subresource(
                    SERVICEACCOUNTS,
                    account,
                    subresource="token",
                    body=body,
                    namespace=meta["namespace"],
                )
        except ApiError as err:
            raise ConfigError(f"failed to fetch token: {err.message}") from err
        except KubeConnectionError as err:
            raise ConfigError(f"failed to fetch token: {err}") from err
        status = answer["status"]
        life = parse_time(status["expirationTimestamp"]) - now
        return _Token(status["token"], now, now + min(life * REFRESH_AT, MAX_AGE))


def _key(source: Obj) -> tuple[str, int]:
    return source.get("audience") or "", int(source.get("expirationSeconds") or DEFAULT_SECONDS)
