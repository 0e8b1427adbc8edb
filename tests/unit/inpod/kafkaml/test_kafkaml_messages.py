from __future__ import annotations

import json
from typing import Any

import pytest

from corral.inpod.kafkaml.messages import (
    ClientControl,
    DataControl,
    MessageError,
    ModelAnnouncement,
    ModelControl,
    client_key,
    client_of_key,
)
from corral.inpod.kafkaml.ranges import Range

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
