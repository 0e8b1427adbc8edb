"""What a federated job has learned."""

from __future__ import annotations

import pytest

from corral.client.kinds import KINDS
from corral.client.learning import learned
from tests.unit.client.learning_objects import (
    federated_job,
    job_status,
    round_status,
    training_round,
)


def measured() -> dict:
    job = {**federated_job(), "status": job_status()}
    return learned(job, [{**training_round(2), "status": round_status()}, training_round(3)])


def test_the_job_at_a_glance():
    found = measured()
    assert (found["namespace"], found["name"], found["phase"]) == ("a", "digits", "Running")
    assert (found["currentRound"], found["completedRounds"], found["totalRounds"]) == (3, 2, 3)
    assert found["algorithm"] == "fedadam"
    assert found["modelRef"].endswith("round-2")


def test_rounds_that_are_gone_are_as_the_job_kept_them():
    first, second, third = measured()["rounds"]
    assert (first["round"], first["phase"], first["participants"]) == (1, "Completed", [])
    assert (first["samples"], first["metrics"], first["epsilon"]) == (30, {"loss": 1.5}, 0.5)
    assert (second["durationSeconds"], second["epsilon"]) == (12.0, 0.9)
    assert (second["updates"], second["required"], second["rejected"]) == (2, 2, 1)
    assert (third["round"], third["phase"], third["participants"]) == (3, "Pending", [])


def test_participants_of_a_round():
    parts = measured()["rounds"][1]["participants"]
    assert [entry["counted"] for entry in parts] == [True, True, False]
    assert parts[0]["metrics"] == {"loss": 0.25, "accuracy": 0.875}
    assert (parts[2]["rejected"], parts[2]["message"]) == (True, "it holds a NaN")


def test_proplets_over_all_rounds():
    one, two, three = measured()["proplets"]
    assert (one["propletId"], one["updates"], one["samples"], one["bytes"]) == ("p-1", 2, 10, 40)
    assert (one["durationSeconds"], one["metrics"]["accuracy"]) == (1.5, 0.875)
    assert one["lastUpdate"] == "2026-01-01T00:01:00Z"
    assert (two["updates"], two["samples"]) == (2, 20)
    assert (three["updates"], three["rejected"], three["failed"]) == (0, 1, 1)


def test_a_job_that_nobody_has_looked_at():
    found = learned(federated_job(), [])
    assert (found["phase"], found["rounds"]) == ("Pending", [])
    assert [entry["status"] for entry in found["proplets"]] == ["Pending"] * 3


@pytest.mark.parametrize("odd", [None, "x", 3, [None], {"a": 1}])
def test_odd_objects_do_no_harm(odd):
    job = {**federated_job(), "status": {"rounds": odd, "participants": odd, "currentRound": odd}}
    round_ = {**training_round(1), "status": {"participants": odd, "startTime": odd}}
    strange = {"spec": {"roundId": odd}, "metadata": {}, "status": odd}
    assert learned(job, [round_, strange])["rounds"][0]["round"] in (0, 1)


def test_only_federated_jobs_learn():
    assert [kind.plural for kind in KINDS if kind.learns] == ["federatedjobs"]
