"""`Gateway`: what can be asked of it, and what it means; REST and gRPC are thin views on this.

Everything is done with the caller's own token: the gateway has no rights of its own, keeps no
state, and answers what the API server says to that caller. What both views share is here: creates
that can be repeated, changes that only happen to the version the caller has seen, and streams that
hold their client for as long as they last.

Errors are those of `corral.client.errors`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from corral.client.errors import AlreadyExists, Changed, NotFound, PreconditionFailed
from corral.client.jobs import AnyKind, Jobs
from corral.client.kinds import JobKind, kind_of
from corral.client.phases import section, text
from corral.client.translate import ApiRequest, translating
from corral.gateway.auth import Caller
from corral.gateway.clients import ClientPool, Lease, Upstream
from corral.gateway.etags import ETags, etag_of
from corral.gateway.idempotency import Idempotency
from corral.gateway.models import Models
from corral.kube.resources import SELFSUBJECTACCESSREVIEWS, SELFSUBJECTREVIEWS
from corral.kube.types import Obj

__all__ = ["Created", "Gateway", "GatewaySettings", "Upstream"]

P = ParamSpec("P")
T = TypeVar("T")

_ATTEMPTS: Final = 8
"""How often an idempotent create is tried where the object comes and goes meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """How much a gateway keeps."""

    clients: int = 512
    """Callers with a client at the same time."""
    idle_seconds: float = 300.0
    """How long the client of a caller is kept after its last use."""


@dataclass(frozen=True, slots=True)
class Created:
    """An object that was created, now or by the same request before."""

    object: Obj
    repeated: bool = False
    """Nothing was done: the same request had been answered before."""

    @property
    def etag(self) -> str:
        return etag_of(self.object)


