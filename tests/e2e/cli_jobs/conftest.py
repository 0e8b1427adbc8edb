"""A whole cluster for the command line, and a way to run commands on it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.objects import Objects, eventually
from tests.e2e.cli_jobs.commands import Cli
from tests.e2e.clusters import TOKENS, Up

NOBODY_TOKEN = "nobody-token"


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """`corral up`, with two GPUs that nobody looks at and a user without rights."""
    folder = tmp_path_factory.mktemp("cli")
    gpus = [{"index": str(n), "model": "NVIDIA H200", "memory_mib": 1000} for n in range(2)]
    (folder / "gpus.json").write_text(json.dumps(gpus))
    cluster = Up(folder, "--isolation", "plain", "--gpus", str(folder / "gpus.json"))
    (folder / "tokens.csv").write_text(f'{TOKENS}{NOBODY_TOKEN},nobody,nobody,"guests"\n')
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def namespace(up: Up) -> Iterator[str]:
    """A namespace of the case's own."""
    name = f"cli-{uuid.uuid4().hex[:8]}"
    cluster = Objects(up)
    cluster.create(
        "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    inside = Objects(up, name)
    eventually(lambda: inside.find("v1", "serviceaccounts", "default"))
    yield name
    cluster.delete("v1", "namespaces", name)


@pytest.fixture
def cli(
    up: Up,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Cli:
    """Commands in this process, in an empty folder, as an administrator of the cluster."""
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("KUBECONFIG", str(up.kubeconfig))
    for name in ("CORRAL_GATEWAY", "CORRAL_TOKEN", "CORRAL_SHIP", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    return Cli(monkeypatch, capfd, namespace=namespace, folder=folder)


@pytest.fixture
def objects(up: Up, namespace: str) -> Objects:
    return Objects(up, namespace)
