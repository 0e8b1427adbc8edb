"""A cluster with nodes that run pods, the definitions of TrainingJobs, and an operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.backends import Backend, Node, add_node, own_backend, own_scope
from tests.cluster.objects import Objects
from tests.cluster.trainingjob.operating import Jobs, Operator, install_definitions

NODES = ("one", "two")


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own, so that nodes of other cases are not among its nodes."""
    with own_backend(tmp_path_factory.mktemp("training")) as backend:
        install_definitions(Objects(backend))
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    """Of this cluster, not of the one that other cases share."""
    return str(backend.kubeconfig)


@pytest.fixture(scope=own_scope)
def nodes(backend: Backend) -> Iterator[dict[str, Node]]:
    """Two nodes, by name."""
    started: dict[str, Node] = {}
    try:
        for name in NODES:
            started[name] = add_node(backend, name)
        yield started
    finally:
        for node in started.values():
            node.stop()


@pytest.fixture(scope="module")
def shared_operator(kubeconfig: str, nodes: dict[str, Node]) -> Iterator[Operator]:
    """For all cases of a module that do not disturb it."""
    operator = Operator(kubeconfig).start()
    yield operator
    operator.kill()


@pytest.fixture
def jobs(objects: Objects, kubeconfig: str, shared_operator: Operator) -> Jobs:
    """The jobs of the case's namespace; an operator looks after them."""
    return Jobs(objects, kubeconfig)


@pytest.fixture
def orphans(objects: Objects, kubeconfig: str, nodes: dict[str, Node]) -> Jobs:
    """The jobs of the case's namespace, where the case runs the operator."""
    return Jobs(objects, kubeconfig)
