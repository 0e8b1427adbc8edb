"""A cluster whose nodes run pods: the same cases on every backend and in every isolation mode.

A node for each mode, started when a case first asks for it. Where the tests run as root, the nodes
without namespaces of root run as an ordinary user.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from corral.cluster.node.isolation import Capabilities
from tests.backends import Backend, Node, add_node, ordinary_python, own_backend, own_scope
from tests.cluster.binaries import client_binary
from tests.cluster.kubectl.runner import Kubectl
from tests.cluster.objects import Objects
from tests.cluster.pods.pods import Pods
from tests.support.matrix import matrix


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own, so that nodes of other cases are not among its nodes."""
    with own_backend(tmp_path_factory.mktemp("pods")) as backend:
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    """Of this cluster, not of the one that other cases share."""
    return str(backend.kubeconfig)


@pytest.fixture(scope=own_scope)
def nodes(backend: Backend) -> Iterator[dict[str, Node]]:
    """Mode → its node, as far as started."""
    started: dict[str, Node] = {}
    yield started
    for node in started.values():
        node.stop()


def start_node(backend: Backend, started: dict[str, Node], mode: str) -> Node:
    """The node of a mode; the case is skipped where this machine or user cannot have it."""
    if mode not in started:
        is_root = os.geteuid() == 0
        if Capabilities.detect("probe", highest=mode).mode != mode:  # type: ignore[arg-type]
            pytest.skip(f"pods cannot be isolated as {mode} here")
        ordinary = is_root and mode != "root"
        if ordinary and ordinary_python() is None:
            pytest.skip("an ordinary user cannot run our Python here")
        started[mode] = add_node(backend, mode, isolation=mode, ordinary=ordinary)
    return started[mode]


@pytest.fixture(params=matrix("root", "plain", full=["user"]))
def node(request: pytest.FixtureRequest, backend: Backend, nodes: dict[str, Node]) -> Node:
    """A node of each mode in turn."""
    return start_node(backend, nodes, request.param)


@pytest.fixture
def any_node(backend: Backend, nodes: dict[str, Node]) -> Node:
    """The node of the best mode there is."""
    return start_node(backend, nodes, "root" if os.geteuid() == 0 else "user")


@pytest.fixture
def pods(objects: Objects, node: Node) -> Pods:
    """Pods on the node of the case."""
    return Pods(objects, node)


@pytest.fixture
def any_pods(objects: Objects, any_node: Node) -> Pods:
    """Pods on the best node."""
    return Pods(objects, any_node)


@pytest.fixture
def kubectl(kubeconfig: str, namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """The machine's kubectl, in the namespace of the case."""
    return Kubectl(client_binary("kubectl"), kubeconfig, tmp_path_factory.mktemp("home"), namespace)
