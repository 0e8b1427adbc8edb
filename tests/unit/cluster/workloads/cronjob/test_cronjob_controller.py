"""The cron job controller against a server in memory, in a time of its own."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from corral.cluster.workloads.cronjob import controller
from corral.cluster.workloads.steps import Failed
from corral.kube import errors
from corral.kube.resources import CRONJOBS, JOBS
from corral.kube.types import Obj
from corral.runtime import NotYetConsistent, Result
from tests.unit.cluster.workloads.batch_world import NOW, World, stamp

KEY = "ns/tick"


class Clockwork:
    """A cron job and its controller."""

    def __init__(self, schedule: str = "*/5 * * * *", **spec: Any) -> None:
        self.world = World()
        self.now: datetime = NOW
        body = {"schedule": schedule, "jobTemplate": {"spec": {"template": {}}}, **spec}
        meta = {"name": "tick", "creationTimestamp": stamp(-1)}
        self.world.put(CRONJOBS, {"metadata": meta, "spec": body})
        self.start()

    def start(self) -> None:
        self.world.restart()
        controller.register(self.world.manager, now=lambda: self.now)

    async def at(self, seconds: float) -> Result | None:
        """One pass so many seconds after the beginning."""
        self.now = NOW + timedelta(seconds=seconds)
        self.world.deliver()
        return await self.world.manager.made["cronjob"]._reconciler(KEY)

    @property
    def cron_job(self) -> Obj:
        return self.world.find(CRONJOBS, "tick")

    @property
    def jobs(self) -> list[str]:
        return [job["metadata"]["name"] for job in self.world.stored(JOBS)]

    def end(self, kind: str = "Complete") -> None:
        for job in self.world.stored(JOBS):
            conditions = [{"type": kind, "status": "True"}]
            status = {"conditions": conditions, "completionTime": stamp(60), "startTime": stamp()}
            self.world.put(JOBS, {**job, "status": status})


async def test_a_run_when_it_is_due() -> None:
    clock = Clockwork()
    first = int(NOW.timestamp()) // 60
    result = await clock.at(0)
    assert clock.jobs == [f"tick-{first}"]
    assert result is not None and result.requeue_after == pytest.approx(300.1)
    await clock.at(1)
    assert len(clock.jobs) == 1 and len(clock.cron_job["status"]["active"]) == 1
    clock.end()
    await clock.at(120)
    assert clock.cron_job["status"] == {
        "lastScheduleTime": stamp(),
        "lastSuccessfulTime": stamp(60),
    }
    await clock.at(300)
    assert clock.jobs[1:] == [f"tick-{first + 5}"]
    assert [said.split(":")[0] for said in clock.world.said] == [
        "SuccessfulCreate", "SawCompletedJob", "SuccessfulCreate"]  # fmt: skip


async def test_own_writes_are_awaited() -> None:
    clock = Clockwork()
    await clock.at(0)
    with pytest.raises(NotYetConsistent):
        await clock.world.manager.made["cronjob"]._reconciler(KEY)


@pytest.mark.parametrize("fatal", ["create jobs", "replace cronjobs status"])
async def test_a_run_is_made_once_whenever_the_process_dies(fatal: str) -> None:
    clock = Clockwork()

    def die(what: str, obj: Obj) -> None:
        if what == fatal:
            raise KeyboardInterrupt

    clock.world.after = die
    with pytest.raises(KeyboardInterrupt):
        await clock.at(0)
    clock.world.after = lambda what, obj: None
    clock.start()
    await clock.at(2)
    assert len(clock.jobs) == 1
    assert len(clock.cron_job["status"]["active"]) == 1


async def test_a_refusal_is_tried_again() -> None:
    clock = Clockwork()

    def refuse(what: str, obj: Obj) -> None:
        if what == "create jobs":
            raise errors.Forbidden("exceeded quota")

    clock.world.before = refuse
    with pytest.raises(Failed, match="exceeded quota"):
        await clock.at(0)
    assert clock.world.said == ["FailedCreate: Error creating job: exceeded quota"]


async def test_the_old_run_is_replaced() -> None:
    clock = Clockwork(concurrencyPolicy="Replace")
    await clock.at(0)
    await clock.at(300)
    assert len(clock.jobs) == 1
    assert "delete jobs Background" in clock.world.writes
    assert [ref["name"] for ref in clock.cron_job["status"]["active"]] == clock.jobs


async def test_history_is_kept_short() -> None:
    clock = Clockwork(successfulJobsHistoryLimit=1)
    for minutes in (0, 5, 10):
        await clock.at(60 * minutes)
        clock.end()
        await clock.at(60 * minutes + 1)
    await clock.at(602)
    assert len(clock.jobs) == 1


async def test_a_missing_run_is_looked_up() -> None:
    clock = Clockwork()
    await clock.at(0)
    (job,) = clock.world.stored(JOBS)
    del clock.world.objects["jobs", f"ns/{job['metadata']['name']}"]
    clock.start()
    await clock.at(10)
    assert "MissingJob" in clock.world.said[-1]
    assert not clock.cron_job["status"].get("active")


async def test_a_new_schedule_begins_with_its_next_run() -> None:
    clock = Clockwork("0 0 1 1 *")
    clock.world.deliver()
    queue = clock.world.manager.made["cronjob"].queue
    queue.pop()
    queue.done(KEY)
    clock.now = NOW + timedelta(seconds=30)
    spec = {**clock.cron_job["spec"], "schedule": "* * * * *"}
    clock.world.put(CRONJOBS, {**clock.cron_job, "spec": spec})
    clock.world.deliver()
    assert len(queue) == 0 and queue.next_delay() is not None
    clock.world.put(CRONJOBS, {**clock.cron_job, "spec": {**spec, "schedule": "nonsense"}})
    clock.world.deliver()
    assert clock.world.said == [
        "UnParseableCronJobSchedule: unparseable schedule for cronjob: nonsense"
    ]


async def test_nothing_is_left_of_one_that_is_gone() -> None:
    clock = Clockwork()
    await clock.at(0)
    del clock.world.objects["cronjobs", KEY]
    clock.start()
    assert await clock.at(1) is None
