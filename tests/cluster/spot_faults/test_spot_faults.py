"""Machines are taken at every moment of a job's life: it finishes, with the weights it should have.

The operator lives, or is killed at that very moment: every case is one of the two in `make test`,
and both in `make test-full`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from corral.clouds.local import Fault
from tests.cluster.spot_faults import journals
from tests.cluster.spot_faults.journals import Start
from tests.cluster.spot_faults.spot_stage import SpotJobs, SpotRun
from tests.support.matrix import matrix

NOTICE = 30.0
"""Seconds: that of most clouds."""
Striking = Callable[[SpotRun, Callable[[], None]], None]


def without_operator(run: SpotRun, act: Callable[[], None]) -> None:
    """It happens, and the operator dies before it has dealt with it."""
    act()
    run.operator.kill()
    run.operator.start()


def with_operator(run: SpotRun, act: Callable[[], None]) -> None:
    """It happens, and the operator sees to it."""
    act()


def striking(*always: Striking, full: Sequence[Striking] = ()) -> pytest.MarkDecorator:
    """How things happen in a case."""
    ids = {with_operator: "operator lives", without_operator: "operator dies"}
    return pytest.mark.parametrize("strike", matrix(*always, full=full), ids=ids.get)


def kill(run: SpotRun, *replicas: int) -> Callable[[], None]:
    """Machines of these copies are taken without a word, all at the same time."""
    machines = [run.cloud.machine(run.name, replica) for replica in replicas]

    def act() -> None:
        for machine in machines:
            assert machine is not None
            run.cloud.kill(machine)

    return act


def check(run: SpotRun, wanted: str) -> None:
    """Everything that holds after every case."""
    run.finish()
    run.check(wanted)
    run.check_nothing_left()


@striking(with_operator, without_operator)
def test_a_machine_is_taken_with_notice(jobs: SpotJobs, strike: Striking, wanted: str) -> None:
    run = jobs.create("notice")
    run.middle()
    machine = run.cloud.machine(run.name, 0)
    assert machine is not None
    strike(run, lambda: run.cloud.preempt(machine, notice_s=NOTICE))
    run.running(0, after=1)
    check(run, wanted)
    lost = {start.attempt: steps for start, steps in journals.lost_steps(run.starts())}
    assert set(lost.values()) == {0}, run.story()


@striking(without_operator, full=[with_operator])
def test_a_machine_is_taken_without_notice(jobs: SpotJobs, strike: Striking, wanted: str) -> None:
    run = jobs.create("killed")
    run.middle()
    strike(run, kill(run, 0))
    run.running(0, after=1)
    check(run, wanted)


@striking(with_operator, full=[without_operator])
def test_all_machines_are_taken_at_once(jobs: SpotJobs, strike: Striking, wanted: str) -> None:
    run = jobs.create("both")
    run.middle()
    strike(run, kill(run, 0, 1))
    run.running(0, after=1)
    run.running(1, after=1)
    assert all(start.restored != -1 for start in run.starts()[2:]), run.story()
    check(run, wanted)


@striking(without_operator, full=[with_operator])
def test_a_machine_is_taken_while_it_is_made(jobs: SpotJobs, strike: Striking, wanted: str) -> None:
    run = jobs.create("unborn")
    run.wait(lambda: run.cloud.machine(run.name, 0))
    strike(run, kill(run, 0))
    run.middle()
    check(run, wanted)


@striking(with_operator, full=[without_operator])
def test_a_machine_is_taken_during_a_checkpoint(
    jobs: SpotJobs, strike: Striking, wanted: str
) -> None:
    run = jobs.create("saving", SLOW_SAVE="1")
    run.middle()
    before = run.running(0).saves

    def saving() -> Start | None:
        now = run.running(0)
        return now if len(now.saves) > len(before) else None

    run.wait(saving)
    strike(run, kill(run, 0))
    killed = next(start for start in run.starts() if start.replica == 0)
    assert killed.saves[-1] not in [each.step for each in journals.published(run.folder(0))]
    run.running(0, after=1)
    check(run, wanted)


@striking(without_operator, full=[with_operator])
def test_a_machine_is_taken_during_a_restore(jobs: SpotJobs, strike: Striking, wanted: str) -> None:
    run = jobs.create("restoring", SLOW_RESTORE="2")
    run.middle()
    kill(run, 0)()

    def restoring() -> Start | None:
        mine = [start for start in run.starts() if start.replica == 0]
        return mine[1] if len(mine) > 1 else None

    run.wait(restoring)
    strike(run, kill(run, 0))
    run.running(0, after=2)
    second = [start for start in run.starts() if start.replica == 0][1]
    assert second.restored is None, run.story()
    check(run, wanted)


def test_a_lost_answer_and_then_a_refusal(jobs: SpotJobs, wanted: str) -> None:
    """The machine of the first request is there, whatever the cloud says to the second."""
    made = Fault(operation="create", lose=True)
    refused = Fault(operation="create", error="StockOut", code="NO_ROOM")
    jobs.cloud.plan(made, refused)
    run = jobs.create("refused", replicas=1)
    run.middle()
    (placement,) = run.status()["placements"]
    assert not placement.get("endTime"), run.story()
    check(run, wanted)


def test_a_job_that_is_deleted_leaves_nothing(jobs: SpotJobs) -> None:
    run = jobs.create("deleted")
    run.middle()
    run.delete()
