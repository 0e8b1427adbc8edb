"""Counting updates and deciding what follows, without a cluster."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from corral.families.federated.rounds import state
from corral.families.federated.rounds.state import Step
from corral.runtime.keys import format_time
from corral.runtime.sightings import Sightings
from tests.unit.families.federated.learning_cases import NOW, Obj, envelope, task, view_of


def begun(*participants: str, late: dict[str, int] | None = None, **spec: Any) -> tuple[Any, Obj]:
    view = view_of(*participants, **spec)
    status = state.begin(view, NOW)
    for name in view.participants:
        older = (late or {}).get(name, 0)
        made = task(name, number=view.number - older)
        state.fill(status, name, made, rounds_late=older)
    status["phase"] = "Running"
    return view, status


def seen(view: Any, status: Obj, *tasks: Obj, now: float = NOW) -> tuple[Obj, list[Any]]:
    known = {t["metadata"]["name"]: t for t in tasks}
    for name in view.participants:
        known.setdefault(f"{view.name}-{name}", task(name, number=view.number))
    return state.observe(view, status, known, now)


def done(name: str, **more: Any) -> Obj:
    return task(name, "Completed", {"update_envelope": envelope(name, **more)})


def test_updates_are_counted_once_over_all_passes() -> None:
    view, status = begun(needed=2)
    status, refused = seen(view, status, done("a"))
    assert (status["updatesReceived"], refused) == (1, [])
    for _ in range(3):
        status, refused = seen(view, status, done("a"))
    assert status["updatesReceived"] == 1
    assert state.decide(view, status, NOW).step is Step.WAIT
    status, _ = seen(view, status, done("b"))
    assert status["updatesReceived"] == 2
    assert state.decide(view, status, NOW).step is Step.AGGREGATE


def test_what_was_counted_stays_though_the_task_changes_or_goes() -> None:
    view, status = begun(needed=2)
    status, _ = seen(view, status, done("a", samples=7))
    before = deepcopy(status["participants"][0])
    after, _ = state.observe(view, status, {}, NOW)
    assert after["participants"][0] == before
    again, _ = seen(view, status, done("a", samples=9))
    assert again["participants"][0] == before
    assert before["samples"] == 7


def test_a_completed_task_without_envelope_does_not_count() -> None:
    view, status = begun(needed=1)
    status, refused = seen(view, status, task("a", "Completed", {"output": 1}))
    assert [r.participant for r in refused] == ["a"]
    entry = status["participants"][0]
    assert (entry["rejected"], entry.get("updateReceived")) == (True, None)
    assert (status["updatesReceived"], status["updatesRejected"]) == (0, 1)
    _, told_again = seen(view, status, task("a", "Completed", {"output": 1}))
    assert told_again == []


def test_failed_and_deleted_tasks() -> None:
    view, status = begun(needed=1)
    known = {f"round-1-job-{n}": t for n, t in (("a", task("a", "Failed", error="boom")),)}
    other = task("b", "Running")
    other["metadata"]["uid"] = "of another life"
    known["round-1-job-b"] = other
    status, _ = state.observe(view, status, known, NOW)
    told = [(e["status"], e["message"]) for e in status["participants"]]
    assert told == [("Failed", "boom"), *[("Failed", "its task was deleted")] * 2]
    decision = state.decide(view, status, NOW)
    assert (decision.step, decision.reason) == (Step.FAIL, "InsufficientUpdates")


def test_no_more_than_can_come() -> None:
    view, status = begun(needed=3)
    status, _ = seen(view, status, task("b", "Failed"))
    decision = state.decide(view, status, NOW)
    assert decision.reason == "InsufficientUpdates"
    assert decision.message == "only 0/3 updates received, and no more than 2 can come"


def test_a_silent_round_times_out() -> None:
    view, status = begun(needed=2)
    waiting = state.decide(view, status, NOW + 10)
    assert (waiting.step, waiting.wait) == (Step.WAIT, 50)
    decision = state.decide(view, status, NOW + 60)
    assert (decision.step, decision.reason) == (Step.FAIL, "Timeout")
    assert decision.message == "Round timed out: only 0/2 updates received"


def test_a_round_that_a_wrong_clock_began_times_out() -> None:
    view, status = begun(needed=2)
    status["deadline"] = format_time(NOW + 730 * 86400)
    known = Sightings()
    assert state.decide(view, status, NOW, sightings=known).wait == 60
    assert state.decide(view, status, NOW + 59, sightings=known).step is Step.WAIT
    assert state.decide(view, status, NOW + 60, sightings=known).reason == "Timeout"


def test_a_limit_that_was_taken_away_holds_for_what_has_begun() -> None:
    _, status = begun(needed=2)
    view, _ = begun(needed=2, timeoutSeconds=0)
    assert state.decide(view, status, NOW + 59).wait == 1
    assert state.decide(view, status, NOW + 60).reason == "Timeout"


def test_without_a_limit_it_waits() -> None:
    view, status = begun(needed=2, timeoutSeconds=0)
    assert "deadline" not in status
    assert state.decide(view, status, NOW + 1e9) == state.Decision(Step.WAIT)


@pytest.mark.parametrize(
    ("least", "step"), [(1, Step.AGGREGATE), (2, Step.FAIL), (None, Step.AGGREGATE)]
)
def test_aggregate_what_there_is(least: int | None, step: Step) -> None:
    spec = {"onTimeout": "aggregate"} | ({"minUpdates": least} if least else {})
    view, status = begun(needed=3, **spec)
    status, _ = seen(view, status, done("a"))
    assert state.decide(view, status, NOW + 59).step is Step.WAIT
    assert state.decide(view, status, NOW + 60).step is step


def test_aggregate_does_not_wait_for_nobody() -> None:
    view, status = begun(needed=3, onTimeout="aggregate", minUpdates=2)
    status, _ = seen(view, status, done("a"), done("b"), task("c", "Failed"))
    decision = state.decide(view, status, NOW)
    assert (decision.step, decision.reason) == (Step.AGGREGATE, "NoMoreUpdates")
    view, status = begun(needed=3, onTimeout="aggregate", minUpdates=2)
    status, _ = seen(view, status, done("a"), task("b", "Failed"), task("c", "Failed"))
    assert state.decide(view, status, NOW).reason == "InsufficientUpdates"


def test_extensions_end() -> None:
    view, status = begun(needed=2, onTimeout="extend", maxExtensions=2)
    now = NOW
    for number in (1, 2):
        now += 60
        assert state.decide(view, status, now).step is Step.EXTEND
        state.extend(view, status, now)
        assert (status["extensions"], status["deadline"]) == (number, format_time(now + 60))
    assert state.decide(view, status, now + 60).reason == "Timeout"


def test_what_was_chosen_is_fixed_and_may_be_too_little() -> None:
    view, status = begun(needed=2)
    status, _ = seen(view, status, done("a"), done("c"))
    state.choose(status, NOW)
    assert [e["propletId"] for e in state.selected(status)] == ["a", "c"]
    state.reject(status, [state.Rejection("a", "it holds a NaN or an infinity")])
    state.reopen(status)
    assert (status["phase"], status["updatesReceived"], status["updatesRejected"]) == (
        "Running",
        1,
        1,
    )
    assert state.selected(status) == []
    assert state.decide(view, status, NOW).step is Step.WAIT
    status, _ = seen(view, status, done("b"))
    assert state.decide(view, status, NOW).step is Step.AGGREGATE


def test_late_updates_are_of_their_own_round() -> None:
    view, status = begun("a", "b", number=3, late={"b": 2}, strategy="parallel")
    older = task("b", "Completed", envelope("b", round_id=1), number=1)
    status, refused = seen(view, status, older)
    assert refused == []
    assert status["participants"][1]["roundsLate"] == 2
    view, status = begun("a", "b", number=3, late={"b": 2}, strategy="parallel")
    wrong = task("b", "Completed", envelope("b", round_id=3), number=1)
    _, refused = seen(view, status, wrong)
    assert [r.reason for r in refused] == ["it is of round 3, not of round 1"]


def test_participants_count_once() -> None:
    _, status = begun("a", "b", "a", needed=2)
    assert [e["propletId"] for e in status["participants"]] == ["a", "b"]


def test_durations_and_figures() -> None:
    view, status = begun("a", needed=1)
    times = {"startTime": format_time(NOW), "finishTime": format_time(NOW + 5)}
    finished = task("a", "Completed", envelope("a", metrics={"loss": 0.25}), **times)
    status, _ = seen(view, status, finished)
    entry = status["participants"][0]
    assert entry["durationSeconds"] == 5
    assert entry["metrics"] == {"loss": 0.25}
    assert entry["updateDigest"].startswith("sha256:")
    assert entry["bytes"] == len(b"[1.0, 2.0]")
