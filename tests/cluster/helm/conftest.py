"""A real helm, with a home folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.backends import Backend
from tests.cluster.binaries import built, on_machine

CHARTS = Path(__file__).parent.parent / "data" / "charts"


@dataclass
class Helm:
    """One binary, one kubeconfig, one namespace."""

    binary: str
    kubeconfig: str
    home: Path
    namespace: str

    def __call__(self, *argv: str, code: int = 0) -> str:
        """Run it and insist on the exit code; what it printed, or what it complained of."""
        kept = {key: os.environ[key] for key in ("PATH", "TMPDIR") if key in os.environ}
        done = subprocess.run(
            [self.binary, *argv, "-n", self.namespace],
            capture_output=True,
            text=True,
            timeout=120,
            env=kept | {"HOME": str(self.home), "KUBECONFIG": self.kubeconfig},
            stdin=subprocess.DEVNULL,
            check=False,
        )
        said = f"{' '.join(argv)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == code, said
        return done.stdout if code == 0 else done.stderr

    def json(self, *argv: str) -> Any:
        return json.loads(self(*argv, "-o", "json"))


@pytest.fixture(scope="session")
def helm_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("helm")


@pytest.fixture
def helm(backend: Backend, kubeconfig: str, helm_home: Path, namespace: str) -> Helm:
    binary = built("helm") or on_machine("helm")
    if not binary:
        pytest.skip("no helm on this machine (make test-real builds one)")
    return Helm(binary, kubeconfig, helm_home, namespace)


@pytest.fixture
def web() -> str:
    """A chart with one of each common kind."""
    return str(CHARTS / "web")


@pytest.fixture
def widgets() -> str:
    """A chart with a definition in crds/ and an object of it."""
    return str(CHARTS / "widgets")
