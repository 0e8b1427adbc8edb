"""Starting the command line is cheap: nothing heavy is loaded before it is used."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import corral

HEAVY = (
    "aiohttp", "asyncio", "cryptography", "fastapi", "grpc", "kubernetes_validate", "numpy",
    "obstore", "orjson", "pydantic", "rich", "ssl", "starlette", "uvicorn", "wasmtime", "yaml",
)  # fmt: skip


@pytest.mark.parametrize("module", ["corral.cli.main", "corral.cli.odh"])
def test_nothing_heavy_is_loaded(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stdout.split())
    assert loaded & set(HEAVY) == set()
    ours = {name for name in loaded if name.startswith("corral.") and name.count(".") == 1}
    assert ours <= {"corral.cli", "corral.files", "corral.kube"}


def test_help_needs_no_cluster_side() -> None:
    code = (
        "import sys; sys.argv = ['corral', 'run', '--help']\n"
        "from corral.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "aiohttp" not in done.stdout.splitlines()[-1].split()


def test_both_command_lines_are_installed() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {
        "corral": "corral.cli.main:main",
        "odh": "corral.cli.odh:main",
    }


def test_version_needs_no_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "corral.cli.main", "--version"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == f"corral {corral.__version__}\n"
