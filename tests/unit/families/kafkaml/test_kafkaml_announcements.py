from __future__ import annotations

import json
from typing import Any

import pytest

from corral.api.kafkaml.kinds import Datasource, FederatedDeployment
from corral.families.kafkaml.announcements import (
    ANNOUNCED_LABEL,
    Where,
    datasource_of,
    is_known,
    outdated,
    position_key,
    positions_of,
    wanted_feeds,
)
from corral.families.kafkaml.deployments.matching import Wanted, matches
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.podtools.kafka.messages import DataControl, MessageError

RAW = {"data_type": "float32", "data_reshape": "64", "label_type": "float32", "label_reshape": "10"}
API = "kafkaml.corral.dev/v1alpha1"


def message(**more: Any) -> bytes:
    said = {
        "topic": "mnist_fed:0:0:500", "unsupervised_topic": None, "input_format": "RAW",
        "description": "", "dataset_restrictions": '{"site": "a"}', "input_config": RAW,
        "validation_rate": 0.1, "test_rate": 0, "total_msg": 500, "incremental": False,
    }  # fmt: skip
    return json.dumps({**said, **more}).encode()


def deployment(name: str = "learn", *, phase: str = "", ids: tuple[str, ...] = (), **spec: Any):  # type: ignore[no-untyped-def]
    results = [
        {"id": n, "model": "m", "federatedStringId": one, "status": "created"}
        for n, one in enumerate(ids)
    ]
    status = {"results": results, **({"phase": phase} if phase else {})}
    obj = {
        "apiVersion": API, "kind": "FederatedDeployment", "metadata": {"name": name},
        "spec": {"model": "m", **spec}, "status": status,
    }  # fmt: skip
    return FederatedDeployment.read(obj)


def test_an_announcement_is_a_datasource() -> None:
    made = datasource_of("team", message())
    assert made["metadata"]["namespace"] == "team"
    assert made["metadata"]["labels"] == {ANNOUNCED_LABEL: "true"}
    spec = Datasource.read(made).spec
    assert (spec.topic, spec.total_msg, spec.validation_rate) == ("mnist_fed:0:0:500", 500, 0.1)
    assert spec.dataset_restrictions == {"site": "a"}
    assert spec.input_config == RAW


def test_the_same_announcement_is_the_same_object() -> None:
    names = [
        datasource_of("team", text)["metadata"]["name"]
        for text in (message(), message(), message(total_msg=400))
    ]
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b'{"topic": 3}',
        message(topic="mnist_fed"),
        message(topic="mnist_fed:0:9:1"),
        message(total_msg=None),
        message(total_msg=10**30),
        message(input_config={}),
        message(input_config={**RAW, "more": 10**30}),
        message(input_config={**RAW, "more": "\ud800"}),
        message(input_format="XML"),
        message(validation_rate=2),
        message(unsupervised_topic=7),
        message(incremental=True),
        message(description="x" * 1_000_001),
    ],
)
def test_what_cannot_be_meant_is_refused(text: bytes) -> None:
    with pytest.raises(MessageError):
        datasource_of("team", text)


def test_data_that_somebody_has_named_is_known() -> None:
    spec = datasource_of("team", message())["spec"]
    other = {"topic": spec["topic"], "datasetRestrictions": {"site": "a"}}
    assert is_known(spec, [{"spec": other}], {})
    assert not is_known(spec, [{"spec": {**other, "topic": "x:0:0:1"}}], {})
    assert not is_known(spec, [{"spec": {**other, "datasetRestrictions": {}}}], {})
    assert not is_known(spec, [{"spec": {**other, "deployment": "learn"}}], {})
    bound = datasource_of("team", message(federated_string_id="abcd1234"))["spec"]
    assert is_known(bound, [{"spec": {**other, "deployment": "learn"}}], {"abcd1234": "learn"})
    assert not is_known(bound, [{"spec": {**other, "federatedStringId": "other"}}], {})
    assert is_known(bound, [{"spec": other}], {})


def test_data_for_a_federated_id_fits_nobody_else() -> None:
    made = datasource_of("team", message(federated_string_id="abcd1234", dataset_restrictions="{}"))
    source = Datasource.read(made)
    found = deployment(minData=10)
    assert not matches(Wanted("learn", "64", federated_id="abcd1234"), found, source)
    assert "abcd1234" in matches(Wanted("learn", "64", federated_id="zzzz9999"), found, source)


def test_topics_of_deployments_that_look_for_data() -> None:
    settings = KafkaMLSettings(kafka="pods:1", own_kafka="here:1")
    named = {"dataControl": "D-{id}"}
    found = wanted_feeds(
        [
            deployment("a"),
            deployment("b", kafka={"bootstrapServers": "k:9", "secretRef": {"name": "login"}}),
            deployment("c", phase="Completed", topics={"dataControl": "never"}),
            deployment("d", suspend=True, topics={"dataControl": "never"}),
            deployment("e", ids=("one", "two"), topics=named),
            deployment("f", topics=named),
            deployment("g"),
        ],
        settings,
    )
    common = "FEDERATED_DATA_CONTROL_TOPIC"
    assert {w: [d.metadata["name"] for d in ds] for w, ds in found.items()} == {
        Where("here:1", "", common): ["a", "g"],
        Where("k:9", "login", common): ["b"],
        Where("here:1", "", "D-one"): ["e"],
        Where("here:1", "", "D-two"): ["e"],
    }
    assert wanted_feeds([deployment()], KafkaMLSettings()) == {}


def test_old_ones_that_nobody_uses_go_first() -> None:
    def source(number: int, *, announced: bool = True, user: str = "") -> dict[str, Any]:
        labels = {ANNOUNCED_LABEL: "true"} if announced else {}
        metadata = {"name": f"s{number}", "labels": labels, "creationTimestamp": f"2026-{number}"}
        matched = [{"deployment": user, "clientId": "x"}] if user else []
        return {"metadata": metadata, "status": {"matches": matched}}

    sources = [source(5), source(1, user="learn"), source(2, announced=False), source(3), source(4)]
    assert outdated(sources, ["learn"], most=4) == []
    found = outdated(sources, ["learn"], most=2)
    assert [s["metadata"]["name"] for s in found] == ["s3", "s4"]
    found = outdated(sources, [], most=3)
    assert [s["metadata"]["name"] for s in found] == ["s1"]


def test_positions_are_kept_by_servers_and_topic() -> None:
    where = Where("k:9", "", "t")
    kept = {position_key(where): json.dumps({"next": {"0": 7, "1": 3}})}
    assert positions_of(kept, where) == {0: 7, 1: 3}
    assert positions_of(kept, Where("other:9", "", "t")) == {}
    for odd in ("", "[]", '{"next": []}', '{"next": {"x": 1}}', "{"):
        assert positions_of({position_key(where): odd}, where) == {}


def test_a_message_and_its_datasource_say_the_same() -> None:
    said = DataControl.decode(message(client_id="c1", federated_string_id="abcd1234"))
    assert DataControl.decode(said.encode()) == said
    assert said.spec()["clientId"] == "c1"
