"""The package stands alone: standard library only, old Pythons, copied anywhere."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import corral.inpod
from corral.inpod import environment

PACKAGE = Path(corral.inpod.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
SLOW = ("http.client", "ssl", "email", "asyncio", "concurrent.futures", "dataclasses", "inspect")


def test_the_public_names() -> None:
    assert sorted(corral.inpod.__all__) == [
        "CheckpointError",
        "CorralError",
        "Fenced",
        "RestoreError",
        "Restored",
        "flush",
        "maybe_checkpoint",
        "report",
        "restore",
    ]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_sources_are_python_3_9_and_import_only_the_standard_library(source: Path) -> None:
    tree = ast.parse(source.read_text(), feature_version=(3, 9))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [] if node.level else [node.module or "corral"]
        else:
            continue
        assert all(name.partition(".")[0] in sys.stdlib_module_names for name in modules)


def test_a_copy_under_another_name_works_and_imports_nothing_slow(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "helper", ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import sys, json, helper; print(json.dumps("
        f"[m for m in {SLOW!r} if m in sys.modules] + [m for m in sys.modules if 'corral' in m]))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout) == []


def test_the_environment_of_a_pod() -> None:
    found = environment.read(
        {
            "CORRAL_JOB": "mnist",
            "CORRAL_NAMESPACE": "team-a",
            "CORRAL_REPLICA": "2",
            "CORRAL_REPLICAS": "4",
            "CORRAL_ATTEMPT": "3",
            "CORRAL_JOB_UID": "uid",
            "CORRAL_FRAMEWORK": "pytorch",
            "CORRAL_REPORT_URL": "https://op/v1/x/",
            "CORRAL_REPORT_TOKEN_FILE": "/token",
            "CORRAL_REPORT_CA": "PEM",
            "CORRAL_CHECKPOINT_DIR": "/checkpoints",
            "CORRAL_CHECKPOINT_STORE": "remote",
            "CORRAL_CHECKPOINT_INTERVAL": "90.5",
            "CORRAL_RESTORE_FROM": "none",
            "CORRAL_GRACE_SECONDS": "60",
        }
    )
    assert found == environment.Environment(
        job="mnist",
        namespace="team-a",
        job_uid="uid",
        framework="pytorch",
        replica=2,
        replicas=4,
        attempt=3,
        process=2,
        processes=4,
        report_url="https://op/v1/x",
        token_file="/token",
        ca="PEM",
        checkpoint_dir="/checkpoints",
        remote=True,
        interval=90.5,
        restore_from="none",
        grace=60.0,
    )


def test_nothing_in_the_environment() -> None:
    assert environment.read({}) == environment.Environment()


def test_nonsense_in_the_environment_is_said_and_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert environment.read({"CORRAL_REPLICA": "x", "CORRAL_CHECKPOINT_INTERVAL": "-1"}) == (
        environment.Environment()
    )
    assert "CORRAL_REPLICA" in caplog.text


@pytest.mark.parametrize(
    ("local", "expected"), [(("1", "4"), (9, 12)), (("0", ""), (2, 3)), (("7", "4"), (2, 3))]
)
def test_processes_of_a_launcher_are_counted_through(
    local: tuple[str, str], expected: tuple[int, int]
) -> None:
    env = {"CORRAL_REPLICA": "2", "CORRAL_REPLICAS": "3"}
    found = environment.read({**env, "LOCAL_RANK": local[0], "LOCAL_WORLD_SIZE": local[1]})
    assert (found.process, found.processes) == expected
