"""Opens the stores of jobs for the operator, and keeps slow calls out of the event loop.

Credentials are looked up when a store is opened and forgotten a minute later, so a Secret that was
changed or deleted counts soon. Calls run in a bounded number of threads; a store that hangs takes
threads from other stores, never from the loop, and every call has a time limit for its caller.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from corral.checkpoints.errors import CheckpointError, InvalidLocation, StoreUnavailable
from corral.checkpoints.local import LocalStore
from corral.checkpoints.repository import Repository
from corral.checkpoints.signing.base import UrlSigner
from corral.controllers.trainingjob.checkpoint_places import Place, StoreRules
from corral.controllers.trainingjob.credentials import secret_credentials
from corral.kube.client import KubeClient

__all__ = ["Opened", "StoreSettings", "Stores"]

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Seconds and bytes."""

    threads: int = 16
    """Calls to stores at a time."""
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
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def closing(self) -> None:
        """Wait for the end, then close; for a manager's tasks."""
        with self:
            await asyncio.Event().wait()

    async def open(self, namespace: str, place: Place) -> Opened:
        """The checkpoints at a place of a job in this namespace.

        Raises:
            CredentialsMissing: its Secret is not there or not complete.
            CheckpointError: the store's settings make no sense.
        """
        self._forget()
        known = self._opened.get((namespace, place))
        if known is not None:
            return known[1]
        credentials = self._environment
        scheme = place.location.scheme
        if place.secret is not None:
            credentials = await secret_credentials(self._client, namespace, place.secret, scheme)
        opened = await self.call(partial(self._open, place, credentials))
        self._opened[namespace, place] = (self._monotonic() + self._settings.remember, opened)
        return opened

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call that may take its time in a thread.

        Raises:
            StoreUnavailable: it took too long.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                return await loop.run_in_executor(
                    self._executor, partial(function, *args, **kwargs)
                )
        except TimeoutError:
            limit = self._settings.call_timeout
            raise StoreUnavailable(f"the store did not answer within {limit:g} s") from None

    def _open(self, place: Place, credentials: Mapping[str, str]) -> Opened:
        location = place.location
        if location.scheme == "file":
            local = LocalStore(location.prefix, durable=self._settings.durable)
            return Opened(Repository(local, clock=self._clock), None)
        from corral.checkpoints.objects import ObjectStore  # obstore costs import time

        try:
            store = ObjectStore(location, credentials, retry_for=self._settings.retry_for)
            signer = store.signer
        except CheckpointError:
            raise
        except Exception as error:
            # Whatever a library says of a key that it cannot read may quote the key.
            kind = type(error).__name__
            raise InvalidLocation(f"{location.url}: the credentials are no good: {kind}") from None
        return Opened(Repository(store, clock=self._clock, workers=4), signer)

    def _forget(self) -> None:
        now = self._monotonic()
        for key in [key for key, (until, _) in self._opened.items() if until <= now]:
            del self._opened[key]
