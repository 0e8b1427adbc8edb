"""TrainingRounds: who counts, how long it waits, and what it leaves behind."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.cluster.federated_rounds.learning_operating import (
    REGISTRY,
    Learning,
    condition,
    job,
    ready,
    training_round,
)
from tests.cluster.objects import eventually

API = "propeller.absmach.io/v1alpha1"


def entries(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["propletId"]: entry for entry in status["participants"]}


def test_one_fails_one_is_late_one_lies(learning: Learning) -> None:
    """Two of five: the model is that of the two who did what they should."""
    base = {"modelRef": f"oci://{REGISTRY}/base:v1"}
    learning.registry.push(base["modelRef"], b"[0.0,0.0]", format="json-f64")
    learning.create(job("fl", "bad", "dead", "good", "late", "nan", "slow", kOfN=2, **base))
    learning.become("round-1-fl-dead", "Failed", error="boom")
    learning.become("round-1-fl-late", "Running")
    learning.send("round-1-fl-bad", [1.0, 2.0, 3.0], samples=1000)
    learning.send("round-1-fl-good", [2.0, 4.0], samples=1)
    told = learning.told("round-1-fl", "UpdateRejected")
    assert told == (
        "the update of bad does not count: cannot aggregate: mismatched vector dimensions"
    )
    learning.wait("trainingrounds", "round-1-fl", lambda s: s.get("updatesRejected") == 1)
    huge = np.array([1e999, 1.0], "<f8")
    lie = {"format": "f64-le", "update_b64": _base64(huge.tobytes())}
    learning.send("round-1-fl-nan", [], samples=5, **lie)
    learning.wait("trainingrounds", "round-1-fl", lambda s: s.get("updatesRejected") == 2)
    assert learning.status("trainingrounds", "round-1-fl")["phase"] == "Running"
    learning.send("round-1-fl-slow", [5.0, 1.0], samples=2)
    status = learning.until("trainingrounds", "round-1-fl", "Completed")
    assert learning.model(status["aggregatedModelRef"]) == [4.0, 2.0]
    found = entries(status)
    assert [name for name in found if found[name].get("selected")] == ["good", "slow"]
    assert found["dead"]["message"] == "boom"
    assert found["late"]["message"] == "cancelled: the round was over without it"
    assert (status["updatesReceived"], status["samples"]) == (2, 3)
    eventually(lambda: learning.find("wasmtasks", "round-1-fl-late") is None)
    cleaned = learning.wait(
        "trainingrounds", "round-1-fl", lambda s: condition(s, "CleanedUp").get("status") == "True"
    )
    assert cleaned["phase"] == "Completed"


def test_the_majority_decides_where_there_is_no_model_yet(learning: Learning) -> None:
    learning.create(job("fl", "a-bad", "b", "c"))
    learning.send("round-1-fl-a-bad", [1, 2, 3])
    learning.send("round-1-fl-b", [1, 3])
    learning.send("round-1-fl-c", [3, 5])
    status = learning.until("trainingrounds", "round-1-fl", "Failed")
    assert ready(status)[1] == "InsufficientUpdates"
    assert entries(status)["a-bad"]["rejected"]


def test_a_silent_round_times_out(learning: Learning) -> None:
    learning.create(job("fl", "p1", "p2", timeoutSeconds=2))
    status = learning.until("trainingrounds", "round-1-fl", "Failed")
    assert ready(status) == ("False", "Timeout", "Round timed out: only 0/2 updates received")
    failed = learning.until("federatedjobs", "fl", "Failed")
    assert ready(failed)[1] == "RoundFailed"
    for name in ("p1", "p2"):
        eventually(lambda name=name: learning.find("wasmtasks", f"round-1-fl-{name}") is None)


def test_too_few_are_left(learning: Learning) -> None:
    learning.create(job("fl", "p1", "p2", "p3", kOfN=2))
    learning.send("round-1-fl-p1", [1])
    learning.become("round-1-fl-p2", "Failed")
    waiting = learning.wait(
        "trainingrounds", "round-1-fl", lambda s: entries(s)["p2"]["status"] == "Failed"
    )
    assert waiting["phase"] == "Running"
    learning.become("round-1-fl-p3", "Completed", results={"output": "no update"})
    status = learning.until("trainingrounds", "round-1-fl", "Failed")
    holds, reason, message = ready(status)
    assert (holds, reason) == ("False", "InsufficientUpdates")
    assert message == "only 1/2 updates received, and no more than 1 can come"
    assert learning.told("round-1-fl", "UpdateRejected").endswith("gave no update envelope")


def test_time_is_over_and_what_there_is_is_taken(learning: Learning) -> None:
    policy = {"onTimeout": "aggregate", "minUpdates": 1}
    learning.create(job("fl", "p1", "p2", timeoutSeconds=3, policy=policy))
    learning.send("round-1-fl-p1", [1, 2])
    status = learning.until("trainingrounds", "round-1-fl", "Completed")
    assert learning.model(status["aggregatedModelRef"]) == [1, 2]
    assert status["updatesReceived"] == 1
    learning.until("federatedjobs", "fl", "Completed")


def test_time_is_over_and_there_is_too_little(learning: Learning) -> None:
    policy = {"onTimeout": "aggregate", "minUpdates": 2}
    learning.create(job("fl", "p1", "p2", timeoutSeconds=2, policy=policy))
    learning.send("round-1-fl-p1", [1, 2])
    status = learning.until("trainingrounds", "round-1-fl", "Failed")
    assert ready(status)[1:] == ("Timeout", "Round timed out: only 1/2 updates received")


def test_time_is_extended(learning: Learning) -> None:
    policy = {"onTimeout": "extend", "maxExtensions": 30}
    learning.create(job("fl", "p1", timeoutSeconds=1, policy=policy))
    learning.wait("trainingrounds", "round-1-fl", lambda s: s.get("extensions"))
    learning.send("round-1-fl-p1", [1])
    learning.until("federatedjobs", "fl", "Completed")
    policy = {"onTimeout": "extend", "maxExtensions": 1}
    learning.create(job("silent", "p1", timeoutSeconds=1, policy=policy))
    status = learning.until("trainingrounds", "round-1-silent", "Failed")
    assert (status["extensions"], ready(status)[1]) == (1, "Timeout")


def test_a_round_of_nobody(learning: Learning) -> None:
    """Without a job there is no FL_JOB_ID, and updates are averaged."""
    learning.create(training_round("round-1-fl-mnist-experiment", "p1", "p2"))
    task = learning.task("round-1-fl-mnist-experiment-p1")
    assert set(task["spec"]["env"]) == {"ROUND_ID", "MODEL_URI", "PROPLET_ID"}
    for name, value in (("p1", 1.0), ("p2", 2.0)):
        learning.send(f"round-1-fl-mnist-experiment-{name}", [value])
    status = learning.until("trainingrounds", "round-1-fl-mnist-experiment", "Completed")
    assert learning.model(status["aggregatedModelRef"]) == [1.5]
    found = learning.get("modelcheckpoints", "model-round-1-fl-mnist-experiment-round-1")
    assert found["metadata"]["ownerReferences"][0]["kind"] == "TrainingRound"


def test_updates_by_reference(learning: Learning) -> None:
    """Fetched from the registry, folded in, and deleted when the model is recorded."""
    namespace = learning.objects.namespace
    learning.create(job("fl", "p1", "p2"))
    references = []
    for name, value in (("p1", 1.0), ("p2", 4.0)):
        body = np.full(50_000, value, "<f4").tobytes()
        where = f"oci://{REGISTRY}/{namespace}/fl/updates:round-1-fl-{name}"
        references.append(learning.registry.push(where, body))
        more = {"update_b64": None, "update_ref": references[-1], "format": "f32-le"}
        learning.send(f"round-1-fl-{name}", [], samples=1 if name == "p1" else 2, **more)
    status = learning.until("trainingrounds", "round-1-fl", "Completed")
    model = np.frombuffer(learning.registry.layer(status["aggregatedModelRef"]), "<f4")
    assert (len(model), set(model)) == (50_000, {3.0})
    assert [entry["bytes"] for entry in status["participants"]] == [200_000] * 2
    eventually(lambda: not any(map(learning.registry.has, references)))
    assert learning.registry.has(status["aggregatedModelRef"])
    text = learning.get("trainingrounds", "round-1-fl")["metadata"]["annotations"]
    envelope = json.loads(text["propeller.absmach.io/aggregated-update"])
    assert "update_b64" not in envelope
    assert envelope["update_ref"] == status["aggregatedModelRef"]


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("oci://evil.example.com/a/b@sha256:" + "0" * 64, "no registry of this operator"),
        (f"oci://{REGISTRY}/other/fl/updates@sha256:" + "0" * 64, "update_ref is not below"),
        ("oci://{registry}/{namespace}/fl/updates:tag", "update_ref has no digest"),
        ("oci://{registry}/{namespace}/fl/updates@sha256:" + "0" * 64, ""),
    ],
)
def test_references_to_what_is_not_ours(learning: Learning, reference: str, reason: str) -> None:
    learning.create(job("fl", "p1"))
    namespace = learning.objects.namespace
    where = reference.replace("{registry}", REGISTRY).replace("{namespace}", namespace)
    learning.send("round-1-fl-p1", [], update_b64=None, update_ref=where)
    status = learning.until("trainingrounds", "round-1-fl", "Failed")
    assert ready(status)[1] == "InsufficientUpdates"
    assert reason in entries(status)["p1"]["message"]


def test_only_updates_of_the_job_are_deleted(learning: Learning) -> None:
    """A participant that names another job's model is not helped to remove it."""
    namespace = learning.objects.namespace
    where = f"oci://{REGISTRY}/{namespace}/other/models:round-1"
    precious = learning.registry.push(where, np.ones(3, "<f4").tobytes())
    learning.create(job("fl", "p1"))
    more = {"update_b64": None, "update_ref": precious, "format": "f32-le"}
    learning.send("round-1-fl-p1", [], **more)
    learning.wait(
        "trainingrounds", "round-1-fl", lambda s: condition(s, "CleanedUp").get("status") == "True"
    )
    assert learning.registry.has(precious)


