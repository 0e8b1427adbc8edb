"""Nodes without kubelets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.nodes.node_objects import Nodes
from tests.cluster.objects import Objects


@pytest.fixture
def nodes(cluster: Objects) -> Iterator[Nodes]:
    found = Nodes(cluster)
    yield found
    found.close()
