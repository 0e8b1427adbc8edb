"""The newcomer's notebook runs from its first cell to its last, on a machine without a cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.e2e.clusters import corral, processes_of

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebooks" / "first_steps.ipynb"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of its own, so that the notebook finds nothing that is there already."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "CORRAL_GATEWAY", "CORRAL_TOKEN", "CORRAL_SHIP"):
        monkeypatch.delenv(name, raising=False)
    root = str(NOTEBOOK.parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("JUPYTER_PATH", str(Path(sys.prefix) / "share" / "jupyter"))
    return tmp_path


def outputs(cell: Any) -> str:
    """Everything a cell shows, as text."""
    shown = []
    for output in cell.get("outputs", ()):
        shown.append(output.get("text", ""))
        shown += output.get("data", {}).values()
    return "\n".join(shown)


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_the_notebook_runs_top_to_bottom(home: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    runner = NotebookClient(notebook, timeout=150, kernel_name="python3")
    try:
        runner.execute()
    finally:
        corral("down", "--data-dir", str(home / ".corral"))
    cells = {cell["id"]: outputs(cell) for cell in notebook.cells if cell["cell_type"] == "code"}
    everything = "\n".join(cells.values())
    assert "Succeeded step" in everything
    assert "'accuracy': 0.9" in everything
    assert "[replica 0] replica 0 of 2 has 899 digits" in everything
    assert "[replica 1] replica 1 of 2 has 898 digits" in everything
    assert "FileNotFoundError: [Errno 2] No such file or directory" in everything
    assert "a lambda has no source of its own" in everything
    assert "<table>" in everything  # jobs are shown as tables
    assert "<script" not in everything
    assert "src=" not in everything
    assert not processes_of(home / ".corral")
