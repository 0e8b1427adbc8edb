"""Leader election on a Lease: the guarded work runs in at most one process.

`LeaderElector.run` waits until it leads, runs the work, and renews the lease beside it. When it
cannot renew in time it cancels the work and raises `LeadershipLost`: the process should exit then.
When it is cancelled itself, it first cancels the work and waits for its end, and only then gives
the lease away, so that a successor need not wait for it to run out.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from corral.kube.resources import LEASES
from corral.kube.types import Obj
from corral.runtime.leadership.election import JITTER, Election, ElectionSettings, LeaseRecord
from corral.runtime.metrics import RuntimeMetrics

__all__ = ["LeaderElector", "LeadershipLost"]

logger = logging.getLogger(__name__)


class LeadershipLost(Exception):
    """The lease could not be renewed in time; the guarded work was cancelled."""


class LeaderElector:
    """One candidate for one lease."""

    def __init__(
        self,
        client: KubeClient,
        *,
        name: str,
        namespace: str,
        identity: str,
        settings: ElectionSettings | None = None,
        on_new_leader: Callable[[str], None] | None = None,
        release_on_cancel: bool = True,
        metrics: RuntimeMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        rng: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``identity`` must differ between processes, restarts of the same one included."""
        self._client = client
        self._name, self._namespace = name, namespace
        self._settings = settings or ElectionSettings()
        self.election = Election(identity, self._settings)
        self._on_new_leader = on_new_leader
        self._release_on_cancel = release_on_cancel
        self._metrics = metrics
        self._clock, self._wall, self._rng, self._sleep = clock, wall, rng, sleep
        self._lease: Obj = {}
        """The Lease as it was read or written last: its version guards the next write."""
        self._reported = ""

    @property
    def is_leader(self) -> bool:
        return self.election.is_leader

    @property
    def leader(self) -> str:
        """The identity of the last known leader."""
        return self.election.observed.holder

    def problem(self, tolerance: float = 20.0) -> str:
        """Why this candidate is not healthy; empty if it is."""
        if self.election.overdue(self._clock(), tolerance):
            return f"failed election to renew leadership on lease {self._name}"
        return ""

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Lead, and do the work while leading; returns when the work is over.

        Raises:
            LeadershipLost: the lease could not be renewed.
        """
        await self._acquire()
        worker = asyncio.create_task(work(), name=f"lease-{self._name}-work")
        renewal = asyncio.create_task(self._renew(), name=f"lease-{self._name}-renewal")
        try:
            await asyncio.wait({worker, renewal}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost = await self._wind_down(worker, renewal)
        if lost:
            cause = renewal.exception()
            what = f"lease {self._namespace}/{self._name} was not renewed in time"
            raise LeadershipLost(what) from cause
        if not worker.cancelled():
            worker.result()

    async def _wind_down(self, worker: asyncio.Task[None], renewal: asyncio.Task[None]) -> bool:
        """End the work, then the lease; whether the lease was lost before."""
        worker.cancel()
        if not worker.done() and not renewal.done():
            # However long the work takes to end: the lease is renewed meanwhile.
            await asyncio.wait({worker, renewal}, return_when=asyncio.FIRST_COMPLETED)
        lost = renewal.done()
        if not worker.done():
            await asyncio.wait({worker}, timeout=self._time_left())
        if worker.done() and not worker.cancelled() and worker.exception() is not None:
            logger.error("the work under lease %s failed: %s", self._name, worker.exception())
        renewal.cancel()
        await asyncio.wait({renewal})
        if self._release_on_cancel and not lost and worker.done():
            await self._release()
        self._report()
        return lost

    # --- the loops -------------------------------------------------------------------------------

    async def _acquire(self) -> None:
        period = self._settings.retry_period
        while not await self._try_once():
            await self._sleep(period * (1 + JITTER * self._rng()))
        logger.info("leading: lease %s/%s", self._namespace, self._name)

    async def _renew(self) -> None:
        """Renew for ever; returns when that failed for the deadline, or another leads."""
        settings = self._settings
        while True:
            await self._sleep(settings.retry_period)
            deadline = self._clock() + settings.renew_deadline
            while not await self._try_once(limit=deadline - self._clock()):
                # Once another is seen to hold it, waiting for the deadline would be two at work.
                late = self._clock() + settings.retry_period >= deadline
                if late or not self.is_leader:
                    logger.error("lease %s/%s was not renewed", self._namespace, self._name)
                    return
                await self._sleep(settings.retry_period)

    async def _try_once(self, limit: float | None = None) -> bool:
        """One attempt to get or renew the lease; failures are for the next attempt to mend."""
        limit = self._settings.renew_deadline if limit is None else limit
        try:
            async with asyncio.timeout(limit):
                return await self._try()
        except (ApiError, KubeConnectionError, TimeoutError) as error:
            logger.info("lease %s/%s: %s", self._namespace, self._name, error or "too slow")
            return False
        finally:
            self._report()

    async def _try(self) -> bool:
        election, now = self.election, self._clock()
        if election.may_renew_blindly(now) and self._lease:
            try:
                await self._update(election.next_record(self._wall()), now)
            except (Conflict, NotFound):
                logger.info("lease %s/%s was changed by another", self._namespace, self._name)
            else:
                return True
        try:
            self._lease = await self._client.get(LEASES, self._name, namespace=self._namespace)
        except NotFound:
            return await self._create(now)
        now = self._clock()
        election.observe(LeaseRecord.from_lease(self._lease), now)
        if not election.may_take(now):
            return False
        try:
            await self._update(election.next_record(self._wall()), now)
        except Conflict:
            return False
        return True

    # --- the lease -------------------------------------------------------------------------------

    async def _create(self, now: float) -> bool:
        record = self.election.first_record(self._wall())
        body = {"metadata": {"name": self._name}, "spec": record.to_spec()}
        try:
            self._lease = await self._client.create(LEASES, body, namespace=self._namespace)
        except AlreadyExists:
            return False
        self.election.wrote(record, now)
        return True

    async def _update(self, record: LeaseRecord, now: float) -> None:
        # What others keep in the Lease (labels, annotations, further fields) stays.
        body = {**self._lease, "spec": {**(self._lease.get("spec") or {}), **record.to_spec()}}
        self._lease = await self._client.replace(LEASES, body, namespace=self._namespace)
        self.election.wrote(record, now)

    async def _release(self) -> None:
        """Give the lease away; a failure only makes the successor wait."""
        if not self.is_leader:
            return
        try:
            async with asyncio.timeout(self._settings.renew_deadline):
                for _ in range(3):
                    try:
                        record = self.election.release_record(self._wall())
                        await self._update(record, self._clock())
                    except Conflict:
                        # A renewal that was cancelled may have been written nevertheless.
                        lease = await self._client.get(
                            LEASES, self._name, namespace=self._namespace
                        )
                        if LeaseRecord.from_lease(lease).holder != self.election.identity:
                            return
                        self._lease = lease
                    else:
                        return
        except (ApiError, KubeConnectionError, TimeoutError) as error:
            logger.warning("lease %s was not released: %s", self._name, error or "too slow")

    def _time_left(self) -> float:
        """Seconds until another may lead."""
        end = self.election.observed_at + self._settings.lease_duration
        return max(0.0, end - self._clock())

    def _report(self) -> None:
        if self._metrics:
            self._metrics.leader.labels(self._name).set(1 if self.is_leader else 0)
        if self.leader == self._reported:
            return
        self._reported = self.leader
        if self._on_new_leader and self._reported:
            self._on_new_leader(self._reported)
