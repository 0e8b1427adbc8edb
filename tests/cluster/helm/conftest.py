"""A real helm, with a home folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends import Backend
from tests.cluster.binaries import built, client_binary
from tests.cluster.helm.runner import Helm

CHARTS = Path(__file__).parent.parent / "data" / "charts"


@pytest.fixture(scope="session")
def helm_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("helm")


@pytest.fixture
def helm(backend: Backend, kubeconfig: str, helm_home: Path, namespace: str) -> Helm:
    return Helm(built("helm") or client_binary("helm"), kubeconfig, helm_home, namespace)


@pytest.fixture
def web() -> str:
    """A chart with one of each common kind."""
    return str(CHARTS / "web")


@pytest.fixture
def widgets() -> str:
    """A chart with a definition in crds/ and an object of it."""
    return str(CHARTS / "widgets")
