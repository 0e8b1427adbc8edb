"""Two kubectls: that of the machine, and the newest one where it is built.

One of them runs every case: that of the machine on our server, the newest on the real one. The
other runs those in which versions differ most, in `make test-full`: apply, get in every output,
discovery and explain.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.cluster.apiserver.auth.pki import ensure_pki
from tests.backends import Backend
from tests.cluster.binaries import built_client, client_binary
from tests.cluster.kubectl.runner import Kubectl

BOTH = {"test_kubectl_apply", "test_kubectl_get", "test_kubectl_discovery"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Which kubectl a case runs with."""
    if "binary" in metafunc.fixturenames:
        first, other = "machine", "newest"
        if os.environ.get("CORRAL_BACKEND") == "real":
            first, other = other, first
        both = metafunc.module.__name__.rpartition(".")[2] in BOTH
        more = [pytest.param(other, marks=pytest.mark.full)] if both else []
        metafunc.parametrize("binary", [first, *more], indirect=True, scope="session")


@pytest.fixture(scope="session")
def binary(request: pytest.FixtureRequest, backend: Backend) -> str:
    """A kubectl binary."""
    return client_binary("kubectl") if request.param == "machine" else built_client("kubectl")


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
