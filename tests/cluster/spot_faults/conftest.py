"""A cluster with no nodes but those that the operator makes, and what a run comes to by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends import Backend, own_backend, own_scope
from tests.cluster.objects import Objects
from tests.cluster.spot_faults.spot_stage import STEPS, Operator, SpotJobs
from tests.cluster.spot_faults.training_program import undisturbed
from tests.cluster.training.training_stage import install


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with own_backend(tmp_path_factory.mktemp("spot")) as backend:
        backend.allow()
        install(backend)
        yield backend


@pytest.fixture(scope=own_scope)
def running_operator(
    backend: Backend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    operator = Operator(backend, tmp_path_factory.mktemp("operator"))
    try:
        operator.start()
        yield operator
    finally:
        operator.stop()
        operator.end_machines()


@pytest.fixture
def operator(running_operator: Operator) -> Operator:
    """One that runs, whatever the case before did to it."""
    if not running_operator.runs:
        running_operator.start()
    return running_operator


@pytest.fixture
def jobs(objects: Objects, operator: Operator, tmp_path: Path) -> Iterator[SpotJobs]:
    """Jobs in the namespace of the case; none of their machines outlives it."""
    made = SpotJobs(objects, operator, tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def wanted() -> str:
    """What the weights come to when nothing happens."""
    return undisturbed(STEPS)
