"""A cluster without nodes, the definition of MPIJobs, and an operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.backends import Backend, own_backend, own_scope
from tests.cluster.mpijob.mpi_operating import Jobs, Operator, install_definitions
from tests.cluster.objects import Objects


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own, so that nodes of other cases do not run its pods."""
    with own_backend(tmp_path_factory.mktemp("mpijob")) as backend:
        install_definitions(Objects(backend))
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    """Of this cluster, not of the one that other cases share."""
    return str(backend.kubeconfig)


@pytest.fixture(scope="module")
def shared_operator(kubeconfig: str) -> Iterator[Operator]:
    """For all cases of a module."""
    operator = Operator(kubeconfig).start()
    yield operator
    operator.kill()


@pytest.fixture
def jobs(objects: Objects, kubeconfig: str, shared_operator: Operator) -> Jobs:
    """The jobs of the case's namespace; an operator looks after them."""
    return Jobs(objects, kubeconfig)


@pytest.fixture
def orphans(objects: Objects, kubeconfig: str) -> Jobs:
    """The jobs of the case's namespace, where the case runs the operator."""
    return Jobs(objects, kubeconfig)
