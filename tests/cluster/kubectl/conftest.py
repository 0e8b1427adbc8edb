"""Every case runs with the kubectl of the machine, and with the newest one where it is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.cluster.apiserver.auth.pki import ensure_pki
from tests.backends import Backend
from tests.cluster.binaries import built, on_machine
from tests.cluster.kubectl.runner import Kubectl


@pytest.fixture(scope="session", params=["machine", "newest"])
def binary(request: pytest.FixtureRequest, backend: Backend) -> str:
    """A kubectl binary. The cases with the newest one need it built (make test-real)."""
    found = on_machine("kubectl") if request.param == "machine" else built("kubectl")
    if not found:
        pytest.skip(f"no kubectl: {request.param}")
    return found


@pytest.fixture(scope="session")
def home(binary: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder, and so a discovery cache, for this session and binary only."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def admin(binary: str, kubeconfig: str, home: Path) -> Kubectl:
    """Kubectl with no namespace chosen."""
    return Kubectl(binary, kubeconfig, home)


@pytest.fixture
def kubectl(binary: str, kubeconfig: str, home: Path, namespace: str) -> Kubectl:
    """Kubectl in the namespace of the case."""
    return Kubectl(binary, kubeconfig, home, namespace)


@pytest.fixture(scope="session")
def tls_pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate and its key."""
    pki = ensure_pki(tmp_path_factory.mktemp("pair"))
    return Path(pki.serving.cert_file), Path(pki.serving.key_file)
