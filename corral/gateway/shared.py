"""What REST and gRPC of one gateway have together: a rate used up there is used up here."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace

from corral.client.errors import Forbidden, Unauthorized
from corral.gateway.audit import Audit, Names
from corral.gateway.auth import Caller, Unauthenticated, caller_of, flow_of
from corral.gateway.clients import Upstream
from corral.gateway.limits import LimitSettings, Places, RateLimiter, StreamPlaces, place_of
from corral.gateway.metrics import GatewayMetrics
from corral.gateway.problems import problem_of
from corral.gateway.reach import Readiness
from corral.gateway.service import Gateway
from corral.gateway.uploads import Uploads

__all__ = ["Shared"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Limits, metrics and the audit log."""

    limits: LimitSettings
    rates: RateLimiter
    """By flow, as places and streams are."""
    places: Places
    streams: StreamPlaces
    audit: Audit
    names: Names
    reach: Readiness
    metrics: GatewayMetrics = field(default_factory=GatewayMetrics)
    strangers: RateLimiter = field(init=False)
    """By address: requests of nobody who is known yet."""
    failures: RateLimiter = field(init=False)
    """By address: tokens that were refused."""
    uploads: Uploads = field(init=False)

    def __post_init__(self) -> None:
        limits = self.limits
        object.__setattr__(self, "strangers", RateLimiter(limits.rate, limits.burst))
        failures = RateLimiter(limits.failure_rate, limits.failure_burst)
        object.__setattr__(self, "failures", failures)
        object.__setattr__(self, "uploads", Uploads(limits.models_bytes))

    @classmethod
    def of(
        cls,
        gateway: Gateway,
        access: Upstream,
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
            reach=Readiness(access),
        )
        shared.metrics.streams.set_function(lambda: streams.total)
        return shared

    async def admit(self, authorization: str | None, *, address: str, request_id: str) -> Caller:
        """Who calls, as the API server knows them, and that they may call again already.

        Raises:
            Unauthenticated, JobError: it is nobody, or the API server does not say who.
            RateLimited: too many requests of this flow, or of strangers from this address.
        """
        place = place_of(address)
        try:
            caller = caller_of(authorization, address=address, request_id=request_id)
        except Unauthenticated:
            self.strangers.take(place)
            raise
        name = self.names.known(caller)
        if name is not None:
            self.rates.take(flow_of(name))
            return replace(caller, user=name)
        last = self.names.last(caller)
        if last is not None:
            # asked again now and then: those who share an address with others are not held up
            self.rates.take(flow_of(last))
        else:
            self.failures.check(place)
            self.strangers.take(place)
        name = await self._asked(caller, place)
        if last is None or flow_of(name) != flow_of(last):
            self.rates.take(flow_of(name))
        return replace(caller, user=name)

    async def _asked(self, caller: Caller, place: str) -> str:
        try:
            async with asyncio.timeout(self.limits.request_seconds):
                return await self.names.of(caller) or place
        except Unauthorized:
            self.failures.take(place)
            raise
        except Forbidden:
            return place  # it is somebody, who may not ask who they are and has many tokens

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
