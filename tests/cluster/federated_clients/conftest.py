"""A cluster of its own with nodes that run modules and processes."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.api.propeller.kinds import KINDS
from corral.cluster.node.wasm import runtime_class
from tests.backends import Backend, Node, add_node, own_backend, own_scope
from tests.cluster.federated_clients.digits import split
from tests.cluster.federated_clients.federation import (
    CLIENT,
    ELSEWHERE,
    MIXED,
    MODULE,
    Federation,
    Operator,
    Store,
    image_map,
)
from tests.cluster.federated_clients.modules import EXAMPLES, client_module
from tests.cluster.objects import Objects
from tests.cluster.operators import install
from tests.cluster.pods.conftest import start_node
from tests.cluster.pods.pods import Pods
from tests.registries import RunningRegistry, running_registry


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


# --- whole jobs ----------------------------------------------------------------------------------


@pytest.fixture(scope=own_scope)
def federation_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope=own_scope)
def data() -> Iterator[Path]:
    """The digits of two proplets, seven samples of ten for one of them."""
    folder = Path(tempfile.mkdtemp(prefix="corral-digits-"))
    folder.chmod(0o755)
    split(folder, {"proplet-1": 0.7, "proplet-2": 0.3})
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope=own_scope)
def proplets(
    backend: Backend,
    federation_registry: RunningRegistry,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Node]]:
    """Two nodes, which are the proplets of the seed's job; the second may run the Python client."""
    install(Objects(backend), [kind.crd() for kind in KINDS])
    script = EXAMPLES / "client.py"
    images = image_map(tmp_path_factory.mktemp("images"), sys.executable, script)
    mapped = (f"--images={images}",)
    registry = tuple(f"--registry-map={pair}" for pair in federation_registry.pairs(ELSEWHERE))
    started: dict[str, Node] = {}
    try:
        for name, proplet, more in (("one", "proplet-1", ()), ("two", "proplet-2", mapped)):
            options = (*registry, *more)
            started[proplet] = add_node(backend, name, isolation="user", options=options)
            Objects(backend).patch(
                "v1", "nodes", name, {"metadata": {"labels": {"proplet-id": proplet}}}
            )
        yield started
    finally:
        for node in started.values():
            node.stop()


@pytest.fixture(scope=own_scope)
def store(federation_registry: RunningRegistry) -> Store:
    """The registry, with the client in it under the name that the seed's job has for it."""
    store = Store(federation_registry)
    for name in (CLIENT, MIXED):
        store.push(name, client_module(), kind=MODULE)
    return store


@pytest.fixture(scope=own_scope)
def federation_operator(
    backend: Backend, proplets: dict[str, Node], federation_registry: RunningRegistry
) -> Iterator[Operator]:
    operator = Operator(str(backend.kubeconfig), federation_registry).start()
    yield operator
    operator.kill()


@pytest.fixture
def federation(
    objects: Objects, store: Store, data: Path, federation_operator: Operator
) -> Federation:
    """Jobs of the case's namespace."""
    return Federation(objects, store, data)
