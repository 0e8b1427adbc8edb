"""The final model is tested by clients that keep data for it, and nobody waits for others."""

from __future__ import annotations

import threading

import numpy as np

from corral.podtools.kafka.messages import ClientControl, ClientTest, ModelControl, client_key
from corral.podtools.kafkaml.rounds import LAST
from corral.podtools.models.confusion import confusion
from tests.cluster.kafkaml.deployments import Audience, Deployments, digits, model
from tests.cluster.kafkaml.scripted import Scripted, log, wait_for


def test_a_client_that_is_killed_before_the_test_tests_all_the_same(
    deployments: Deployments,
) -> None:
    x, y = digits()
    where = deployments.inject(f"d-{deployments.names.federated_id}", x[:100], y[:100])
    go = threading.Event()

    def late(client: Scripted, said: ModelControl, arrays: list[np.ndarray]) -> None:
        assert go.wait(60)
        client.answer(said, arrays)

    told = Audience(["a", "b"])
    made = deployments.deployment(model(), rounds=1, at_least=2)
    serving = deployments.serve(made, model(), told)
    other = Scripted(deployments.access, deployments.names, "b", step=0.5, script=late)
    try:
        process = deployments.client("a", where, TEST_RATE="0.2")
        wait_for("its update counts", lambda: counted(deployments) == ["a"])
        process.kill()
        process.communicate(timeout=30)
        process = deployments.client("a", where, TEST_RATE="0.2")
        go.set()
        rounds = serving.result()
        said, _ = process.communicate(timeout=60)
    finally:
        go.set()
        other.end()
    assert process.returncode == 0, said
    assert rounds.ended == "finished", rounds.why
    assert (rounds.asked, list(rounds.tests)) == (("a",), ["a"])
    final = model()
    final.set_weights(told.published[-1])
    found = rounds.tests["a"]
    assert found["samples"] == 20
    assert found["matrix"] == confusion(final.predict(x[80:100]), y[80:100])


def counted(deployments: Deployments) -> list[str]:
    entries = log(deployments.access, deployments.names)
    return [entry["client"] for entry in entries if entry["type"] == "update"]


def test_a_client_that_does_not_test_holds_up_nobody(deployments: Deployments) -> None:
    """It says that it will, and has gone; and what nobody was asked for does not count."""

    def boasts(client: Scripted, said: ModelControl, arrays: list[np.ndarray]) -> None:
        key = client_key(client.names.federated_id, client.client)
        early = ClientTest(1_000_000, {"accuracy": 1.0}, [[1_000_000]])
        client.sender.send(client.names.client_control, early.encode(), key=key)
        range_ = client.sender.send_weights(client.own, client.learnt(arrays))
        message = ClientControl([range_], LAST, 50, {}, tests=True)
        client.sender.send(client.names.client_control, message.encode(), key=key)
        told.gone.add("a")

    told = Audience(["a"])
    serving = deployments.serve(deployments.deployment(model(), rounds=1), model(), told)
    client = Scripted(deployments.access, deployments.names, "a", step=0.5, script=boasts)
    try:
        rounds = serving.result()
    finally:
        client.end()
    assert rounds.ended == "finished", rounds.why
    assert rounds.tests == {}
    assert any("not asked to test" in why for _, why in told.remarks)
    assert len(told.published) == 1
