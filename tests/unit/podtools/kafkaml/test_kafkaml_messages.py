from __future__ import annotations

import json
from typing import Any

import pytest

from corral.podtools.kafka.messages import (
    CLASSES,
    CONTROL,
    ClientControl,
    ClientTest,
    DataControl,
    MessageError,
    ModelAnnouncement,
    ModelControl,
    client_key,
    client_of_key,
)
from corral.podtools.kafka.ranges import Range

WEIGHTS = [Range("FED-ddy6heod-model_data_topic", 0, 0, 4)]


def test_model_control_as_it_has_always_been() -> None:
    sent = ModelControl(WEIGHTS, 3, {"batch": 32, "kwargs_fit": {"epochs": 2}}, '{"a": 1}', {})
    said = json.loads(sent.encode())
    assert said["topic"] == "FED-ddy6heod-model_data_topic:0:0:4"
    assert said["version"] == 3
    assert said["training_settings"]["kwargs_fit"] == {"epochs": 2}
    assert said["model_architecture"] == '{"a": 1}'
    assert said["model_compile_args"] == {}
    assert ModelControl.decode(sent.encode()) == sent


def test_client_control_as_it_has_always_been() -> None:
    sent = ClientControl(WEIGHTS, -1, 500, {"training": {"loss": [0.5]}, "validation": {}})
    assert json.loads(sent.encode()) == {
        "topic": "FED-ddy6heod-model_data_topic:0:0:4",
        "version": -1,
        "num_data": 500,
        "metrics": {"training": {"loss": [0.5]}, "validation": {}},
    }
    assert ClientControl.decode(sent.encode()) == sent


def test_of_metrics_only_numbers_are_taken() -> None:
    said = {"loss": [0.5, 10**400, "x", float("nan"), 0.25], "acc": 0.5, "deep": [[[1]]], "b": True}
    body = {"topic": "a:0:0:1", "version": 1, "num_data": 5, "metrics": {"training": said, "x": {}}}
    found = ClientControl.decode(json.dumps(body).encode())
    assert found.metrics == {"training": {"loss": [0.5, 0.25], "acc": 0.5}, "validation": {}}


def test_of_metrics_only_so_many_are_taken() -> None:
    """What everybody's statuses are made of must not grow with what a client says."""
    said = {"n" * 65: 1.0, **{f"m{n}": float(n) for n in range(100)}}
    body = {"topic": "a:0:0:1", "version": 1, "num_data": 5, "metrics": {"training": said}}
    found = ClientControl.decode(json.dumps(body).encode()).metrics["training"]
    assert list(found) == [f"m{n}" for n in range(32)]


def test_messages_of_clients_fit_their_topic() -> None:
    history = {f"m{n}": [0.123456789 + n] * 5000 for n in range(40)}
    metrics = {"training": history, "validation": history, "training_seconds": 2.5}
    data = ClientControl(WEIGHTS, 1, 5, metrics).encode()
    assert len(data) <= CONTROL
    found = ClientControl.decode(data).metrics
    assert found["training"]["m3"][-1] == history["m3"][-1]
    assert found["training_seconds"] == 2.5
    large = [[10**9] * CLASSES] * CLASSES
    data = ClientTest(50, {"loss": 1.0}, large).encode()
    assert len(data) <= CONTROL
    assert ClientTest.decode(data) == ClientTest(50, {"loss": 1.0})
    small = [[7] * CLASSES] * CLASSES
    assert ClientTest.decode(ClientTest(50, {}, small).encode()) == ClientTest(50, {}, small)


def test_how_long_a_client_has_trained() -> None:
    for seconds, kept in ((1.5, 1.5), (0, 0), (-1, None), ("x", None), (float("inf"), None)):
        body = {
            "topic": "a:0:0:1", "version": 1, "num_data": 5,
            "metrics": {"training_seconds": seconds},
        }  # fmt: skip
        found = ClientControl.decode(json.dumps(body).encode())
        assert found.metrics.get("training_seconds") == kept


