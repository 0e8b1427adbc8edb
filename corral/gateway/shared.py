"""What REST and gRPC of one gateway have together: a rate used up there is used up here."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from corral.gateway.audit import Audit, Names
from corral.gateway.auth import Caller
from corral.gateway.clients import ClusterAccess
from corral.gateway.limits import LimitSettings, Places, RateLimiter, StreamPlaces
from corral.gateway.metrics import GatewayMetrics
from corral.gateway.problems import problem_of
from corral.gateway.reach import Reach
from corral.gateway.service import Gateway

__all__ = ["Shared"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Limits, metrics and the audit log."""

    limits: LimitSettings
    rates: RateLimiter
    places: Places
    streams: StreamPlaces
    audit: Audit
    names: Names
    reach: Reach
    metrics: GatewayMetrics = field(default_factory=GatewayMetrics)

    @classmethod
    def of(
        cls,
        gateway: Gateway,
        access: ClusterAccess,
        *,
        audit: Audit,
        limits: LimitSettings | None = None,
    ) -> Shared:
        """Everything for one gateway; `reach` is its owner's to close."""
        chosen = limits or LimitSettings()
        streams = StreamPlaces(chosen.streams, chosen.streams_each)
        shared = cls(
            limits=chosen,
            rates=RateLimiter(chosen.rate, chosen.burst),
            places=Places(chosen.requests, chosen.waiting),
            streams=streams,
            audit=audit,
            names=Names(gateway.who),
            reach=Reach(access),
        )
        shared.metrics.streams.set_function(lambda: streams.total)
        return shared

    async def user(self, caller: Caller | None, status: int) -> str:
        """Who it was; nobody is told off because of the audit log, so failures are only noted."""
        if caller is None or status in (401, 429):
            return ""  # nobody knows, or it is not worth another request
        try:
            async with asyncio.timeout(self.limits.request_seconds):
                return await self.names.of(caller)
        except Exception as error:
            logger.debug("no user name for a token: %s", problem_of(error).detail)
            return ""
