"""A cluster with nodes that run pods and an operator, and clients that reach it in every way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from corral.cluster.node.isolation import Capabilities
from corral.sdk.access import Access
from corral.sdk.clients import AsyncTrainingClient
from corral.sdk.connect import Connection, connect
from tests.backends import Backend, Node, add_node, own_backend
from tests.cluster.training.training_stage import OperatorRun, install


@pytest.fixture(scope="session")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own, so that nodes of other cases are not among its nodes."""
    with own_backend(tmp_path_factory.mktemp("sdk")) as backend:
        install(backend)
        yield backend


@pytest.fixture(scope="session")
def kubeconfig(backend: Backend) -> str:
    return str(backend.kubeconfig)


@pytest.fixture(scope="session")
def operator(
    backend: Backend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorRun]:
    """An operator, and a node whose pods share the machine's network: it is at the loopback."""
    mode = Capabilities.detect("probe", highest="user").mode
    node: Node = add_node(backend, "one", isolation=mode)
    running = OperatorRun(backend, tmp_path_factory.mktemp("operator"))
    try:
        running.start()
        yield running
    finally:
        running.stop()
        node.stop()


@pytest.fixture
async def access(kubeconfig: str, operator: OperatorRun) -> AsyncIterator[Access]:
    found = connect(Connection(kubeconfig=kubeconfig))
    yield found
    await found.close()


@pytest.fixture
def client(access: Access, namespace: str) -> AsyncTrainingClient:
    """In the namespace of the case."""
    return AsyncTrainingClient(access=access, namespace=namespace)
