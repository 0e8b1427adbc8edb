"""Progress of jobs: from reports to ``status.progress``.

The first report and the last are written at once, what is between them at most every two seconds
a job; the newest wins, and what waits is written when its time comes. Rates are observed here, per
attempt; nothing is lost with this process but the time it takes to observe them again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from corral.api.training.kinds import TRAININGJOBS
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.errors import ApiError
from corral.kube.types import Obj
from corral.operator.reports.bodies import Report
from corral.runtime.keys import format_time, key_of, split_key, uid_of

__all__ = ["ProgressBook", "Rate", "progress_of"]

logger = logging.getLogger(__name__)

PERIOD = 2.0
"""Seconds between two writes about one job."""
SAMPLES = 32
MAX_JOBS = 20_000
"""Remembered at a time; the ones that were silent longest are forgotten."""


class Rate:
    """Steps a second, by the newest reports of one attempt."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES)
        self._attempt = -1

    def observe(self, attempt: int, step: int, now: float) -> None:
        if attempt != self._attempt or (self._samples and step < self._samples[-1][1]):
            self._samples.clear()
            self._attempt = attempt
        if not self._samples or step > self._samples[-1][1]:
            self._samples.append((now, step))

    def per_second(self, now: float) -> float | None:
        """None until two different steps were seen."""
        if len(self._samples) < 2:
            return None
        began, first = self._samples[0]
        ended, last = self._samples[-1]
        # A job that stands still gets slower with every moment, once it is overdue.
        usual = (ended - began) / (len(self._samples) - 1)
        ended = max(ended, now - usual)
        return (last - first) / (ended - began) if ended > began else None


def progress_of(report: Report, rate: float | None, now: float) -> Obj:
    """``status.progress`` for a report; ``now`` in seconds since the epoch."""
    progress: Obj = {"updatedAt": format_time(now), "metrics": dict(report.metrics)}
    if report.step is not None:
        progress["step"] = report.step
    if report.epoch is not None:
        progress["epoch"] = int(report.epoch)
    if report.total is not None:
        progress["totalSteps"] = report.total
    if report.step is not None and report.total:
        progress["percent"] = min(100, 100 * report.step // report.total)
        left = max(0, report.total - report.step)
        if left == 0:
            progress["etaSeconds"] = 0
        elif rate:
            progress["etaSeconds"] = round(left / rate)
    return progress


@dataclass(slots=True)
class _Entry:
    """One job: what was written when, and what waits."""

    rate: Rate = field(default_factory=Rate)
    uid: str = ""
    attempt: int = -1
    written: float | None = None
    waiting: Obj | None = None
    metrics: tuple[str, ...] = ()
    """Names of those that were written last."""


class ProgressBook:
    """Takes reports of masters; `run` writes what had to wait."""

    def __init__(
        self,
        client: KubeClient,
        *,
        period: float = PERIOD,
        field_manager: str = "corral-reports",
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._period = period
        self._manager = field_manager
        self._clock = clock
        self._wall = wall
        self._sleep = sleep
        self._entries: dict[str, _Entry] = {}
        self._due = asyncio.Event()

    def rate(self, job: Obj) -> float | None:
        """Steps a second of a job, if they were observed."""
        entry = self._entries.get(key_of(job))
        return entry.rate.per_second(self._clock()) if entry else None

    async def take(self, job: Obj, attempt: int, report: Report) -> None:
        """Note the report of a master; written now, or when its time comes."""
        now, entry = self._clock(), self._entry(job)
        if report.step is not None:
            entry.rate.observe(attempt, report.step, now)
        progress = progress_of(report, entry.rate.per_second(now), self._wall())
        first = entry.written is None or attempt != entry.attempt
        last = report.total is not None and report.step == report.total
        overdue = entry.written is not None and now - entry.written >= self._period
        entry.attempt = attempt
        if first or last or overdue:
            await self._write(job, entry, progress)
        else:
            entry.waiting = progress
            self._due.set()

    async def run(self) -> None:
        """Write what waits, until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            while (pause := await self.flush()) is not None:
                await self._sleep(pause)

    async def flush(self, *, everything: bool = False) -> float | None:
        """Write what is due (or everything); seconds until the next is due, if one waits."""
        pause: float | None = None
        for key, entry in list(self._entries.items()):
            if entry.waiting is None:
                continue
            left = (entry.written or 0.0) + self._period - self._clock()
            if left > 0 and not everything:
                pause = left if pause is None else min(pause, left)
                continue
            namespace, name = split_key(key)
            job: Obj = {"metadata": {"namespace": namespace, "name": name, "uid": entry.uid}}
            try:
                await self._write(job, entry, entry.waiting)
            except (ApiError, KubeConnectionError) as error:
                # The next report brings a newer one.
                logger.info("the progress of %s was not written: %s", key, error)
        return pause

    def _entry(self, job: Obj) -> _Entry:
        key = key_of(job)
        entry = self._entries.pop(key, None)
        if entry is None or entry.uid != uid_of(job):
            entry = _Entry(uid=uid_of(job))
        self._entries[key] = entry  # the newest is the last
        if len(self._entries) > MAX_JOBS:
            del self._entries[next(iter(self._entries))]
        return entry

    async def _write(self, job: Obj, entry: _Entry, progress: Obj) -> None:
        entry.waiting, entry.written = None, self._clock()
        metadata = job["metadata"]
        known = ((job.get("status") or {}).get("progress") or {}).get("metrics") or {}
        # A merge patch keeps what it does not name: what is no longer reported must be named.
        gone = {key: None for key in _FIELDS if key not in progress}
        metrics = dict.fromkeys([*known, *entry.metrics]) | progress["metrics"]
        entry.metrics = tuple(progress["metrics"])
        patch = {**gone, **progress, "metrics": metrics}
        await self._client.patch(
            TRAININGJOBS,
            metadata["name"],
            namespace=metadata["namespace"],
            patch={"metadata": {"uid": metadata["uid"]}, "status": {"progress": patch}},
            subresource="status",
            field_manager=self._manager,
        )


_FIELDS = ("step", "totalSteps", "epoch", "percent", "etaSeconds")
