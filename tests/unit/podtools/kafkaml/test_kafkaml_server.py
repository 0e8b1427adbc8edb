from __future__ import annotations

import json
from typing import Any

from corral.podtools.kafka.names import Names
from corral.podtools.kafkaml.server import fitting, judged


def test_what_clients_found_is_put_together_by_their_samples() -> None:
    tests: list[dict[str, Any]] = [
        {"samples": 30, "metrics": {"accuracy": 1.0, "loss": 0.1}, "matrix": [[10, 0], [0, 20]]},
        {"samples": 10, "metrics": {"accuracy": 0.6, "loss": 0.5}, "matrix": [[2, 3], [1, 4]]},
    ]
    found = judged(tests)
    assert found["samples"] == 40
    assert abs(found["accuracy"] - 0.9) < 1e-9
    assert abs(found["loss"] - 0.2) < 1e-9
    assert found["confusion_matrix"] == [[12, 3], [1, 24]]
    assert "confusion_matrix" not in judged([*tests, {"samples": 1, "metrics": {}, "matrix": None}])


def test_a_report_that_is_too_large_loses_what_is_needed_least() -> None:
    def report() -> dict[str, Any]:
        clients = {f"c{n}": {"version": 1, "metrics": {"loss": 0.5}} for n in range(20)}
        rounds = [{"version": n, "metrics": {"training": {"loss": 0.25}}} for n in range(100)]
        return {"result": {"status": "finished", "rounds": rounds}, "clients": clients}

    whole = len(json.dumps(report()))
    assert fitting(report(), whole) == report()
    less = fitting(report(), whole - 1)
    assert all(client == {"version": 1} for client in less["clients"].values())
    assert len(less["result"]["rounds"]) == 100
    least = fitting(report(), 2000)
    assert len(json.dumps(least)) <= 2000
    assert least["result"]["status"] == "finished"
    assert least["result"]["rounds"][-1]["version"] == 99
    assert len(fitting(report(), 10)["result"]["rounds"]) == 0


def test_topics_that_were_made_for_a_deployment() -> None:
    own = [
        "FED-abc-model_control_topic", "FED-abc-model_data_topic", "FED-abc-agg_control_topic",
        "FED-abc-agg_data_topic-one", "FED-abc-agg_data_topic-a.b-c", "FED-abc-state",
        "FED-abc-state_data",
    ]  # fmt: skip
    others = [
        "FEDERATED_DATA_CONTROL_TOPIC", "FEDERATED_MODEL_CONTROL_TOPIC", "FED-abcd-state",
        "FED-xabc-state", "FED-abc-agg_data_topic-", "mnist_fed", "FED-abc-other", "xFED-abc-state",
    ]  # fmt: skip
    assert Names.of("abc").made([*others, *own]) == own
    plain = Names.of("abc", json.dumps({"modelControl": "model_control_topic"}))
    assert plain.made(["model_control_topic", *own]) == own[1:]
