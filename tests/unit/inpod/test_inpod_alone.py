"""The package without Corral, on the oldest Python: as a copied folder and as a distribution."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from inpod_operator import Operator
from oldest_python import ROOT, oldest_python, promised

import corral
from corral.checkpoints import LocalStore, Repository
from corral.inpod.volume.names import step_of

PACKAGE = ROOT / "corral/inpod"
IMPORT_ALL = """
import importlib, json, pkgutil, sys
import corral.inpod as package
names = [found.name for found in pkgutil.walk_packages(package.__path__, "corral.inpod.")]
for name in names:
    importlib.import_module(name)
elsewhere = [name for name, module in sys.modules.items()
             if name.startswith("corral") and not name.startswith("corral.inpod")
             and getattr(module, "__file__", None)]
print(json.dumps({"version": sys.version_info[:2], "names": names, "elsewhere": elsewhere}))
"""
TRAIN = """
import sys
import corral.inpod as corral
state = corral.restore()
start = state.step + 1 if state else 0
def save(path):
    (path / "model").write_text(str(step))
for step in range(start, start + 3):
    corral.report(step=step, total=100, loss=1.0 / (step + 1))
    corral.maybe_checkpoint(save, step=step, force=True)
corral.flush()
print(start)
"""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """An empty folder with the package and nothing else."""
    folder = tmp_path / "alone"
    shutil.copytree(PACKAGE, folder / "corral/inpod", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without network from a copy of what the distribution is made of."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    shutil.copytree(ROOT / "packaging", folder / "packaging", ignore=ignored)
    shutil.copytree(PACKAGE, folder / "corral/inpod", ignore=ignored)
    shutil.copy(ROOT / "corral/__init__.py", folder / "corral")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(folder), "packaging/inpod"]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    (found,) = folder.glob("*.whl")
    return found


def run_isolated(folder: Path, code: str, **env: object) -> str:
    """Run by the oldest Python without site packages, variables of Python or a current folder."""
    return run(
        [oldest_python(), "-I", "-S"],
        f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}",
        **env,
    )


def run(python: list[str], code: str, **env: object) -> str:
    done = subprocess.run(
        [*python, "-W", "error", "-c", code],
        env={key: str(value) for key, value in env.items()},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pod(operator: Operator, volume: Path) -> dict[str, object]:
    return {
        "CORRAL_REPORT_URL": operator.url,
        "CORRAL_CHECKPOINT_DIR": volume,
        "CORRAL_JOB_UID": "uid-1",
        "CORRAL_ATTEMPT": 1,
    }


def test_every_module_is_imported_without_corral(copied: Path) -> None:
    found = json.loads(run_isolated(copied, IMPORT_ALL))
    files = {path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"}
    assert len(found["names"]) == len(files)
    assert found["elsewhere"] == []
    assert tuple(found["version"]) >= promised()


def test_it_reports_and_saves_without_corral(
    copied: Path, operator: Operator, tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    assert run_isolated(copied, TRAIN, **pod(operator, volume)) == "0\n"
    assert operator.bodies("report")
    assert [step_of(body["id"]) for body in operator.bodies("checkpoints")] == [0, 1, 2]
    assert run_isolated(copied, TRAIN, **pod(operator, volume)) == "3\n"
    scan = Repository(LocalStore(volume)).scan()
    assert sorted(manifest.step for manifest in scan.manifests)[-1] == 5


def test_it_saves_in_an_object_store_without_corral(
    copied: Path, operator: Operator, tmp_path: Path
) -> None:
    env = {**pod(operator, tmp_path / "staging"), "CORRAL_CHECKPOINT_STORE": "remote"}
    assert run_isolated(copied, TRAIN, **env) == "0\n"
    assert operator.candidates[0]["step"] == 2
    assert run_isolated(copied, TRAIN, **env) == "3\n"


def test_the_distribution_has_the_version_of_corral_and_only_what_stands_alone(
    wheel: Path,
) -> None:
    assert wheel.name == f"corral_inpod-{corral.__version__}-py3-none-any.whl"
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    left_out = {"confine.py", "courier.py", "snapshots.py"}
    left_out |= {f"kafkaml/{path.name}" for path in PACKAGE.glob("kafkaml/*.py")}
    files = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    assert names == {f"corral/inpod/{name}" for name in files - left_out | {"py.typed"}}


def test_the_distribution_installs_into_an_environment_with_nothing_else(
    wheel: Path, operator: Operator, tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    subprocess.run([oldest_python(), "-m", "venv", str(environment)], check=True, timeout=120)
    python = str(environment / "bin/python")
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", str(wheel)]
    subprocess.run(install, check=True, timeout=120)
    assert json.loads(run([python, "-I"], IMPORT_ALL))["elsewhere"] == []
    assert run([python, "-I"], TRAIN, **pod(operator, tmp_path / "volume")) == "0\n"
    assert [step_of(body["id"]) for body in operator.bodies("checkpoints")] == [0, 1, 2]
