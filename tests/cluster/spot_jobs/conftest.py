"""A cluster with two nodes, which stand for whatever machines spot jobs are given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from corral.api.spot.kinds import KINDS
from tests.backends import Backend, Node, add_node, own_backend, own_scope
from tests.cluster.objects import Objects
from tests.cluster.operators import install
from tests.cluster.spot_jobs.jobs_stage import Stage


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with own_backend(tmp_path_factory.mktemp("spot-jobs")) as backend:
        backend.allow()
        install(Objects(backend), [kind.crd() for kind in KINDS])
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    return str(backend.kubeconfig)


@pytest.fixture(scope=own_scope)
def two_nodes(backend: Backend) -> Iterator[list[Node]]:
    with ExitStack() as ends:
        found = []
        for name in ("one", "two"):
            node = add_node(backend, name)
            ends.callback(node.stop)
            found.append(node)
        yield found


@pytest.fixture
def stage(
    backend: Backend, objects: Objects, two_nodes: list[Node], tmp_path: Path
) -> Iterator[Stage]:
    """Its operator runs."""
    tmp_path.chmod(0o755)
    made = Stage(backend, objects, tmp_path)
    made.operator.start()
    yield made
    made.close()