def test_clients_that_test_the_final_model() -> None:
    asked = ModelControl(WEIGHTS, -1, {}, "", {}, test=True)
    assert ModelControl.decode(asked.encode()).test
    able = ClientControl(WEIGHTS, -1, 5, {"training": {}, "validation": {}}, tests=True)
    assert ClientControl.decode(able.encode()) == able
    sent = ClientTest(50, {"accuracy": 0.5}, [[3, 1], [0, 46]])
    assert ClientTest.decode(sent.encode()) == sent
    assert ClientTest.decode(ClientTest(5, {"loss": 1.0}).encode()) == ClientTest(5, {"loss": 1.0})
    assert ClientTest.decode(able.encode()) is None


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"samples": 0}, "`samples`"),
        ({"samples": "5"}, "`samples`"),
        ({"samples": 5, "confusion_matrix": 5}, "no square"),
        ({"samples": 5, "confusion_matrix": []}, "no square"),
        ({"samples": 5, "confusion_matrix": [[1, 2]]}, "no square"),
        ({"samples": 5, "confusion_matrix": [[1.5]]}, "no square"),
        ({"samples": 5, "confusion_matrix": [[-1]]}, "no square"),
        ({"samples": 5, "confusion_matrix": [[True]]}, "no square"),
        ({"samples": 5, "confusion_matrix": [[0] * (CLASSES + 1)] * (CLASSES + 1)}, "no square"),
    ],
)
def test_tests_that_cannot_be_meant(said: object, words: str) -> None:
    with pytest.raises(MessageError, match=words):
        ClientTest.decode(json.dumps({"test": said}).encode())


@pytest.mark.parametrize("number", [0, -1, (1 << 40) + 1, 10**40, True, 1.5, None])
def test_numbers_of_samples_that_nobody_has(number: object) -> None:
    body = {"topic": "a:0:0:1", "version": 1, "num_data": number}
    with pytest.raises(MessageError, match="num_data"):
        ClientControl.decode(json.dumps(body).encode())


def test_announcements_say_restrictions_as_texts() -> None:
    sent = ModelAnnouncement("28 28", "10", "ddy6heod", {"a": [1]}, 1000)
    said = json.loads(sent.encode())
    assert said["federated_params"]["data_restriction"] == '{"a": [1]}'
    assert said["model_format"] == {"input_shape": "28 28", "output_shape": "10"}
    assert ModelAnnouncement.decode(sent.encode()) == sent


def test_data_control() -> None:
    sent = DataControl(
        "mnist:0:0:550", "RAW", {"data_type": "float32"}, 550, 0.1, 0.0, None, "d", {"x": 1}
    )
    said = json.loads(sent.encode())
    assert (said["total_msg"], said["unsupervised_topic"], said["incremental"]) == (
        550,
        None,
        False,
    )
    assert DataControl.decode(sent.encode()) == sent
    online = {"topic": "mnist", "incremental": True, "total_msg": None, "input_config": "{}"}
    assert DataControl.decode(json.dumps(online).encode()).total_msg is None


def test_keys_name_clients() -> None:
    assert client_key("ddy6heod", "test123") == b"FED-MODEL-ddy6heod-CLIENT-test123"
    assert client_of_key("ddy6heod", client_key("ddy6heod", "a-b")) == "a-b"
    for key in (None, b"", b"FED-MODEL-ddy6heod-CLIENT-", b"FED-MODEL-other-CLIENT-a", b"\xff"):
        with pytest.raises(MessageError):
            client_of_key("ddy6heod", key)


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        (ModelControl, b"", "it is empty"),
        (ModelControl, b"\x80\x04K\x01.", "it is no JSON"),
        (ModelControl, b"[]", "no JSON object"),
        (ModelControl, b"[" * 100_000, "it is no JSON"),
        (ModelControl, b'{"topic": 5}', "`topic` is no text"),
        (ModelControl, b'{"topic": "a:0:4:1", "version": 1}', "ends before it starts"),
        (ModelControl, b'{"topic": "a:0:0:1", "version": true}', "`version` is no whole number"),
        (ClientControl, b'{"topic": "a:0:0:1", "version": 1}', "`num_data`"),
        (ClientControl, b'{"topic": "a:0:0:1", "version": 1, "num_data": 0}', "of nothing"),
        (ClientControl, b'{"topic": "a:0:0:1", "version": 1.5, "num_data": 1}', "`version`"),
        (DataControl, b'{"topic": ""}', "`topic` is no text"),
        (DataControl, b'{"topic": "t"}', "is not topic:partition"),
        (DataControl, b'{"topic": "t:0:0:1", "validation_rate": 2}', "no share"),
        (ModelAnnouncement, b'{"federated_params": "x"}', "it is no JSON"),
    ],
)
def test_what_cannot_be_meant_is_refused(kind: Any, data: bytes, words: str) -> None:
    with pytest.raises(MessageError, match=words):
        kind.decode(data)
