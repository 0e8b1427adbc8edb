"""The status of a job as its rounds tell it, and the rounds that it makes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral.families.federated.jobs import budget, state
from corral.families.federated.jobs.rounds import round_of, total_of
from corral.families.federated.rounds import conclusion
from corral.families.federated.rounds.state import begin
from corral.families.federated.view import Privacy
from corral.runtime.keys import format_time
from tests.unit.families.federated.learning_cases import NOW, Obj, round_object, view_of

AGGREGATED = "propeller.absmach.io/aggregated-update"


def job(*participants: str, **spec: Any) -> Obj:
    return {
        "apiVersion": "propeller.absmach.io/v1alpha1",
        "kind": "FederatedJob",
        "metadata": {"name": "job", "namespace": "ns", "uid": "u"},
        "spec": {
            "experimentId": "exp-001",
            "modelRef": "oci://r.example.com/m:v1",
            "taskWasmImage": "oci://r.example.com/c:v1",
            "participants": [{"propletId": each} for each in participants or ("a", "b")],
            "kOfN": 1,
            "timeoutSeconds": 60,
            "rounds": {"total": 3},
            "aggregator": {"algorithm": "fedavg"},
            **spec,
        },
    }


def completed(number: int = 1, *, selected: str = "ab", rejected: str = "") -> Obj:
    round_ = round_object("a", "b", number=number)
    status = begin(view_of("a", "b", number=number), NOW)
    for entry in status["participants"]:
        name = entry["propletId"]
        if name in selected:
            entry |= {"selected": True, "updateReceived": True, "samples": 5, "status": "Completed"}
            entry["receivedTime"] = format_time(NOW + number)
        if name in rejected:
            entry |= {"rejected": True, "status": "Completed"}
    status |= {
        "phase": "Completed",
        "endTime": format_time(NOW + 9),
        "aggregatedModelRef": f"oci://r/models:round-{number}@sha256:{'0' * 64}",
        "samples": 10,
        "metrics": {"loss": 0.5},
    }
    return {**round_, "status": status}


def test_a_round_is_counted_once() -> None:
    status: Obj = {"completedRounds": 0}
    for _ in range(3):
        state.record(job(), status, completed(1, selected="a", rejected="b"), 1, epsilon=0.5)
    assert status["completedRounds"] == 1
    assert len(status["rounds"]) == 1
    assert status["rounds"][0] == {
        "round": 1, "updates": 1, "rejected": 1, "samples": 10, "durationSeconds": 9.0,
        "metrics": {"loss": 0.5}, "epsilon": 0.5, "modelRef": status["aggregatedModelRef"],
    }  # fmt: skip
    first, second = status["participants"]
    assert (first["updates"], first["samples"], first["lastUpdate"]) == (1, 5, format_time(NOW + 1))
    assert (second["rejected"], second.get("updates")) == (1, None)
    state.record(job(), status, completed(2), 2, epsilon=None)
    assert [p.get("updates") for p in status["participants"]] == [2, 1]
    assert [r["round"] for r in status["rounds"]] == [1, 2]


def test_only_the_last_rounds_are_shown() -> None:
    status: Obj = {}
    for number in range(1, 131):
        state.record(job(), status, completed(number), number, epsilon=None)
    assert [r["round"] for r in status["rounds"]] == list(range(31, 131))


def test_participants_that_come_and_go() -> None:
    status: Obj = {}
    state.record(job("a", "b"), status, completed(1), 1, epsilon=None)
    state.follow(job("b", "c"), status, None)
    assert [(p["propletId"], p["status"]) for p in status["participants"]] == [
        ("b", "Completed"), ("c", "Pending"),
    ]  # fmt: skip


def test_the_first_round_starts_from_the_jobs_model() -> None:
    made = round_of(
        job(rounds={"total": 1, "onTimeout": "extend", "maxExtensions": 2}), 1, before=None
    )
    assert made["metadata"]["name"] == "round-1-job"
    assert "annotations" not in made["metadata"]
    spec = made["spec"]
    assert (spec["roundId"], spec["modelRef"]) == ("round-1", "oci://r.example.com/m:v1")
    assert (spec["onTimeout"], spec["maxExtensions"]) == ("extend", 2)
    assert spec["participants"] == ["a", "b"]


def test_later_rounds_start_from_the_one_before() -> None:
    before = completed(1)
    before["metadata"]["annotations"] = {AGGREGATED: '{"update_ref":"x"}'}
    made = round_of(job(), 2, before=before)
    assert made["spec"]["modelRef"] == before["status"]["aggregatedModelRef"]
    assert made["metadata"]["annotations"] == {AGGREGATED: '{"update_ref":"x"}'}


def test_a_round_whose_predecessor_is_gone() -> None:
    known = {**job(), "status": {"aggregatedModelRef": "oci://r/m@sha256:1"}}
    made = round_of(known, 4, before=None)
    assert made["spec"]["modelRef"] == "oci://r/m@sha256:1"
    envelope = json.loads(made["metadata"]["annotations"][AGGREGATED])
    assert envelope == {"global_version": "round-3", "update_ref": "oci://r/m@sha256:1"}


def test_templates_of_participants_go_along() -> None:
    given = job()
    given["spec"]["participants"][1]["template"] = {"env": {"A": "1"}}
    given["spec"]["template"] = {"env": {"B": "2"}}
    spec = round_of(given, 1, before=None)["spec"]
    assert spec["participantTemplates"] == {"b": {"env": {"A": "1"}}}
    assert spec["template"] == {"env": {"B": "2"}}


@pytest.mark.parametrize(("total", "rounds"), [(-1, 1), (0, 1), (1, 1), (7, 7)])
def test_fewer_than_one_round_is_one(total: int, rounds: int) -> None:
    assert total_of(job(rounds={"total": total})) == rounds


async def test_what_rounds_cost() -> None:
    private = Privacy(clip=1.0, noise=4.0, epsilon=2.0)
    costs = [await budget.spent(private, n) for n in (0, 1, 2)]
    assert costs[0] == 0.0
    assert costs[1] is not None and costs[2] is not None and 0 < costs[1] < costs[2]
    enough = Privacy(clip=1.0, noise=4.0, epsilon=costs[1])
    assert await budget.exhausted(enough, 1) == ""
    assert "another round would cost epsilon" in await budget.exhausted(enough, 2)
    assert await budget.exhausted(Privacy(clip=1.0, noise=4.0), 10**6) == ""
    assert await budget.spent(Privacy(clip=1.0, noise=0.0), 3) is None
    assert "set noise" in await budget.exhausted(Privacy(clip=1.0, noise=0.0, epsilon=1.0), 1)


def test_suspension_is_news_once() -> None:
    status: Obj = {}
    assert not state.set_suspended(status, suspended=False, now=NOW)
    assert "conditions" not in status
    assert state.set_suspended(status, suspended=True, now=NOW)
    assert not state.set_suspended(status, suspended=True, now=NOW)
    assert state.set_suspended(status, suspended=False, now=NOW)


def test_names_of_checkpoints() -> None:
    assert conclusion.checkpoint_name("fl", 5) == "model-fl-round-5"
