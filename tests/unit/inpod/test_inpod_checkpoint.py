"""When a checkpoint is taken, by whom, and what the background does meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inpod_operator import Operator

from corral.inpod import CheckpointError
from corral.inpod.checkpoint import FOLLOW, HEAD_START, RETRY, Checkpointer
from corral.inpod.environment import Environment
from corral.inpod.publishing import Publisher, Saved
from corral.inpod.replica import Replica
from corral.inpod.reporting import Commands
from corral.inpod.signals import Termination
from corral.inpod.volume.plans import Plan, Plans
from corral.inpod.volume.staging import Staging
from corral.inpod.volume.volume import Volume

Make = Callable[..., Replica]


class Bench:
    """One process with a clock that only the test moves, and a publisher that it can hold."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.now = 1000.0
        self.commands = Commands()
        self.termination = Termination(clock=lambda: self.now)
        self.published: list[Saved] = []
        self.go = threading.Event()
        self.go.set()
        self.fail = False
        self.publisher = Publisher(self._publish)
        self.saves = 0
        defaults = {"checkpoint_dir": str(root), "interval": 60.0, "attempt": 1, "grace": 30.0}
        self.environment = Environment(**{**defaults, **options})
        local = not self.environment.remote
        self.plans = Plans(str(root)) if local else None
        self.checkpointer = Checkpointer(
            self.environment,
            staging=Staging(str(root), 1),
            publisher=self.publisher,
            commands=self.commands,
            termination=self.termination,
            plans=self.plans,
            volume=Volume(str(root)) if local else None,
            clock=lambda: self.now,
        )

    def _publish(self, saved: Saved, patience: object) -> None:
        assert self.go.wait(30)
        if self.fail:
            raise OSError("no space left")
        self.published.append(saved)

    def save(self, path: Path) -> None:
        self.saves += 1
        (path / "w").write_bytes(b"w")

    def step(self, step: int, *, sharded: bool = False, force: bool = False) -> bool:
        taken = self.checkpointer.maybe(
            self.save, step=step, metrics={}, sharded=sharded, force=force
        )
        if self.go.is_set():
            self.publisher.wait(None)
        return taken


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(**options: Any) -> Bench:
        made.append(Bench(tmp_path, **options))
        return made[-1]

    yield make
    for found in made:
        found.go.set()
        found.publisher.wait(None)


def test_due_by_time(bench: Callable[..., Bench]) -> None:
    pod = bench()
    assert not pod.step(1)
    pod.now += 59
    assert not pod.step(2)
    pod.now += 1
    assert pod.step(3)
    assert not pod.step(4)
    pod.now += 60
    assert pod.step(5)
    assert [saved.step for saved in pod.published] == [3, 5]


def test_the_operator_may_change_the_interval(bench: Callable[..., Bench]) -> None:
    pod = bench()
    pod.commands.read({"interval": 5})
    pod.now += 5
    assert pod.step(1)


def test_a_request_is_answered_once(bench: Callable[..., Bench]) -> None:
    pod = bench()
    pod.commands.read({"checkpointNow": "please"})
    assert pod.step(1)
    pod.commands.read({"checkpointNow": "please"})
    assert not pod.step(2)
    pod.commands.read({"checkpointNow": "again"})
    assert pod.step(3)
    assert [saved.request for saved in pod.published] == ["please", "again"]


def test_only_the_first_process_writes_what_is_not_sharded(bench: Callable[..., Bench]) -> None:
    pod = bench(process=1, processes=2)
    pod.now += 1e6
    assert not pod.step(1, force=True)
    assert not pod.saves


def test_one_that_is_due_by_time_is_put_off_while_the_one_before_is_published(
    bench: Callable[..., Bench],
) -> None:
    pod = bench()
    pod.go.clear()
    pod.now += 60
    assert pod.step(1)
    pod.now += 60
    assert not pod.step(2), "training is not held up"
    pod.go.set()
    pod.publisher.wait(None)
    assert pod.step(3)


