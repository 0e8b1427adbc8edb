"""``kubectl rollout`` and ``kubectl scale`` with a real kubectl, on every backend."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.apps.builders import Apps, deployment, image, revision, template, workload
from tests.cluster.apps.conftest import MakeNode
from tests.cluster.kubectl.runner import Kubectl
from tests.cluster.objects import Obj, eventually


def version_of(apps: Apps, plural: str, name: str) -> str:
    spec = apps.get(plural, name)["spec"]["template"]["spec"]
    found: str = spec["containers"][0]["image"].rpartition(":")[2]
    return found


def test_status_tells_when_a_deployment_is_out(apps: Apps, kubectl: Kubectl) -> None:
    apps.create(deployment(replicas=3))
    said = kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert said.lines[-1] == 'deployment "web" successfully rolled out'
    kubectl("set", "image", "deployment/web", "main=example.test/app:2")
    said = kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert said.lines[-1] == 'deployment "web" successfully rolled out'
    assert apps.sizes() == [0, 3]


def test_status_tells_of_a_missed_deadline(apps: Apps, kubectl: Kubectl) -> None:
    apps.player.play("running")
    apps.create(deployment(replicas=1, progressDeadlineSeconds=1))
    said = kubectl.run("rollout", "status", "deployment/web", "--timeout=50s")
    assert said.code == 1
    assert 'deployment "web" exceeded its progress deadline' in said.err


def test_history_and_undo(apps: Apps, kubectl: Kubectl) -> None:
    apps.create(deployment(replicas=2))
    apps.complete("web", 2)
    for version in "23":
        apps.patch("deployments", "web", image(version))
        apps.until("deployments", "web", lambda d, v=int(version): revision(d) == v)
        apps.complete("web", 2)
    said = kubectl("rollout", "history", "deployment/web")
    assert [row[0] for row in said.rows[2:] if row] == ["1", "2", "3"]
    one = kubectl("rollout", "history", "deployment/web", "--revision=2")
    assert "example.test/app:2" in one.out
    kubectl("rollout", "undo", "deployment/web")
    apps.until("deployments", "web", lambda d: revision(d) == 4)
    assert version_of(apps, "deployments", "web") == "2"
    apps.complete("web", 2)
    kubectl("rollout", "undo", "deployment/web", "--to-revision=1")
    apps.until("deployments", "web", lambda d: revision(d) == 5)
    apps.complete("web", 2)
    assert version_of(apps, "deployments", "web") == "1"
    said = kubectl("rollout", "history", "deployment/web")
    assert [row[0] for row in said.rows[2:] if row] == ["3", "4", "5"]
    assert "unable to find specified revision 9" in kubectl.fails(
        "rollout", "undo", "deployment/web", "--to-revision=9"
    )


def test_pause_resume_and_restart(apps: Apps, kubectl: Kubectl) -> None:
    apps.create(deployment(replicas=2))
    apps.complete("web", 2)
    kubectl("rollout", "pause", "deployment/web")
    kubectl("set", "image", "deployment/web", "main=example.test/app:2")
    apps.status("deployments", "web", replicas=2)
    assert apps.sizes() == [2]
    kubectl("rollout", "resume", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert apps.sizes() == [0, 2]
    kubectl("rollout", "restart", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert apps.sizes() == [0, 0, 2]
    newest = apps.sets()[-1]["spec"]["template"]["metadata"]["annotations"]
    assert "kubectl.kubernetes.io/restartedAt" in newest


def test_scale_and_wait(apps: Apps, kubectl: Kubectl) -> None:
    apps.create(deployment(replicas=1))
    kubectl("wait", "deployment/web", "--for=condition=Available", "--timeout=30s")
    kubectl("scale", "deployment/web", "--replicas=4", "--current-replicas=1")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    apps.complete("web", 4)
    row = kubectl("get", "deployment", "web").rows[1]
    assert row[:4] == ["web", "4/4", "4", "4"]


def stateful() -> Obj:
    return workload("StatefulSet", "web", replicas=2, serviceName="web")


def daemon(unique: str) -> Obj:
    pod = template("web", nodeSelector={"case": unique, "role": "worker"})
    return workload("DaemonSet", "web", pod)


@pytest.mark.parametrize("kind", ["statefulset", "daemonset"])
def test_other_kinds_roll_too(
    apps: Apps, kubectl: Kubectl, make_node: MakeNode, unique: str, kind: str
) -> None:
    for name in ("one", "two"):
        make_node(name, role="worker")
    apps.create(stateful() if kind == "statefulset" else daemon(unique))
    kubectl("rollout", "status", f"{kind}/web", "--timeout=30s")
    kubectl("set", "image", f"{kind}/web", "main=example.test/app:2")
    kubectl("rollout", "status", f"{kind}/web", "--timeout=30s")
    said = kubectl("rollout", "history", f"{kind}/web")
    assert [row[0] for row in said.rows[2:] if row] == ["1", "2"]
    kubectl("rollout", "undo", f"{kind}/web")
    kubectl("rollout", "status", f"{kind}/web", "--timeout=30s")
    assert version_of(apps, f"{kind}s", "web") == "1"
    eventually(lambda: images(apps) == {"example.test/app:1"})
    said = kubectl("rollout", "history", f"{kind}/web")
    assert [row[0] for row in said.rows[2:] if row] == ["2", "3"]
    kubectl("rollout", "restart", f"{kind}/web")
    kubectl("rollout", "status", f"{kind}/web", "--timeout=30s")


def images(apps: Apps) -> set[Any]:
    return {pod["spec"]["containers"][0]["image"] for pod in apps.live_pods()}
