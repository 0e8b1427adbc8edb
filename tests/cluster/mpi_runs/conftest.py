"""A cluster with a process node that knows the MPIs as images."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from corral.cluster.node.isolation import Capabilities
from tests.backends import Backend, Node, add_node, own_backend, own_scope
from tests.cluster.mpi_runs.mpi_stage import EVERY_MODE, Jobs, image_map
from tests.cluster.objects import Objects


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own, so that nodes of other cases are not among its nodes."""
    with own_backend(tmp_path_factory.mktemp("mpi")) as backend:
        yield backend


@pytest.fixture(scope=own_scope, params=EVERY_MODE)
def node(
    request: pytest.FixtureRequest, backend: Backend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Node]:
    """A node of each mode in which all programs find names, one after the other."""
    mode = request.param
    if Capabilities.detect("probe", highest=mode).mode != mode:
        pytest.skip(f"pods cannot be isolated as {mode} here")
    images = tmp_path_factory.mktemp("images") / "images.yaml"
    images.write_text(image_map())
    node = add_node(
        backend,
        "one" if mode == "root" else "two",
        isolation=mode,
        options=("--images", str(images)),
    )
    yield node
    node.stop()


@pytest.fixture
def jobs(objects: Objects, node: Node) -> Jobs:
    """Jobs in the namespace of the case."""
    return Jobs(objects, node)
