"""A cluster of its own with nodes that run modules and processes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from corral.cluster.node.wasm import runtime_class
from tests.backends import Backend, Node, own_backend, own_scope
from tests.cluster.objects import Objects
from tests.cluster.pods.conftest import start_node
from tests.cluster.pods.pods import Pods


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster whose only nodes are those of these cases."""
    with own_backend(tmp_path_factory.mktemp("federated-clients")) as backend:
        reply = backend.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime_class())
        assert reply.code in (201, 409), reply.body
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    return str(backend.kubeconfig)


@pytest.fixture(scope=own_scope)
def sandbox_nodes(backend: Backend) -> Iterator[dict[str, Node]]:
    """Mode → its node, as far as started."""
    started: dict[str, Node] = {}
    yield started
    for node in started.values():
        node.stop()


@pytest.fixture(params=("best", "plain"))
def pods(
    request: pytest.FixtureRequest,
    backend: Backend,
    sandbox_nodes: dict[str, Node],
    objects: Objects,
) -> Pods:
    """Pods on the node that keeps them apart best, and on one where only WebAssembly does."""
    best = "root" if os.geteuid() == 0 else "user"
    mode = best if request.param == "best" else request.param
    return Pods(objects, start_node(backend, sandbox_nodes, mode))
