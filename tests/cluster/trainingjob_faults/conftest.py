"""A cluster of its own with a node that really runs pods, and the definitions of our kinds."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from corral.api import all_crds
from tests.backends import Backend, Node, add_node, own_backend, own_scope
from tests.cluster.objects import Objects
from tests.cluster.operators import install
from tests.cluster.trainingjob_faults.jobs import Jobs


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with own_backend(tmp_path_factory.mktemp("faults")) as backend:
        install(Objects(backend), all_crds())
        yield backend


@pytest.fixture(scope=own_scope)
def node(backend: Backend) -> Iterator[Node]:
    """With room for the pods of all jobs at once."""
    node = add_node(backend, "one", options=("--max-pods", "300"))
    yield node
    node.stop()


@pytest.fixture
def jobs(objects: Objects, node: Node) -> Jobs:
    return Jobs(objects)


@pytest.fixture
def seed() -> int:
    """``CORRAL_SEED``, else any; in the output of a case that fails."""
    chosen = int(os.environ.get("CORRAL_SEED") or random.SystemRandom().randrange(10**6))
    print(f"CORRAL_SEED={chosen}")
    return chosen
