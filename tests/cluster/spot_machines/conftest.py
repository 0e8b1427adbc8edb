"""A cluster without nodes of its own, and a folder of machines."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from corral.api.spot.kinds import KINDS
from tests.backends import Backend, own_backend, own_scope
from tests.cluster.objects import Objects
from tests.cluster.operators import install
from tests.cluster.spot_machines.machines_stage import Stage


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with own_backend(tmp_path_factory.mktemp("machines")) as backend:
        backend.allow()
        install(Objects(backend), [kind.crd() for kind in KINDS])
        yield backend


@pytest.fixture
def stage(backend: Backend, objects: Objects) -> Iterator[Stage]:
    """Its operator is not started yet."""
    made = Stage(backend, objects)
    yield made
    made.close()
    shutil.rmtree(made.folder)
