"""The binder (where the backend has none) and the folder provisioner beside the cases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends import Backend
from tests.cluster.claims.claim_stage import ClaimStage
from tests.cluster.objects import Objects
from tests.cluster.services.service_loops import loops


@pytest.fixture(scope="session")
def folder(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the folders of claims are."""
    folder = tmp_path_factory.mktemp("claims")
    with loops(backend, "claims", f"provisioner={folder}"):
        yield folder


@pytest.fixture
def stage(folder: Path, cluster: Objects, objects: Objects, unique: str) -> Iterator[ClaimStage]:
    stage = ClaimStage(cluster, objects, unique, folder)
    yield stage
    stage.close()
