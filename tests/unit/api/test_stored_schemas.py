from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import corral
from corral.api import all_kinds

SHOWN = """
import json, sys
from corral.api import all_crds, all_kinds
from corral.api.stored import are_stored
from corral.api.fields import Model
print(json.dumps([are_stored(), bool(Model.model_config["use_attribute_docstrings"]), all_crds()]))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package of its own."""
    source = Path(corral.__file__).parent
    shutil.copytree(source, tmp_path / "corral", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def python(package: Path, *words: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(
        [sys.executable, *words], env=env, cwd=package, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_stored_or_made_they_are_the_same(package: Path) -> None:
    before = json.loads(python(package, "-c", SHOWN))
    python(package, "-m", "corral.api.stored")
    after = json.loads(python(package, "-c", SHOWN))
    assert (before[0], before[1]) == (False, True)
    assert (after[0], after[1]) == (True, False)
    assert before[2] == after[2]
    assert len(after[2]) == len(all_kinds())


def test_they_are_made_again_when_a_source_has_changed(package: Path) -> None:
    python(package, "-m", "corral.api.stored")
    with (package / "corral/api/mpi/kinds.py").open("a") as file:
        file.write("\n# changed\n")
    assert json.loads(python(package, "-c", SHOWN))[0] is False
    python(package, "-m", "corral.api.stored")
    assert json.loads(python(package, "-c", SHOWN))[0] is True
    assert len(list((package / "corral/api/__pycache__").glob("definitions-*.json"))) == 1


def test_what_cannot_be_read_is_made(package: Path) -> None:
    python(package, "-m", "corral.api.stored")
    (file,) = (package / "corral/api/__pycache__").glob("definitions-*.json")
    file.write_bytes(b"{")
    assert json.loads(python(package, "-c", SHOWN))[0] is False