def test_late_updates_count_in_a_later_round(learning: Learning) -> None:
    learning.create(job("fl", "p1", "p2", rounds=3, kOfN=1, policy={"strategy": "parallel"}))
    learning.become("round-1-fl-p2", "Running")
    learning.send("round-1-fl-p1", [1.0])
    learning.task("round-2-fl-p1")
    assert learning.find("wasmtasks", "round-2-fl-p2") is None
    assert learning.task("round-1-fl-p2")["status"]["phase"] == "Running"
    learning.send("round-2-fl-p1", [2.0])
    waits = learning.wait(
        "trainingrounds",
        "round-3-fl",
        lambda s: entries(s)["p2"].get("roundsLate") == 2 and s["phase"] == "Running",
    )
    assert entries(waits)["p2"]["taskRef"]["name"] == "round-1-fl-p2"
    learning.send("round-1-fl-p2", [8.0])
    status = learning.until("trainingrounds", "round-3-fl", "Completed")
    assert learning.model(status["aggregatedModelRef"]) == [8.0]
    learning.until("federatedjobs", "fl", "Completed")
    eventually(lambda: learning.find("wasmtasks", "round-3-fl-p1") is None)


def test_late_updates_weigh_less(learning: Learning) -> None:
    policy = {"strategy": "parallel"}
    learning.create(job("fl", "p1", "p2", "p3", rounds=2, kOfN=2, policy=policy))
    for name in ("p1", "p2"):
        learning.send(f"round-1-fl-{name}", [0.0])
    learning.wait("trainingrounds", "round-2-fl", lambda s: s.get("phase") == "Running")
    learning.become("round-2-fl-p2", "Failed")
    learning.send("round-1-fl-p3", [3.0], samples=3)
    learning.wait("trainingrounds", "round-2-fl", lambda s: s.get("updatesReceived") == 1)
    learning.send("round-2-fl-p1", [1.0], samples=3)
    status = learning.until("trainingrounds", "round-2-fl", "Completed")
    weight = 1 / 2**0.5
    (found,) = learning.model(status["aggregatedModelRef"])
    assert found == pytest.approx((1.0 + 3.0 * weight) / (1 + weight), rel=1e-3)


