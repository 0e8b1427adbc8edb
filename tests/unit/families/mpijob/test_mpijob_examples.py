"""The manifests that we show are right, and say what they are for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.families.mpijob.objects.builders import Children, children
from corral.families.mpijob.objects.ssh import KeyPair
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.validation import Context, judge

Obj = dict[str, Any]
NAMES = [
    "simple-mpijob",
    "gpu-mpijob",
    "intel-mpi-job",
    "volcano-scheduling",
    "network-policy-restricted",
]


@pytest.fixture
def folder(repository: Path) -> Path:
    return repository / "examples" / "mpijob"


def read(folder: Path, name: str) -> Obj:
    obj: Obj = yaml.safe_load((folder / f"{name}.yaml").read_text())
    obj["metadata"] |= {"namespace": "bar", "uid": "u-1"}
    return obj


def made(obj: Obj, **settings: Any) -> Children:
    return children(obj, ObjectSettings(**settings), KeyPair(b"", b""))


def test_there_are_no_others(folder: Path) -> None:
    assert {path.stem for path in folder.glob("*.yaml")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_they_pass(folder: Path, name: str) -> None:
    context = Context(gang_scheduler="volcano", priorities={"high-priority": 1000})
    found = judge(read(folder, name), context=context)
    assert found.errors == []
    # What is left to say is about root and rights of containers only.
    assert all(".securityContext." in text for text in found.warnings), found.warnings


def test_a_locked_down_namespace_takes_the_restricted_one(folder: Path) -> None:
    obj = read(folder, "network-policy-restricted")
    found = judge(obj, context=Context(policy="restricted"))
    assert (found.errors, found.warnings) == ([], [])
    policy = made(obj).network_policy
    assert policy is not None and policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_the_gpu_job_counts_its_gpus(folder: Path) -> None:
    obj = read(folder, "gpu-mpijob")
    group = made(obj, gang_scheduler="volcano").pod_group
    assert group is not None
    assert group["spec"]["minMember"] == 4
    assert group["spec"]["minResources"]["nvidia.com/gpu"] == "8"


def test_the_volcano_job_has_a_group(folder: Path) -> None:
    group = made(read(folder, "volcano-scheduling"), gang_scheduler="volcano").pod_group
    assert group is not None
    assert group["spec"]["queue"] == "training"
    assert group["spec"]["priorityClassName"] == "high-priority"
    assert group["spec"]["minMember"] == 5


def test_the_intel_job_speaks_intel(folder: Path) -> None:
    found = made(read(folder, "intel-mpi-job"))
    assert found.config_map["data"]["hostfile"].splitlines()[3].endswith(":4")
    assert "command" not in found.workers[0]["spec"]["containers"][0]
