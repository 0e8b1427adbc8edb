"""FederatedJobs from the first round to the last."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.cluster.federated_rounds.learning_operating import (
    REGISTRY,
    Learning,
    condition,
    job,
    ready,
)
from tests.cluster.objects import eventually


def test_rounds_follow_each_other(learning: Learning) -> None:
    template = {"env": {"DATA": "/data"}, "cliArgs": ["--fast"]}
    hyper = {"epochs": 2, "lr": 0.1}
    made = learning.create(job("fl", "p1", "p2", rounds=2, hyperparams=hyper, template=template))
    for name, values, samples in (("p1", [1, 2, 3], 10), ("p2", [4, 5, 6], 30)):
        told = {"metrics": {"loss": float(samples), "accuracy": 0.5}}
        learning.send(f"round-1-fl-{name}", values, samples=samples, **told)
    first = learning.until("trainingrounds", "round-1-fl", "Completed")
    assert ready(first) == ("True", "Completed", "Round completed and aggregated 2 updates")
    assert learning.model(first["aggregatedModelRef"]) == [3.25, 4.25, 5.25]
    assert (first["samples"], first["updatesReceived"], first["updatesRequired"]) == (40, 2, 2)
    assert first["metrics"] == {"accuracy": 0.5, "loss": 25.0}
    namespace = learning.objects.namespace
    tag = f"oci://{REGISTRY}/{namespace}/fl/models:round-1@{first['modelDigest']}"
    assert first["aggregatedModelRef"] == tag

    task = learning.task("round-2-fl-p1")
    assert task["metadata"]["labels"] == {
        "training-round": "round-2-fl", "round-id": "round-2", "participant": "p1",
        "federated-job": "fl",
    }  # fmt: skip
    owner = task["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == (
        "TrainingRound",
        "round-2-fl",
        True,
    )
    assert task["spec"] == {
        "imageUrl": "oci://registry.example.com/fl-client:v1.0.0", "mode": "train",
        "daemon": False, "cliArgs": ["--fast"], "propletId": "p1",
        "env": {
            "ROUND_ID": "round-2", "MODEL_URI": tag, "PROPLET_ID": "p1", "FL_JOB_ID": "exp-001",
            "HYPERPARAMS": json.dumps(hyper, separators=(",", ":")), "DATA": "/data",
            "FL_GLOBAL_VERSION": "round-1", "FL_GLOBAL_UPDATE_REF": tag,
            "FL_GLOBAL_UPDATE_B64": "WzMuMjUsNC4yNSw1LjI1XQ==",
            "FL_GLOBAL_UPDATE_FORMAT": "json-f64",
        },
    }  # fmt: skip
    began = learning.task("round-1-fl-p1")["spec"]["env"]
    assert not any(name.startswith("FL_GLOBAL") for name in began)

    running = learning.status("federatedjobs", "fl")
    assert (running["phase"], running["currentRound"], running["completedRounds"]) == (
        "Running",
        2,
        1,
    )
    assert ready(running) == ("True", "Running", "Job is running")
    for name in ("p1", "p2"):
        learning.send(f"round-2-fl-{name}", [1, 1, 1])
    status = learning.until("federatedjobs", "fl", "Completed")
    assert ready(status) == ("True", "Completed", "All rounds completed")
    assert (status["currentRound"], status["completedRounds"]) == (2, 2)
    assert learning.model(status["aggregatedModelRef"]) == [1, 1, 1]
    shown = [(r["round"], r["updates"], r["samples"]) for r in status["rounds"]]
    assert shown == [(1, 2, 40), (2, 2, 2)]
    assert [(p["propletId"], p["updates"], p["status"]) for p in status["participants"]] == [
        ("p1", 2, "Completed"), ("p2", 2, "Completed"),
    ]  # fmt: skip
    assert all(p["lastUpdate"] for p in status["participants"])
    rounds = [learning.get("trainingrounds", f"round-{n}-fl") for n in (1, 2)]
    assert {r["metadata"]["ownerReferences"][0]["uid"] for r in rounds} == {made["metadata"]["uid"]}
    annotation = rounds[0]["metadata"]["annotations"]
    collected = json.loads(annotation["propeller.absmach.io/collected-updates"])
    assert [base64.b64decode(each["update_b64"]) for each in collected] == [
        b"[1, 2, 3]",
        b"[4, 5, 6]",
    ]
    aggregated = json.loads(annotation["propeller.absmach.io/aggregated-update"])
    assert (aggregated["proplet_id"], aggregated["num_samples"]) == ("aggregator", 40)


def test_checkpoints_record_models(learning: Learning) -> None:
    learning.create(job("fl", "p1"))
    learning.send("round-1-fl-p1", [1.5, 2.5], samples=7, metrics={"loss": 0.5})
    status = learning.until("federatedjobs", "fl", "Completed")
    told = learning.until("modelcheckpoints", "model-fl-round-1", "Ready")
    assert told["sizeBytes"] == len(b"[1.5,2.5]")
    assert told["uploadTime"]
    spec = learning.get("modelcheckpoints", "model-fl-round-1")["spec"]
    assert spec["modelRef"] == status["aggregatedModelRef"]
    assert (spec["federatedJobRef"], spec["roundRef"]) == ({"name": "fl"}, {"name": "round-1-fl"})
    assert spec["metadata"] == {"totalSamples": 7, "numParticipants": 1, "metrics": {"loss": 0.5}}
    notes = learning.registry.annotations(spec["modelRef"])
    assert notes["dev.corral.model.round"] == "1"
    assert notes["dev.corral.model.samples"] == "7"
    assert notes["dev.corral.model.participants"] == '["p1"]'


def test_a_checkpoint_of_a_model_that_is_not_there(learning: Learning) -> None:
    spec: dict[str, Any] = {
        "federatedJobRef": {"name": "fl"}, "modelRef": f"oci://{REGISTRY}/none:round-5",
        "algorithm": "fedavg", "metadata": {},
    }  # fmt: skip
    body = {
        "apiVersion": "propeller.absmach.io/v1alpha1", "kind": "ModelCheckpoint",
        "metadata": {"name": "model-exp-001-round-5"}, "spec": spec,
    }  # fmt: skip
    learning.create(body)
    learning.until("modelcheckpoints", "model-exp-001-round-5", "Uploading")
    learning.registry.push(f"oci://{REGISTRY}/none:round-5", b"[1]")
    learning.until("modelcheckpoints", "model-exp-001-round-5", "Ready")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"experimentId": ""}, "experimentId is required"),
        ({"experimentId": "", "modelRef": ""}, "experimentId is required"),
        ({"modelRef": ""}, "modelRef is required"),
        ({"taskWasmImage": ""}, "taskWasmImage is required"),
        ({"participants": []}, "at least one participant is required"),
        ({"kOfN": 0}, "kOfN must be greater than 0"),
        ({"kOfN": 3}, "kOfN cannot be greater than number of participants"),
    ],
)
def test_what_cannot_run(learning: Learning, change: dict[str, Any], message: str) -> None:
    learning.create(job("wrong", "p1", "p2", **change))
    status = learning.until("federatedjobs", "wrong", "Failed")
    assert ready(status) == ("False", "InvalidSpec", message)
    assert learning.find("trainingrounds", "round-1-wrong") is None


def test_a_suspended_job_begins_no_round(learning: Learning) -> None:
    learning.create(job("fl", "p1", rounds=2, suspend=True))
    waiting = learning.wait("federatedjobs", "fl", lambda s: condition(s, "Suspended"))
    assert (waiting["phase"], condition(waiting, "Suspended")["status"]) == ("Pending", "True")
    patch = {"spec": {"suspend": False}}
    learning.objects.patch("propeller.absmach.io/v1alpha1", "federatedjobs", "fl", patch)
    learning.task("round-1-fl-p1")
    patch = {"spec": {"suspend": True}}
    learning.objects.patch("propeller.absmach.io/v1alpha1", "federatedjobs", "fl", patch)
    learning.send("round-1-fl-p1", [1])
    held = learning.wait("federatedjobs", "fl", lambda s: s.get("completedRounds") == 1)
    assert held["currentRound"] == 1
    assert condition(held, "Suspended")["status"] == "True"
    assert learning.find("trainingrounds", "round-2-fl") is None
    patch = {"spec": {"suspend": False}}
    learning.objects.patch("propeller.absmach.io/v1alpha1", "federatedjobs", "fl", patch)
    learning.send("round-2-fl-p1", [2])
    status = learning.until("federatedjobs", "fl", "Completed")
    assert condition(status, "Suspended")["status"] == "False"


def test_the_budget_ends_a_job(learning: Learning) -> None:
    """Noise 4 at delta 1e-5: three rounds fit into epsilon 2.2, four do not."""
    from corral.learning.privacy import Accountant

    costs = [Accountant().after(1.0, 4.0, rounds=n).epsilon(1e-5) for n in (3, 4)]
    budget = sum(costs) / 2
    privacy = {"clip": 1.0, "noise": 4.0, "epsilon": budget, "delta": 1e-5}
    aggregator = {"algorithm": "fedavg", "privacy": privacy}
    learning.create(job("private", "p1", "p2", rounds=10, aggregator=aggregator))
    for number in (1, 2, 3):
        for name in ("p1", "p2"):
            learning.send(f"round-{number}-private-{name}", [0.5, 0.5])
    status = learning.until("federatedjobs", "private", "Completed")
    holds, reason, message = ready(status)
    assert (holds, reason, status["completedRounds"]) == ("True", "PrivacyBudgetExhausted", 3)
    assert message.startswith("stopped after 3 of 10 rounds: another round would cost epsilon")
    assert status["privacy"]["epsilon"] == pytest.approx(costs[0], abs=1e-6)
    assert [r["epsilon"] for r in status["rounds"]] == sorted(
        r["epsilon"] for r in status["rounds"]
    )
    assert learning.find("trainingrounds", "round-4-private") is None
    secret = learning.objects.get("v1", "secrets", "private-privacy")
    assert len(base64.b64decode(secret["data"]["seed"])) == 32
    assert learning.model(status["aggregatedModelRef"]) != [0.5, 0.5]


def test_a_round_that_fails_fails_the_job(learning: Learning) -> None:
    learning.create(job("fl", "p1", "p2", rounds=3))
    learning.become("round-1-fl-p1", "Failed", error="out of memory")
    status = learning.until("federatedjobs", "fl", "Failed")
    assert ready(status) == ("False", "RoundFailed", "Training round failed")
    assert status["message"].startswith("round-1-fl: InsufficientUpdates: only 0/2")
    eventually(lambda: learning.find("wasmtasks", "round-1-fl-p2") is None)
