"""A cluster with nodes that run pods, the definitions of the group, and an operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from corral.api.propeller.kinds import KINDS
from corral.cluster.node.isolation import Capabilities
from corral.cluster.node.wasm import runtime_class
from tests.backends import Backend, Node, add_node, own_backend, own_scope
from tests.cluster.federated_tasks.tasking import ELSEWHERE, Operator, Tasks
from tests.cluster.objects import Objects
from tests.cluster.operators import install
from tests.registries import RunningRegistry, running_registry

NODES = ("one", "two")


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own: its nodes are proplets."""
    with own_backend(tmp_path_factory.mktemp("tasks")) as backend:
        install(Objects(backend), [kind.crd() for kind in KINDS])
        reply = backend.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime_class())
        assert reply.code in (201, 409), reply.body
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    return str(backend.kubeconfig)


@pytest.fixture(scope=own_scope)
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope=own_scope)
def nodes(backend: Backend, registry: RunningRegistry) -> Iterator[dict[str, Node]]:
    """Two nodes, by name; their pods share the machine's network, where the registry is."""
    mode = Capabilities.detect("probe", highest="user").mode
    options = tuple(f"--registry-map={pair}" for pair in registry.pairs(ELSEWHERE))
    started: dict[str, Node] = {}
    try:
        for name in NODES:
            started[name] = add_node(backend, name, isolation=mode, options=options)
        yield started
    finally:
        for node in started.values():
            node.stop()


@pytest.fixture(scope="module")
def operator(
    kubeconfig: str, nodes: dict[str, Node], registry: RunningRegistry
) -> Iterator[Operator]:
    """For all cases of a module."""
    where = {"registry": registry.base, "registry_map": registry.pairs(ELSEWHERE)}
    operator = Operator(kubeconfig, **where).start()
    yield operator
    operator.kill()


@pytest.fixture
def tasks(objects: Objects, operator: Operator) -> Tasks:
    """The tasks of the case's namespace; an operator looks after them."""
    return Tasks(objects)
