"""A broker of the chosen kind, data in it, and deployments as threads and processes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from corral.podtools.kafka.client import Access
from tests.cluster.broker.broker_servers import ApacheKafka, OwnBroker, Server
from tests.cluster.kafkaml.deployments import Deployments

REAL = os.environ.get("CORRAL_BACKEND", "embedded") == "real"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = (ApacheKafka if REAL else OwnBroker)(tmp_path_factory.mktemp("broker"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def access(kafka: Server) -> Access:
    return Access(kafka.client["bootstrap.servers"])


@pytest.fixture
def deployments(access: Access) -> Iterator[Deployments]:
    made = Deployments(access, uuid.uuid4().hex[:8])
    yield made
    made.stop()
