"""A cluster with one node and operators, and `corral gateway` in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.api import all_crds
from tests.backends import Backend, Node, add_node, own_backend, own_scope
from tests.cluster.gateway.gateways import GatewayProcess, Somebody
from tests.cluster.mpijob.mpi_operating import Operator as MpiOperator
from tests.cluster.objects import Objects
from tests.cluster.operators import install
from tests.cluster.trainingjob.operating import Operator


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own, so that nodes of other cases are not among its nodes."""
    with own_backend(tmp_path_factory.mktemp("gateway_rest")) as backend:
        install(Objects(backend), all_crds())
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    """Of this cluster, not of the one that other cases share."""
    return str(backend.kubeconfig)


@pytest.fixture(scope=own_scope)
def gateway(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With limits that a test does not reach by accident."""
    folder: Path = tmp_path_factory.mktemp("served")
    gateway = GatewayProcess(backend, folder, "--rate", "100000", "--burst", "100000", "-v")
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.fixture
def admin(gateway: GatewayProcess, backend: Backend) -> Somebody:
    """Who may do everything."""
    return Somebody(gateway, backend.token)


@pytest.fixture(scope=own_scope)
def node(backend: Backend) -> Iterator[Node]:
    node = add_node(backend, "one")
    yield node
    node.stop()


@pytest.fixture(scope="module")
def operator(kubeconfig: str, node: Node) -> Iterator[Operator]:
    """Looks after TrainingJobs."""
    operator = Operator(kubeconfig).start()
    yield operator
    operator.kill()


@pytest.fixture(scope="module")
def mpi_operator(kubeconfig: str, node: Node) -> Iterator[MpiOperator]:
    operator = MpiOperator(kubeconfig).start()
    yield operator
    operator.kill()
