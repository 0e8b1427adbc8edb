"""Fixtures shared by all tests: the servers, each started once a worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends import Backend, EmbeddedBackend, RealBackend
from tests.order import rank

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: whoever gets one must not be the last to finish."""
    items.sort(key=lambda item: rank(item.path.relative_to(TESTS).as_posix()))


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """Our server."""
    backend = EmbeddedBackend(tmp_path_factory.mktemp("embedded"))
    backend.start()
    yield backend
    backend.stop()


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """The real control plane."""
    backend = RealBackend(tmp_path_factory.mktemp("real"))
    try:
        backend.start()
        yield backend
    finally:
        backend.stop()


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> Backend:
    """The server that behaviour cases run on: CORRAL_BACKEND = embedded or real."""
    chosen: Backend = request.getfixturevalue(os.environ.get("CORRAL_BACKEND", "embedded"))
    return chosen


@pytest.fixture(scope="session")
def kubeconfig(backend: Backend) -> str:
    return str(backend.kubeconfig)


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).parent.parent
