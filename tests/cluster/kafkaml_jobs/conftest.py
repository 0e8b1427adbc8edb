"""A cluster of its own with a node, a registry, a broker and the family's controllers."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from corral.api.kafkaml.kinds import KINDS
from corral.egress import EgressPolicy
from corral.families.kafkaml import wiring
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.podtools.kafka.client import Access
from corral.runtime import Manager
from tests.backends import Backend, Node, add_node, own_backend, own_scope
from tests.cluster.broker.broker_servers import ApacheKafka, OwnBroker, Server
from tests.cluster.kafkaml_jobs.workflow import Workflow
from tests.cluster.objects import Objects
from tests.cluster.operators import OperatorThread, install
from tests.registries import RunningRegistry, running_registry

REAL = os.environ.get("CORRAL_BACKEND", "embedded") == "real"


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with own_backend(tmp_path_factory.mktemp("kafkaml-jobs")) as backend:
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    return str(backend.kubeconfig)


@pytest.fixture(scope=own_scope)
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = (ApacheKafka if REAL else OwnBroker)(tmp_path_factory.mktemp("broker"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope=own_scope)
def models_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope=own_scope)
def training_node(backend: Backend) -> Iterator[Node]:
    """Pods are on the machine's own network, where the broker and the registry are."""
    install(Objects(backend), [kind.crd() for kind in KINDS])
    node = add_node(backend, "one", isolation="user")
    yield node
    node.stop()


@pytest.fixture(scope=own_scope)
def operator(
    backend: Backend,
    broker: Server,
    models_registry: RunningRegistry,
    training_node: Node,
) -> Iterator[OperatorThread]:
    settings = KafkaMLSettings(
        kafka=broker.address,
        registry=models_registry.base,
        registry_map=models_registry.pairs(),
        poll=1.0,
        topics_patience=4.0,
        egress=EgressPolicy.of(["127.0.0.1"]),
    )

    def add(manager: Manager) -> None:
        wiring.register(manager, settings)

    thread = OperatorThread(str(backend.kubeconfig), add).start()
    yield thread
    thread.kill()


@pytest.fixture
def workflow(
    objects: Objects,
    operator: OperatorThread,
    broker: Server,
    models_registry: RunningRegistry,
) -> Workflow:
    return Workflow(objects, Access(broker.address), models_registry)
