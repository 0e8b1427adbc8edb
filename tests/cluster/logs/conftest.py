"""A cluster with a node of its own, and jobs whose pods a case makes by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from corral.api import all_crds
from tests.backends import Backend, Node, add_node, own_backend, own_scope
from tests.cluster.gateway_grpc.both_views import GatewayThread
from tests.cluster.logs.writers import Writers
from tests.cluster.objects import Objects
from tests.cluster.operators import install


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own: its node is killed, and nobody looks after its jobs."""
    with own_backend(tmp_path_factory.mktemp("logs")) as backend:
        install(Objects(backend), all_crds())
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    """Of this cluster, not of the one that other cases share."""
    return str(backend.kubeconfig)


@pytest.fixture(scope=own_scope)
def node(backend: Backend) -> Iterator[Node]:
    node = add_node(backend, "one")
    yield node
    node.stop()


@pytest.fixture
def writers(objects: Objects, node: Node) -> Writers:
    return Writers(objects, node)


@pytest.fixture(scope=own_scope)
def gateway(kubeconfig: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    thread = GatewayThread(kubeconfig, tmp_path_factory.mktemp("gateway"))
    thread.start()
    yield thread
    thread.stop()
