"""Where claims get their folders: our provisioner is beside kube-controller-manager too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends import Backend, EmbeddedBackend
from tests.cluster.claims.claim_loops import Loops
from tests.cluster.claims.claim_stage import ClaimStage
from tests.cluster.objects import Objects


@pytest.fixture(scope="session")
def provisioner(
    backend: Backend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Loops | None]]:
    """The folder, and the process if the backend has none of its own."""
    if backend.name == "embedded":
        yield backend.folder / "claims", None
        return
    folder = tmp_path_factory.mktemp("claims")
    loops = Loops(backend, f"provisioner={folder}")
    try:
        loops.start()
        yield folder, loops
    finally:
        loops.kill()


@pytest.fixture
def stage(
    provisioner: tuple[Path, Loops | None], cluster: Objects, objects: Objects, unique: str
) -> Iterator[ClaimStage]:
    stage = ClaimStage(cluster, objects, unique, provisioner[0])
    yield stage
    stage.close()


@pytest.fixture
def mortal(
    provisioner: tuple[Path, Loops | None], request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[ClaimStage, Loops]]:
    """A stage whose provisioner (and binder, where it is ours) may be killed."""
    if provisioner[1] is not None:
        yield request.getfixturevalue("stage"), provisioner[1]
        return
    backend = EmbeddedBackend(tmp_path / "server", controllers=False)
    folder = tmp_path / "claims"
    loops = Loops(backend, "claims", f"provisioner={folder}")
    try:
        backend.start()
        loops.start()
        yield ClaimStage(Objects(backend), Objects(backend, "default"), "mortal", folder), loops
    finally:
        loops.kill()
        backend.stop()
