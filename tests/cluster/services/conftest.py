"""A stage with a node of its own, which the cases play."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.binaries import client_binary
from tests.cluster.kubectl.runner import Kubectl
from tests.cluster.objects import Objects
from tests.cluster.services.service_stage import Stage


@pytest.fixture
def stage(cluster: Objects, objects: Objects, unique: str) -> Iterator[Stage]:
    stage = Stage(cluster, objects, f"n-{unique}")
    stage.add_node()
    yield stage
    stage.close()


@pytest.fixture
def kubectl(stage: Stage, kubeconfig: str, tmp_path: Path) -> Kubectl:
    return Kubectl(client_binary("kubectl"), kubeconfig, tmp_path, stage.objects.namespace)
