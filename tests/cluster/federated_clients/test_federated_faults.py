"""k of n with real clients of which one fails, one is late and one lies; rounds that time out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.federated_clients import outside
from tests.cluster.federated_clients.digits import accuracy, split
from tests.cluster.federated_clients.federation import Federation, seed_job

GOOD = ("good-1", "good-2", "good-3")


@pytest.fixture
def crowd(federation: Federation) -> Iterator[Path]:
    """Data of six proplets on two nodes, and what three of them are like."""
    folder = federation.data / "crowd"
    names = (*GOOD, "broken", "late", "liar")
    split(folder, dict.fromkeys(names, 1.0), at_home=0.0)
    (folder / "broken" / "train.bin").unlink()
    (folder / "late" / "local.json").write_text(json.dumps({"epochs": 2_000_000}))
    # climbs where it should descend
    (folder / "liar" / "local.json").write_text(json.dumps({"learning_rate": -5.0}))
    for number, name in enumerate(names):
        federation.proplet(name, ("one", "two")[number % 2])
    yield folder


def test_k_of_n_with_one_that_fails_one_that_is_late_and_one_that_lies(
    federation: Federation, crowd: Path
) -> None:
    names = (*GOOD, "broken", "late", "liar")
    job = seed_job(
        "crowd", *names, rounds=2, kOfN=4, aggregator={"algorithm": "median"},
        hyperparams={"epochs": 30},
    )  # fmt: skip
    name = federation.run(job, data=crowd)
    status = federation.completed(name)
    sent = [federation.sent(f"round-2-{name}-{each}") for each in (*GOOD, "liar")]
    assert accuracy(federation.data / "test.bin", outside.mean(sent)) < 0.6
    assert federation.accuracy(status["aggregatedModelRef"]) > 0.85
    assert federation.store.pull(status["aggregatedModelRef"]) == outside.median(sent)
    for number in (1, 2):
        round_ = federation.status("trainingrounds", f"round-{number}-{name}")
        assert (round_["updatesReceived"], round_["updatesRequired"]) == (4, 4)
        got = {p["propletId"] for p in round_["participants"] if p.get("updateReceived")}
        assert got == {*GOOD, "liar"}
    broken = federation.task(f"round-1-{name}-broken")
    assert broken["phase"] == "Failed"
    assert "cannot read /data/train.bin" in broken["error"]
    federation.gone(f"round-1-{name}-late")
    federation.gone(f"round-2-{name}-late")


def test_a_round_of_late_clients_times_out(federation: Federation, crowd: Path) -> None:
    job = seed_job("slow", "late", rounds=2, timeoutSeconds=4)
    status = federation.ended(federation.run(job, data=crowd))
    assert (status["phase"], status["completedRounds"]) == ("Failed", 0)
    round_ = federation.status("trainingrounds", "round-1-slow")
    (ready,) = [c for c in round_["conditions"] if c["type"] == "Ready"]
    assert ready["reason"] == "Timeout"
    assert ready["message"].startswith("Round timed out: only 0/1 updates received")
    federation.gone("round-1-slow-late")
