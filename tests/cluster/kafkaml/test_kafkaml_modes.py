"""Data that goes on, and data without labels: clients as processes, a server as a thread."""

from __future__ import annotations

import signal
from dataclasses import replace

import numpy as np
import pytest

from corral.podtools.kafka.client import Access, Sender, Topic, ensure
from corral.podtools.kafka.messages import ModelAnnouncement
from corral.podtools.kafkaml.rounds import Rounds
from corral.podtools.kafkaml.serving import Deployment
from tests.cluster.kafkaml.deployments import Audience, Deployments, digits, model
from tests.cluster.kafkaml.scripted import log, stored, wait_for

pytestmark = pytest.mark.timeout(120)


def told(made: Deployment, **settings: object) -> Deployment:
    return replace(made, training_settings={**made.training_settings, **settings})


def updates(deployments: Deployments) -> list[int]:
    """How many records each update was of."""
    entries = log(deployments.access, deployments.names)
    return [entry["num_data"] for entry in entries if entry["type"] == "update"]


def samples(rounds: Rounds) -> int:
    return sum(int(entry["samples"]) for entry in rounds.history)


def ended(deployments: Deployments, client: str) -> str:
    """What a client said, when it has ended well."""
    output, _ = deployments.processes.pop(client).communicate(timeout=60)
    assert "done:" in output, output
    return output


def test_a_stream_is_trained_on_as_it_comes_each_record_once(
    deployments: Deployments, access: Access
) -> None:
    x, y = digits()
    topic = f"stream-{deployments.names.federated_id}"
    audience = Audience(["a"])
    made = told(
        deployments.deployment(model(), rounds=50, streams=True, timeout=5), stream_timeout=1500
    )
    made = replace(made, incremental=True)
    deployments.inject(topic, x[:100], y[:100])
    server = deployments.serve(made, model(), audience)
    deployments.client("a", topic, CASE="2")
    wait_for("the first records are trained on", lambda: sum(updates(deployments)) >= 100)
    with Sender(access) as sender:
        sender.send(topic, b"no record", key=b"x")
    deployments.inject(topic, x[100:160], y[100:160])
    wait_for("more are", lambda: sum(updates(deployments)) >= 160)
    assert "record 100 is left out" in ended(deployments, "a")
    audience.gone.add("a")
    rounds = server.result()
    assert rounds.ended == "finished", rounds.why
    assert samples(rounds) == sum(updates(deployments)) == 160
    assert 2 <= rounds.version < 50
    (announced,) = [
        found
        for found in map(announcement, stored(access, deployments.names.announcements))
        if found.federated_string_id == deployments.names.federated_id
    ]
    assert announced.incremental


def test_a_client_of_a_stream_that_is_killed_takes_nothing_twice(
    deployments: Deployments,
) -> None:
    x, y = digits()
    topic = f"stream-{deployments.names.federated_id}"
    audience = Audience(["a"])
    made = told(
        deployments.deployment(model(), rounds=50, streams=True, timeout=5), stream_timeout=1500
    )
    deployments.inject(topic, x[:100], y[:100])
    server = deployments.serve(made, model(), audience)
    # within its first update, whose weights are then stored in part
    dying = ("tests.cluster.kafkaml.killable", "client", "2")
    process = deployments.client("a", topic, command=dying, CASE="2")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert updates(deployments) == []
    process = deployments.client("a", topic, CASE="2")
    wait_for("the first records are trained on", lambda: sum(updates(deployments)) >= 100)
    process.kill()
    process.communicate(timeout=60)
    deployments.inject(topic, x[100:160], y[100:160])
    deployments.client("a", topic, CASE="2")
    ended(deployments, "a")
    audience.gone.add("a")
    rounds = server.result()
    assert rounds.ended == "finished", rounds.why
    assert samples(rounds) == sum(updates(deployments)) == 160


def announcement(record: object) -> ModelAnnouncement:
    return ModelAnnouncement.decode(record.value)  # type: ignore[attr-defined]


def test_a_stream_that_never_comes_fails_the_deployment(deployments: Deployments) -> None:
    topic = f"stream-{deployments.names.federated_id}"
    ensure(deployments.access, [Topic(topic)])
    audience = Audience(["a"])
    made = told(deployments.deployment(model(), rounds=5, streams=True), stream_timeout=300)
    server = deployments.serve(made, model(), audience)
    deployments.client("a", topic, CASE="2")
    assert "0 updates" in ended(deployments, "a")
    audience.gone.add("a")
    assert server.result().ended == "failed"


def test_data_without_labels_is_trained_on_too(deployments: Deployments) -> None:
    x, y = digits()
    name = deployments.names.federated_id
    labelled = deployments.inject(f"labelled-{name}", x[:200], y[:200])
    unlabelled = deployments.inject(f"unlabelled-{name}", x[200:600], np.zeros((400, 1), np.uint8))
    made = told(
        deployments.deployment(model(), rounds=3), unsupervised=True, unsupervised_rounds=2,
        confidence=0.6,
    )  # fmt: skip
    server = deployments.serve(made, model(), Audience(["a"]))
    deployments.client("a", labelled, UNSUPERVISED_TOPIC=str(unlabelled))
    rounds = server.result()
    assert rounds.ended == "finished", rounds.why
    assert updates(deployments) == [200, 200, 200]
    taken = [entry["metrics"]["training"]["pseudo_labelled"] for entry in rounds.history]
    assert 0 < taken[-1] <= 400
