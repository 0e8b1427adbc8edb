"""A cluster with a node, TrainingJobs that really run, and a gateway with both views."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from corral.api import all_crds
from tests.backends import Backend, Node, add_node, own_backend, own_scope
from tests.cluster.gateway_grpc.both_views import GatewayThread, Views, views
from tests.cluster.objects import Objects
from tests.cluster.operators import install
from tests.cluster.trainingjob.operating import Operator


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own, so that nodes of other cases are not among its nodes."""
    with own_backend(tmp_path_factory.mktemp("gateway_grpc")) as backend:
        install(Objects(backend), all_crds())
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    """Of this cluster, not of the one that other cases share."""
    return str(backend.kubeconfig)


@pytest.fixture(scope=own_scope)
def gateway(kubeconfig: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    thread = GatewayThread(kubeconfig, tmp_path_factory.mktemp("gateway"))
    thread.start()
    yield thread
    thread.stop()


@pytest.fixture
def admin(gateway: GatewayThread, backend: Backend) -> Iterator[Views]:
    """A caller who may do everything."""
    with views(gateway, backend.token) as caller:
        yield caller


@pytest.fixture(scope=own_scope)
def operator(backend: Backend, kubeconfig: str) -> Iterator[Operator]:
    """Looks after TrainingJobs, whose pods run on a node."""
    node: Node = add_node(backend, "one")
    operator = Operator(kubeconfig).start()
    yield operator
    operator.kill()
    node.stop()
