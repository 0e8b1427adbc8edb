"""The pod that deletes on claims, and the command that it runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corral.checkpoints.local import LocalStore
from corral.checkpoints.repository import Repository
from corral.families.trainingjob.checkpoints.janitor import janitor_pod, janitor_removes
from corral.inpod.remove import main
from corral.kube.types import Obj

JOB: Obj = {
    "metadata": {"name": "mnist", "namespace": "a", "uid": "u-1"},
    "spec": {
        "image": "trainer:1",
        "resources": {"limits": {"nvidia.com/gpu": 8}},
        "template": {
            "spec": {
                "nodeSelector": {"disk": "fast"},
                "securityContext": {"fsGroup": 7},
                "serviceAccountName": "powerful",
                "containers": [
                    {"name": "x", "env": [{"name": "A"}], "securityContext": {"runAsUser": 5}}
                ],
            }
        },
        "checkpoint": {"storage": {"pvc": {"size": "1Gi"}}, "mountPath": "/ckpt"},
    },
}


def test_pod() -> None:
    pod = janitor_pod(JOB, ["step-1.a", "step-2.b"], namespace={}, user=1000)
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "trainer:1"
    assert container["command"][1:] == [
        "-m", "corral.inpod.remove", "/ckpt", "step-1.a", "step-2.b",
    ]  # fmt: skip
    assert container["securityContext"] == {"runAsUser": 5}
    assert pod["spec"]["securityContext"] == {"fsGroup": 7}
    assert pod["spec"]["nodeSelector"] == {"disk": "fast"}
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod["spec"]
    assert "nvidia.com/gpu" not in json.dumps(pod)
    claim = pod["spec"]["volumes"][0]["persistentVolumeClaim"]
    assert claim == {"claimName": "mnist-checkpoints"}
    assert "trainingjob" not in pod["metadata"]["labels"], "it is no replica"
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert janitor_removes(pod) == {"step-1.a", "step-2.b"}


def test_pod_in_a_restricted_namespace() -> None:
    labels = {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    pod = janitor_pod(JOB, ["step-1.a"], namespace=labels, user=1000)
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def saved(folder: Path, *steps: int) -> list[str]:
    repository = Repository(LocalStore(folder, durable=False))
    ids = []
    for step in steps:
        writer = repository.begin(step)
        writer.add("deep/model.bin", [b"data"])
        writer.commit()
        ids.append(writer.id)
    return ids


def test_command(tmp_path: Path) -> None:
    first, second, third = saved(tmp_path, 1, 2, 3)
    assert main([str(tmp_path), first, third]) == 0
    assert [m.id for m in Repository(LocalStore(tmp_path)).scan().manifests] == [second]
    assert not (tmp_path / first).exists()
    assert main([str(tmp_path), first]) == 0, "twice is no error"


def test_command_deletes_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (kept,) = saved(tmp_path / "root", 1)
    precious = tmp_path / "precious"
    precious.mkdir()
    assert main([str(tmp_path / "root"), kept, "../precious"]) == 2
    assert precious.exists() and (tmp_path / "root" / kept).exists()
    assert "../precious" in capsys.readouterr().err
    assert main([]) == 2