def test_one_that_is_forced_waits_for_the_one_before(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench()
    pod.go.clear()
    assert pod.step(1, force=True)
    wait = pod.publisher.wait

    def waits(timeout: float | None) -> bool:
        pod.go.set()
        return wait(timeout)

    monkeypatch.setattr(pod.publisher, "wait", waits)
    assert pod.step(2, force=True)
    pod.publisher.wait(None)
    assert [saved.step for saved in pod.published] == [1, 2]


def test_a_failed_one_is_tried_again_soon(
    bench: Callable[..., Bench], caplog: pytest.LogCaptureFixture
) -> None:
    pod = bench(interval=3600.0)
    pod.fail = True
    assert pod.step(1, force=True)
    assert "there is no checkpoint of step 1: no space left" in caplog.text
    pod.fail = False
    assert not pod.step(2)
    pod.now += RETRY
    assert pod.step(3)
    assert [saved.step for saved in pod.published] == [3]


def test_told_to_stop_it_saves_and_leaves(bench: Callable[..., Bench]) -> None:
    pod = bench()
    pod.termination.request()
    with pytest.raises(SystemExit) as exit_info:
        pod.step(5)
    assert exit_info.value.code == 143
    assert [saved.step for saved in pod.published] == [5]


def test_a_step_that_is_saved_already_is_not_saved_again_at_the_end(
    bench: Callable[..., Bench],
) -> None:
    pod = bench()
    assert pod.step(5, force=True)
    pod.commands.read({"stop": True})
    with pytest.raises(SystemExit):
        pod.step(5)
    assert pod.saves == 1


def test_at_the_end_work_is_waited_for_only_as_long_as_there_is_time(
    bench: Callable[..., Bench], caplog: pytest.LogCaptureFixture
) -> None:
    pod = bench(grace=0.0)
    pod.go.clear()
    pod.termination.request()
    with pytest.raises(SystemExit):
        pod.step(1)
    assert "the last checkpoint was not finished" in caplog.text


def test_and_only_as_long_as_the_machine_is_there(
    bench: Callable[..., Bench], caplog: pytest.LogCaptureFixture
) -> None:
    pod = bench(grace=1000.0)
    pod.go.clear()
    pod.commands.read({"deadline": time.time()})
    pod.termination.request()
    with pytest.raises(SystemExit):
        pod.step(1)
    assert "the last checkpoint was not finished" in caplog.text
    pod.commands.read({"deadline": None})
    assert pod.commands.deadline is None


# --- sharded ---


def test_sharded_saves_at_the_step_that_the_operator_plans(bench: Callable[..., Bench]) -> None:
    pods = [bench(process=n, replica=n, processes=2, replicas=2) for n in range(2)]
    for pod in pods:
        pod.commands.read({"checkpointAt": 7})
        pod.commands.read({"checkpointAt": None})  # the answer to step 7 itself
        assert [pod.step(n, sharded=True) for n in range(5, 10)] == [False, False, True] + [
            False
        ] * 2


def test_sharded_and_due_is_planned_through_the_volume(bench: Callable[..., Bench]) -> None:
    first, second = (bench(process=n, processes=2) for n in range(2))
    first.now = second.now = 1060.0
    assert not second.step(3, sharded=True), "only the first process plans"
    assert not first.step(3, sharded=True)
    assert second.step(4, sharded=True)
    assert first.step(4, sharded=True)
    assert not first.step(5, sharded=True)


def test_the_operator_plans_first_while_it_answers(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = bench(process=0, processes=2)
    pod.commands.answered = pod.now + 60
    pod.now += 60
    assert not pod.step(1, sharded=True)
    assert not pod.step(2, sharded=True)
    pod.now += HEAD_START
    assert not pod.step(3, sharded=True)
    assert pod.step(4, sharded=True)


def test_a_replica_that_is_told_to_stop_takes_the_others_along(
    bench: Callable[..., Bench],
) -> None:
    first, second = (bench(process=n, processes=2) for n in range(2))
    second.termination.request()
    assert not first.step(10, sharded=True)
    assert not second.step(10, sharded=True)
    assert first.step(11, sharded=True), "saves and goes on"
    with pytest.raises(SystemExit):
        second.step(11, sharded=True)
    assert [saved.step for saved in second.published] == [11]


def test_two_that_are_told_to_stop_at_different_steps_agree(bench: Callable[..., Bench]) -> None:
    first, second = (bench(process=n, processes=2) for n in range(2))
    first.termination.request()
    assert not first.step(10, sharded=True)  # plans 11
    second.termination.request()
    with pytest.raises(SystemExit):
        second.step(11, sharded=True)
    with pytest.raises(SystemExit):
        first.step(11, sharded=True)


def test_without_time_for_another_step_it_saves_at_once(bench: Callable[..., Bench]) -> None:
    pod = bench(process=1, processes=2)
    pod.step(1, sharded=True)
    pod.now += 20
    pod.termination.request()
    with pytest.raises(SystemExit):
        pod.step(2, sharded=True)
    assert pod.saves == 1


def test_sharded_in_a_remote_store_saves_where_it_is_told_to_stop(
    bench: Callable[..., Bench],
) -> None:
    pod = bench(process=1, processes=2, remote=True)
    pod.termination.request()
    with pytest.raises(SystemExit):
        pod.step(2, sharded=True)
    assert pod.published[0].sharded


def test_one_process_alone_has_no_shards(bench: Callable[..., Bench]) -> None:
    pod = bench()
    assert pod.step(1, sharded=True, force=True)
    assert not pod.published[0].sharded


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"attempt": 1, "step": "x"}', "\0"])
def test_a_plan_that_is_nonsense_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / ".plan").write_text(text)
    assert Plans(str(tmp_path)).read(1) is None


