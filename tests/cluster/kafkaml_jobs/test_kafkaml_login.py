"""A broker that wants a login: the operator and every pod have it from a Secret."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator

import pytest

from corral.podtools.kafka.client import Access, Sender, Topic, ensure
from corral.podtools.kafka.messages import DataControl
from tests.cluster.broker.broker_servers import PASSWORD, USER, ApacheKafka, OwnBroker, Server
from tests.cluster.kafkaml.deployments import digits
from tests.cluster.kafkaml_jobs.workflow import RAW, Workflow
from tests.cluster.objects import Objects

pytestmark = pytest.mark.timeout(300)

REAL = os.environ.get("CORRAL_BACKEND", "embedded") == "real"
MECHANISM = "SCRAM-SHA-256"


@pytest.fixture
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    kind = ApacheKafka if REAL else OwnBroker
    server = kind(tmp_path_factory.mktemp("guarded"), scram=True)
    server.start()
    yield server
    server.stop()


def test_everybody_logs_in(workflow: Workflow, objects: Objects, guarded: Server) -> None:
    x, y = digits()
    inside = Workflow(
        objects, Access(guarded.address, USER, PASSWORD, MECHANISM), workflow.registry
    )
    said = {"username": USER, "password": PASSWORD, "mechanism": MECHANISM}
    secret = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in said.items()},
    }  # fmt: skip
    objects.create("secrets", secret)
    where = inside.inject("data", x[:200], y[:200])
    control = "FEDERATED_DATA_CONTROL_TOPIC"
    ensure(inside.access, [Topic(control, 1_000_000)])
    with Sender(inside.access) as sender:
        sender.send(control, DataControl(str(where), "RAW", RAW, 200).encode(), key=b"\0")
    inside.model("digits")
    kafka = {"bootstrapServers": guarded.address, "secretRef": {"name": "login"}}
    inside.deployment("guarded", model="digits", rounds=1, kafka=kafka)
    status = inside.until("federateddeployments", "guarded", "Completed", timeout=120)
    assert [entry["samples"] for entry in status["results"][0]["rounds"]] == [200]
