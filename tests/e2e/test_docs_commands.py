"""The commands of README.md and docs/ do what the pages say, line by line, on one ``corral up``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.objects import Objects
from tests.e2e.clusters import Up
from tests.support.pages import ROOT, blocks

PRELUDE = """set -euo pipefail
corral() { case "$1" in up|down) ;; *) command corral "$@" ;; esac; }
make() { :; }
"""
"""The cluster is up, and stays for the next page; everything is installed."""
EXAMPLES = {
    "README.md": ("kubectl create job pi", "3.14"),
    "docs/cluster.md": ("kubectl create job pi", "3.14"),
    "docs/cli.md": ("corral run --replicas 2", "[replica-1] trained"),
    "docs/trainingjob.md": ("kubectl create configmap digits", "Succeeded"),
    "docs/spotjobs.md": ("examples/spot/local-job.yaml", "local"),
    "docs/kafkaml.md": ("corral fl inject mnist --split 3", "Completed"),
    "docs/federated.md": ("--clients 1000", "ROUND"),
    "docs/spot.md": ("corral spot simulate --shape scarce", "corral"),
}
"""By page: what its block of commands contains, and what these print."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine")
    up = Up(tmp_path_factory.mktemp("docs"))
    up.start()
    yield up
    up.stop()


@pytest.fixture
def home(cluster: Up, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A home folder whose cluster's default namespace is the case's own."""
    number = list(EXAMPLES).index(request.node.callspec.params["page"])
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"page-{number}"}}
    Objects(cluster).create("namespaces", namespace)
    config = yaml.safe_load((cluster.data / "kubeconfig").read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = f"page-{number}"
    (tmp_path / ".corral").mkdir()
    for path in cluster.data.iterdir():  # where the broker is, authorities
        if path.name != "kubeconfig":
            (tmp_path / ".corral" / path.name).symlink_to(path)
    (tmp_path / ".corral" / "kubeconfig").write_text(yaml.safe_dump(config))
    return tmp_path


@pytest.fixture
def folder(home: Path) -> Path:
    """Where a reader would be: in a checkout, with a project beside it."""
    work = home / "checkout"
    work.mkdir()
    shutil.copytree(ROOT / "examples", work / "examples")
    (work / ".venv").symlink_to(Path(sys.executable).parent.parent)
    (work / "my-project").mkdir()
    (work / "my-project" / "train.py").write_text("print('trained')\n")
    (work / "my-trace.json").write_text(next(blocks("docs/spot.md", "json")))
    return work


def block(page: str, containing: str) -> str:
    found = [source for source in blocks(page, "", "sh") if containing in source]
    assert len(found) == 1, (page, containing, len(found))
    return (
        found[0].replace(".venv/bin/corral ", "corral ").replace("--clients 1000", "--clients 50")
    )


@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", EXAMPLES)
def test_commands_of_a_page(home: Path, folder: Path, page: str) -> None:
    containing, printed = EXAMPLES[page]
    script = block(page, containing)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", PRELUDE + script],
        cwd=folder,
        env={
            "PATH": path,
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "KUBECONFIG": str(home / ".corral" / "kubeconfig"),
        },
        capture_output=True,
        text=True,
        timeout=360,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    assert printed in done.stdout, done.stdout + done.stderr