def test_a_registry_that_is_away_for_a_while(learning: Learning) -> None:
    learning.create(job("fl", "p1"))
    learning.task("round-1-fl-p1")
    learning.wait("trainingrounds", "round-1-fl", lambda s: s.get("phase") == "Running")
    learning.registry.stop()
    try:
        learning.send("round-1-fl-p1", [1.0])
        away = learning.wait(
            "trainingrounds", "round-1-fl", lambda s: condition(s, "RegistryReachable")
        )
        assert away["phase"] == "Aggregating"
        assert condition(away, "RegistryReachable")["status"] == "False"
    finally:
        learning.registry.start()
    status = learning.until("trainingrounds", "round-1-fl", "Completed")
    assert condition(status, "RegistryReachable")["status"] == "True"
    assert learning.model(status["aggregatedModelRef"]) == [1.0]


def test_a_registry_that_stays_away_ends_with_the_round(learning: Learning) -> None:
    learning.create(job("fl", "p1", timeoutSeconds=2))
    learning.wait("trainingrounds", "round-1-fl", lambda s: s.get("phase") == "Running")
    learning.registry.stop()
    try:
        learning.send("round-1-fl-p1", [1.0])
        status = learning.until("trainingrounds", "round-1-fl", "Failed")
    finally:
        learning.registry.start()
    assert ready(status)[1] == "RegistryUnavailable"


def test_robust_rules_and_parameters(learning: Learning) -> None:
    aggregator = {"algorithm": "median", "config": {"format": "json-f64"}}
    learning.create(job("fl", "p1", "p2", "p3", aggregator=aggregator))
    env = learning.task("round-1-fl-p1")["spec"]["env"]
    assert env["FL_GLOBAL_UPDATE_FORMAT"] == "json-f64"
    for name, value in (("p1", 1.0), ("p2", 2.0), ("p3", 1e30)):
        learning.send(f"round-1-fl-{name}", [value], samples=10**6)
    status = learning.until("federatedjobs", "fl", "Completed")
    assert learning.model(status["aggregatedModelRef"]) == [2.0]


def test_a_task_that_goes_takes_its_update_along_unless_it_was_kept(learning: Learning) -> None:
    learning.create(job("fl", "p1", "p2"))
    learning.send("round-1-fl-p1", [1.0])
    learning.wait("trainingrounds", "round-1-fl", lambda s: s.get("updatesReceived") == 1)
    learning.objects.delete(API, "wasmtasks", "round-1-fl-p1")
    eventually(lambda: learning.find("wasmtasks", "round-1-fl-p1") is None)
    learning.send("round-1-fl-p2", [2.0])
    status = learning.until("trainingrounds", "round-1-fl", "Failed")
    assert "its task is gone" in entries(status)["p1"]["message"]


def _base64(raw: bytes) -> str:
    import base64

    return base64.b64encode(raw).decode()
