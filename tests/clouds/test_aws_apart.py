"""The cases that need clouds' own libraries, in a venv which tests/clouds/install.sh makes.

boto3 wants another dateutil than the official Kubernetes client does, which other tests use.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("CORRAL_CACHE", Path.home() / ".cache/corral")) / "clouds"
FILES = (
    "test_provider_contract.py",
    "test_aws_provider.py",
    "test_aws_moto.py",
    "test_sdk_shapes.py",
)


def test_ec2_cases_hold_with_boto3(repository: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("boto3") is not None:
        pytest.skip("boto3 is here: the cases run in this process")
    python = CACHE / "aws/bin/python"
    if not python.is_file():
        pytest.skip("no boto3: run tests/clouds/install.sh")
    folder = repository / "tests/clouds"
    done = subprocess.run(
        [
            python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--confcutdir", folder,
            "-k", "aws or sdk", *(folder / name for name in FILES),
        ],
        cwd=repository, env={**os.environ, "PYTHONPATH": str(repository), "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
