"""The cases that need clouds' own libraries, in a venv which tests/clouds/install.sh makes.

boto3 wants another dateutil than the official Kubernetes client does, which other tests use.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from corral.clouds import MissingLibrary
from corral.clouds.aws import AwsProvider, AwsSettings
from tests.support.components import CACHE, skip

FILES = (
    "test_provider_contract.py",
    "test_aws_provider.py",
    "test_aws_moto.py",
    "test_sdk_shapes.py",
)


needs_no_boto3 = pytest.mark.skipif(
    importlib.util.find_spec("boto3") is not None, reason="boto3 is here"
)


@needs_no_boto3
def test_without_boto3_aws_says_what_to_install() -> None:
    with pytest.raises(MissingLibrary, match=r"corral\[aws\]"):
        AwsProvider(AwsSettings(region="us-east-1"))


@pytest.mark.timeout(400)
def test_ec2_cases_hold_with_boto3(repository: Path, tmp_path: Path) -> None:
    python = CACHE / "clouds/aws/bin/python"
    if not python.is_file():
        skip("boto3")
    folder = repository / "tests/clouds"
    done = subprocess.run(
        [
            python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--confcutdir", folder,
            "-k", "aws or sdk", *(folder / name for name in FILES),
        ],
        cwd=repository, env={**os.environ, "PYTHONPATH": str(repository), "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=380, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
