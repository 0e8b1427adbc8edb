"""A case that is skipped for want of what could be fetched fails the run, in CI only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.components import COMPONENTS, component_of

CASES = """
import pytest
from tests.support import components

def test_good():
    pass

def test_of_a_client():
    components.skip("helm")

@components.needs("boto3", found=False)
def test_of_a_library():
    pass

def test_of_a_machine():
    pytest.skip("this machine has no GPU")
"""
QUICK = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
MODULE = "from tests.support import components\ncomponents.skip('wasm')\n"


def run(folder: Path, *options: str, **environment: str) -> tuple[int, str]:
    """Exit code and output of pytest over the cases above."""
    (folder / "test_cases.py").write_text(CASES)
    (folder / "test_module.py").write_text(MODULE)
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.components", *options, folder],
        cwd=folder, env={**os.environ, **QUICK, "PYTHONPATH": str(root), **environment},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    "options", [(), ("-p", "xdist.plugin", "-n", "1")], ids=["one process", "workers"]
)
def test_what_can_be_fetched_may_not_be_missing(tmp_path: Path, options: tuple[str, ...]) -> None:
    code, output = run(tmp_path, *options, CI="true", PATH=os.environ["PATH"])
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "1 cases: not fetched: boto3: run tests/clouds/install.sh" in output
    assert "1 passed, 4 skipped" in output


def test_what_the_machine_cannot_fetch_may_be_missing(tmp_path: Path) -> None:
    code, output = run(tmp_path, "-k", "good or client or machine", CI="true", PATH="/nowhere")
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "1 cases: not fetched: wasm" in output
    assert "helm" not in output  # no Go


def test_only_ci_fails(tmp_path: Path) -> None:
    code, output = run(tmp_path, CI="false")
    assert code == pytest.ExitCode.OK, output


@pytest.mark.parametrize("name", COMPONENTS)
def test_reasons_are_understood(name: str) -> None:
    component = COMPONENTS[name]
    assert component_of(f"Skipped: {component.missing()}") is component
    assert component_of("Skipped: this machine has no GPU") is None
