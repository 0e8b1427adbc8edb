"""A cluster with one node, and operators where a case asks for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from corral.api import all_crds
from corral.client import Jobs
from corral.kube import KubeClient
from tests.backends import Backend, Node, add_node, own_backend, own_scope
from tests.cluster.mpijob.mpi_operating import Operator as MpiOperator
from tests.cluster.objects import Objects
from tests.cluster.operators import install
from tests.cluster.trainingjob.operating import Operator


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own, so that nodes of other cases are not among its nodes."""
    with own_backend(tmp_path_factory.mktemp("jobs_api")) as backend:
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


@pytest.fixture(scope="module")
def operator(kubeconfig: str, node: Node) -> Iterator[Operator]:
    """Looks after TrainingJobs only."""
    operator = Operator(kubeconfig).start()
    yield operator
    operator.kill()


@pytest.fixture(scope="module")
def mpi_operator(kubeconfig: str, node: Node) -> Iterator[MpiOperator]:
    operator = MpiOperator(kubeconfig).start()
    yield operator
    operator.kill()


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        yield client


@pytest.fixture
def jobs(client: KubeClient) -> Jobs:
    """As an administrator."""
    return Jobs(client)