def _reading(
    verb: Callable[Concatenate[Jobs, AnyKind, P], Awaitable[T]],
) -> Callable[Concatenate[Gateway, Caller, AnyKind, P], Awaitable[T]]:
    """A method of `Jobs` that only reads."""

    async def call(
        self: Gateway, caller: Caller, kind: AnyKind, /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        async with self.lease(caller) as jobs:
            return await verb(jobs, kind, *args, **kwargs)

    return call


def _changing(
    verb: Callable[..., Awaitable[Obj]],
) -> Callable[Concatenate[Gateway, Caller, AnyKind, ...], Awaitable[Obj]]:
    """A method of `Jobs` that changes an object, in the version that the caller has seen.

    Where that was named, a later version is refused.
    """

    async def call(
        self: Gateway,
        caller: Caller,
        kind: AnyKind,
        /,
        *,
        namespace: str,
        name: str,
        if_match: ETags | None = None,
        **options: Any,
    ) -> Obj:
        async with self.lease(caller) as jobs:
            version = await _seen_version(jobs, kind, namespace, name, if_match)
            try:
                return await verb(jobs, kind, namespace, name, resource_version=version, **options)
            except Changed as error:
                if version is None:
                    raise
                raise PreconditionFailed(error.message, hint=error.hint) from error

    return call


def _streaming(
    verb: Callable[Concatenate[Jobs, AnyKind, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Gateway, Caller, AnyKind, P], AsyncGenerator[T, None]]:
    """A method of `Jobs` that goes on; close it when it is left early."""

    async def call(
        self: Gateway, caller: Caller, kind: AnyKind, /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncGenerator[T, None]:
        async with (
            self.lease(caller, streams=True) as jobs,
            aclosing(verb(jobs, kind, *args, **kwargs)) as found,
        ):
            async for item in found:
                yield item

    return call


class Gateway:
    """Jobs for callers with tokens; `close` ends it."""

    def __init__(
        self,
        cluster: Upstream,
        *,
        settings: GatewaySettings | None = None,
        pool: ClientPool | None = None,
        models: Models | None = None,
    ) -> None:
        self.settings = settings or GatewaySettings()
        self.models = models or Models()
        """Models of registries; without any that is known where nobody said so."""
        self._pool = pool or ClientPool(
            cluster, size=self.settings.clients, idle_seconds=self.settings.idle_seconds
        )

    async def close(self) -> None:
        """Close every client; requests under way fail."""
        await self._pool.close()

    # --- callers -------------------------------------------------------------------------------

    @asynccontextmanager
    async def lease(self, caller: Caller, *, streams: bool = False) -> AsyncIterator[Jobs]:
        """What the caller may ask, with a client that is not closed before this is left."""
        async with self._pool.lease(caller, streams=streams) as lease:
            yield lease.jobs

    async def who(self, caller: Caller) -> str:
        """The name that the API server knows the caller by."""
        async with self._pool.lease(caller) as lease:
            return await self._user(lease)

    async def _user(self, lease: Lease) -> str:
        if not lease.user:
            review: Obj = {"metadata": {}}
            with translating(ApiRequest("create", SELFSUBJECTREVIEWS)):
                detail = await lease.jobs.client.create(SELFSUBJECTREVIEWS, review)
            user = section(section(detail, "status"), "userInfo")
            lease.user = text(user.get("username"))
        return lease.user

    async def may(
        self,
        caller: Caller,
        kind: AnyKind,
        *,
        verb: str,
        namespace: str,
        name: str,
        subresource: str = "",
    ) -> bool:
        """Whether the API server lets the caller do something, as it says itself."""
        resource = _kind(kind).resource
        attributes: Obj = {
            "group": resource.group,
            "version": resource.version,
            "resource": resource.plural,
            "subresource": subresource,
            "verb": verb,
            "namespace": namespace,
            "name": name,
        }
        review: Obj = {"metadata": {}, "spec": {"resourceAttributes": attributes}}
        async with self.lease(caller) as jobs:
            with translating(ApiRequest("create", SELFSUBJECTACCESSREVIEWS)):
                detail = await jobs.client.create(SELFSUBJECTACCESSREVIEWS, review)
        return section(detail, "status").get("allowed") is True

    # --- what `Jobs` does, for a caller --------------------------------------------------------

    get = _reading(Jobs.get)
    list = _reading(Jobs.list)
    status = _reading(Jobs.summary)
    events = _reading(Jobs.events)
    explain = _reading(Jobs.explain)
    metrics = _reading(Jobs.metrics)
    replace = _changing(Jobs.replace)
    delete = _changing(Jobs.delete)
    restart = _changing(Jobs.restart)
    suspend = _changing(Jobs.suspend)
    resume = _changing(Jobs.resume)
    scale = _changing(Jobs.scale)
    watch = _streaming(Jobs.watch)
    logs = _streaming(Jobs.logs)

    async def create(
        self,
        caller: Caller,
        kind: AnyKind,
        *,
        namespace: str,
        obj: Obj,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> Created:
        """Create an object; the same key with the same body gives what it gave before.

        Raises:
            Invalid: the object is wrong, or the key came with another body.
            AlreadyExists: there is one of that name which this request did not make.
        """
        kind = _kind(kind)
        async with self._pool.lease(caller) as lease:
            if idempotency_key is None or dry_run:
                return Created(await lease.jobs.create(kind, namespace, obj, dry_run=dry_run))
            user = await self._user(lease)
            once = Idempotency.of(
                idempotency_key, user=user, kind=kind, namespace=namespace, obj=obj
            )
            return await _create_once(lease.jobs, kind, namespace, obj=obj, once=once)


async def _create_once(
    jobs: Jobs, kind: JobKind, namespace: str, *, obj: Obj, once: Idempotency
) -> Created:
    marked = once.marked(obj)
    name = text(section(marked, "metadata").get("name"))
    for attempt in range(_ATTEMPTS):
        try:
            return Created(await jobs.create(kind, namespace, marked))
        except AlreadyExists as error:
            taken = error
        try:
            existing = await jobs.get(kind, namespace, name)
        except NotFound:
            # Just deleted, or just created by another request and not to be read yet.
            await asyncio.sleep(0.01 * 2**attempt)
            continue
        if not once.repeats(existing):
            raise taken
        return Created(existing, repeated=True)
    raise taken


async def _seen_version(
    jobs: Jobs, kind: AnyKind, namespace: str, name: str, if_match: ETags | None
) -> str | None:
    """The resource version to insist on; none where the caller does not mind."""
    if if_match is None:
        return None
    obj = await jobs.get(kind, namespace, name)
    if_match.demand(obj)
    return None if if_match.any else text(section(obj, "metadata").get("resourceVersion"))


def _kind(kind: AnyKind) -> JobKind:
    return kind if isinstance(kind, JobKind) else kind_of(kind)
