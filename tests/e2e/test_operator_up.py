"""``corral up`` runs the operator: a TrainingJob to its end, in every isolation mode."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.isolation import Capabilities
from corral.kube import KubeClient, load_kubeconfig
from corral.kube.resources import NODES, PODS, SECRETS, SELFSUBJECTACCESSREVIEWS
from tests.cluster.binaries import built, on_machine
from tests.cluster.objects import Objects, eventually
from tests.cluster.operator.operators import GROUP, job
from tests.e2e.clusters import Up

TRAINS = """
import corral.inpod as corral

for step in range(1, 6):
    corral.report(step=step, total=5, loss=1 / step)
corral.flush()
"""
BAD: dict[str, Any] = {
    "framework": "caffe",
    "replicas": 0,
    "image": "",
    "elastic": {"minReplicas": 4, "maxReplicas": 3},
    "checkpoint": {"storage": {"pvc": {"size": "-1Gi"}}, "restore": {"from": "a b"}},
}


def start(folder: Path, *options: str) -> Up:
    cluster = Up(folder, *options)
    cluster.start()
    return cluster


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    cluster = start(tmp_path / "c", "--isolation", "plain")
    yield cluster
    cluster.stop()


KUBECTL = on_machine("kubectl") or built("kubectl")


def send(up: Up, method: str, obj: dict[str, Any], name: str = "") -> tuple[int, str]:
    """With kubectl where there is one, as people do, else as kubectl would; code and words."""
    if KUBECTL is None:
        kind = {"PATCH": "application/merge-patch+json"}.get(method, "application/json")
        path = Objects(up, "default").path(GROUP, "trainingjobs", name)
        reply = up.request(method, path, obj, content_type=kind)
        return reply.code // 400, reply.body.decode() + reply.headers.get("Warning", "")
    verb = ["apply", "-f", "-"]
    if method == "PATCH":
        verb = ["patch", "tj", name, "--type=merge", "-p", json.dumps(obj)]
    done = subprocess.run(
        [KUBECTL, "--kubeconfig", str(up.kubeconfig), *verb],
        input=json.dumps(obj), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def succeeded(up: Up, name: str) -> bool:
    found = Objects(up, "default").get(GROUP, "trainingjobs", name)
    phase = (found.get("status") or {}).get("phase")
    assert phase != "Failed", found["status"]
    return phase == "Succeeded"


@pytest.mark.parametrize("mode", ["root", "user", "plain"])
def test_a_job_reports_and_succeeds(tmp_path: Path, mode: Any) -> None:
    if Capabilities.detect("probe", highest=mode).mode != mode:
        pytest.skip(f"pods cannot be isolated as {mode} here")
    up = start(tmp_path / "c", "--isolation", mode)
    try:
        code, said = send(up, "POST", job("trains", ["python", "-c", TRAINS]))
        assert code == 0, said
        eventually(lambda: succeeded(up, "trains"), seconds=90)
        progress = Objects(up, "default").get(GROUP, "trainingjobs", "trains")["status"]["progress"]
        assert (progress["step"], progress["percent"]) == (5, 100)
        assert progress["metrics"] == {"loss": 0.2}
    finally:
        up.stop()


def test_every_mistake_is_told_at_once(up: Up) -> None:
    code, said = send(up, "POST", {**job("wrong"), "spec": BAD})
    assert code == 1
    for field in (
        "spec.framework",
        "spec.replicas",
        "spec.elastic.minReplicas",
        "spec.checkpoint.storage.pvc.size",
        "spec.checkpoint.restore.from",
    ):
        assert field in said
    assert Objects(up, "default").find(GROUP, "trainingjobs", "wrong") is None


def test_what_may_not_change(up: Up) -> None:
    objects = Objects(up, "default")
    objects.create("trainingjobs", job("fixed", runPolicy={"suspend": True}))
    code, said = send(up, "PATCH", {"spec": {"framework": "jax"}}, "fixed")
    assert code == 1
    assert "spec.framework" in said
    assert "immutable" in said


def test_warnings_reach_people(up: Up) -> None:
    policy = {"ttlSecondsAfterFinished": 0, "suspend": True}
    code, said = send(up, "POST", job("brief", runPolicy=policy))
    assert code == 0, said
    assert "spec.runPolicy.ttlSecondsAfterFinished: 0 deletes the job" in said


def test_killed_it_comes_back_and_goes_on(up: Up) -> None:
    before = up.parts()["operator"]
    os.kill(before, signal.SIGKILL)
    objects = Objects(up, "default")
    objects.create("trainingjobs", job("after"))
    eventually(lambda: up.parts().get("operator", before) != before)
    eventually(lambda: succeeded(up, "after"), seconds=60)


def test_jobs_outlive_the_cluster(up: Up, tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait = f"until test -f {go}; do sleep 0.05; done"
    objects = Objects(up, "default")
    objects.create("trainingjobs", job("resumes", ["sh", "-c", wait]))
    eventually(
        lambda: (
            (objects.get(GROUP, "trainingjobs", "resumes").get("status") or {}).get("phase")
            == "Running"
        )
    )
    up.stop()
    go.touch()
    up.start()
    eventually(lambda: succeeded(up, "resumes"), seconds=90)


async def test_its_own_rights_are_all_it_has(up: Up) -> None:
    """Its certificate opens what its roles say, and nothing else."""
    config = load_kubeconfig([up.data / "credentials" / "operator.kubeconfig"]).resolve()
    async with KubeClient(config) as client:
        for resource, allowed in ((PODS, True), (NODES, True), (SECRETS, False)):
            attributes = {"verb": "list", "resource": resource.plural}
            review = {"spec": {"resourceAttributes": attributes}}
            answer = await client.create(SELFSUBJECTACCESSREVIEWS, review)
            assert answer["status"]["allowed"] is allowed, resource


def test_without_it(tmp_path: Path) -> None:
    up = start(tmp_path / "c", "--no-operator")
    try:
        assert "operator" not in up.parts()
    finally:
        up.stop()
