"""Opens the stores of jobs for the operator, and keeps slow calls out of the event loop.

Servers that users name are called as `StoreRules.egress` permits: that is asked when a store is
opened, and again for every connection. Credentials are looked up when a store is opened and
forgotten a minute later, so a Secret that was changed or deleted counts soon. Calls run in few
threads, and those of one namespace in fewer: a store that hangs takes them from stores of the same
namespace, never from the loop, and every call has a time limit for its caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from corral.checkpoints.errors import CheckpointError, InvalidLocation, StoreUnavailable
from corral.checkpoints.local import LocalStore
from corral.checkpoints.places import Place, PlaceRefused, StoreRules
from corral.checkpoints.repository import Repository, Room
from corral.checkpoints.signing.base import UrlSigner
from corral.egress.dialing import checked_async
from corral.egress.policy import EndpointRefused
from corral.egress.proxy import GuardingProxy
from corral.families.trainingjob.checkpoints.credentials import secret_credentials
from corral.kube.client import KubeClient

__all__ = ["Opened", "StoreSettings", "Stores"]

P = ParamSpec("P")
T = TypeVar("T")


_NAMESPACE: ContextVar[str] = ContextVar("namespace", default="")
"""Whose store the present task has opened."""


def _soon(loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> None:
    """From a thread; a loop that is closed needs nothing any more."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(action)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Seconds and bytes."""

    threads: int = 16
    """Calls to stores at a time."""
    threads_each: int = 4
    """Of these, for the stores of one namespace: one that hangs does not hold up the others."""
    connected: float = 600.0
    """How long connections to the store of a user live, whatever it sends."""
    call_timeout: float = 90.0
    """How long a caller waits for one."""
    retry_for: float = 30.0
    """How long a store that is out of order is asked again within a call."""
    remember: float = 60.0
    """How long an opened store, and with it the credentials, is kept."""
    durable: bool = True
    """Whether folders are written to survive a power cut."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A job's checkpoints, and the signer of URLs for them."""

    repository: Repository
    signer: UrlSigner | None
    """None for folders, which pods reach themselves."""


class Stores:
    """All stores that one operator process uses."""

    def __init__(
        self,
        client: KubeClient,
        *,
        rules: StoreRules | None = None,
        settings: StoreSettings | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``environment`` has the operator's own credentials; that of the process if None."""
        self.rules = rules or StoreRules()
        self._client = client
        self._settings = settings or StoreSettings()
        self._environment = os.environ if environment is None else environment
        self._clock = clock
        self._monotonic = monotonic
        self._executor = ThreadPoolExecutor(self._settings.threads, "corral-store")
        self._opened: dict[tuple[str, Place], tuple[float, Opened]] = {}
        self._egress = self.rules.egress.allowing(*self.rules.endpoints)
        self._proxy: GuardingProxy | None = None
        self._starting = threading.Lock()
        self._free: dict[str, asyncio.Semaphore] = {}
        """By namespace: threads that its calls may still take."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Begin no further call; those that run are not waited for."""
        if self._proxy is not None:
            self._proxy.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def closing(self) -> None:
        """Wait for the end, then close; for a manager's tasks."""
        with self:
            await asyncio.Event().wait()

    async def open(self, namespace: str, place: Place) -> Opened:
        """The checkpoints at a place of a job in this namespace.

        Raises:
            PlaceRefused: the operator does not open it for anybody.
            CredentialsMissing: its Secret is not there or not complete.
            CheckpointError: the store's settings make no sense.
        """
        _NAMESPACE.set(namespace)
        self._forget()
        known = self._opened.get((namespace, place))
        if known is not None:
            return known[1]
        credentials = self._environment
        scheme = place.location.scheme
        if scheme == "file" and not place.base:
            raise PlaceRefused(
                f"{place.location.url} is no folder in which the operator works for namespace"
                f" {namespace} (its --local-root and --local-folder)"
            )
        if place.secret is not None:
            await self._check_endpoint(place)
            credentials = await secret_credentials(self._client, namespace, place.secret, scheme)
        opened = await self.call(partial(self._open, place, credentials))
        self._opened[namespace, place] = (self._monotonic() + self._settings.remember, opened)
        return opened

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call that may take its time in a thread; it counts for the namespace opened last.

        Raises:
            StoreUnavailable: it took too long.
        """
        each = self._settings.threads_each
        free = self._free.setdefault(_NAMESPACE.get(), asyncio.Semaphore(each))
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                await free.acquire()
                call = self._executor.submit(partial(function, *args, **kwargs))
                # when the thread is done, not when its caller has given up
                call.add_done_callback(lambda _: _soon(loop, free.release))
                return await asyncio.wrap_future(call)
        except TimeoutError:
            limit = self._settings.call_timeout
            raise StoreUnavailable(f"the store did not answer within {limit:g} s") from None

    def _open(self, place: Place, credentials: Mapping[str, str]) -> Opened:
        location = place.location
        if location.scheme == "file":
            durable = self._settings.durable
            local = LocalStore(location.prefix, durable=durable, base=place.base)
            return Opened(Repository(local, clock=self._clock, room=Room()), None)
        from corral.checkpoints.objects import ObjectStore  # obstore costs import time

        # With our own credentials, servers are ours or the provider's; and they may be those of
        # the machine, which its metadata service gives.
        guarded = place.secret is not None
        try:
            store = ObjectStore(
                location,
                credentials,
                retry_for=self._settings.retry_for,
                egress=self._egress if guarded else None,
                proxy=self._guarding().grant(seconds=self._settings.connected) if guarded else "",
            )
            signer = store.signer
        except CheckpointError:
            raise
        except Exception as error:
            # Whatever a library says of a key that it cannot read may quote the key.
            kind = type(error).__name__
            raise InvalidLocation(f"{location.url}: the credentials are no good: {kind}") from None
        return Opened(Repository(store, clock=self._clock, workers=4, room=Room()), signer)

    async def _check_endpoint(self, place: Place) -> None:
        """Whether its server may be called, as its name is resolved now."""
        endpoint = place.location.endpoint
        if not endpoint:
            return
        try:
            await checked_async(self._egress, endpoint)
        except EndpointRefused as error:
            raise PlaceRefused(str(error)) from error
        except OSError as error:
            raise StoreUnavailable(f"the server of {place.location.url} is not known") from error

    def _guarding(self) -> GuardingProxy:
        """In a thread."""
        with self._starting:
            if self._proxy is None:
                self._proxy = GuardingProxy(self._egress)
                self._proxy.start()
            return self._proxy

    def _forget(self) -> None:
        now = self._monotonic()
        for key in [key for key, (until, _) in self._opened.items() if until <= now]:
            del self._opened[key]