def test_a_plan_of_another_attempt_is_none(tmp_path: Path) -> None:
    plans = Plans(str(tmp_path / "new"))
    plans.write(Plan(1, 5))
    assert plans.read(2) is None
    found = plans.read(1)
    assert found is not None
    assert found.step == 5


# --- replicas that do not write ---


def test_a_replica_that_stops_asks_the_writer_and_leaves_when_it_has_saved(
    bench: Callable[..., Bench], tmp_path: Path
) -> None:
    writer, other = (bench(process=n, processes=2) for n in range(2))
    assert not writer.step(1)
    other.termination.request()
    assert not other.step(1)
    other.now += 1
    assert not other.step(2), "the writer has not saved yet"
    writer.now += 1
    assert writer.step(2)
    writer.now += 1
    assert not writer.step(3), "one wish, one checkpoint"
    (tmp_path / "LATEST").write_text("step-000000000002.abc")
    other.now += 1
    with pytest.raises(SystemExit):
        other.step(3)


def test_it_leaves_in_time_if_the_writer_does_not_save(bench: Callable[..., Bench]) -> None:
    pod = bench(process=1, processes=2)
    pod.termination.request()
    assert not pod.step(1)
    pod.now += 24
    with pytest.raises(SystemExit):
        pod.step(2)


def test_without_a_volume_it_leaves_after_a_while(bench: Callable[..., Bench]) -> None:
    pod = bench(process=1, processes=2, remote=True)
    pod.termination.request()
    assert not pod.step(1)
    assert not pod.step(2)
    pod.now += FOLLOW
    with pytest.raises(SystemExit):
        pod.step(3)


# --- together ---


def test_a_request_of_the_operator_is_echoed(replica: Make, operator: Operator) -> None:
    operator.answer = {"checkpointNow": "2026-01-01"}
    pod = replica(report_url=operator.url, interval=1e9)
    pod.report(1, metrics={})
    pod.flush()
    assert pod.maybe_checkpoint(lambda path: (path / "w").write_bytes(b"x"), step=1)
    pod.flush()
    (announced,) = operator.bodies("checkpoints")
    assert announced["request"] == "2026-01-01"


def test_the_state_may_change_as_soon_as_the_call_returns(replica: Make) -> None:
    state = bytearray(b"a" * 1_000_000)
    pod = replica()
    assert pod.maybe_checkpoint(lambda path: (path / "w").write_bytes(state), step=1, force=True)
    state[:] = b"b" * len(state)
    pod.flush()
    found = replica().restore()
    assert found is not None
    assert (found / "w").read_bytes() == b"a" * len(state)


def test_metrics_are_read_only_when_a_checkpoint_is_taken(replica: Make) -> None:
    class Tensor:
        read = 0

        def __float__(self) -> float:
            self.read += 1
            return 0.5

    loss, pod = Tensor(), replica(interval=1e9)
    assert not pod.maybe_checkpoint(lambda path: None, step=1, metrics={"loss": loss})
    assert loss.read == 0
    pod.maybe_checkpoint(
        lambda path: (path / "w").write_bytes(b"w"), step=2, metrics={"loss": loss}, force=True
    )
    pod.flush()
    found = replica().restore()
    assert found is not None
    assert found.metrics == {"loss": 0.5}


@pytest.mark.parametrize("step", [-1, "x", None])
def test_a_step_that_is_none_is_refused(replica: Make, step: Any) -> None:
    with pytest.raises(CheckpointError):
        replica().maybe_checkpoint(lambda path: None, step=step)
