"""Changing what is there: patch, edit, set, label, annotate, scale, replace, rollout, taint."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster import manifests
from tests.cluster.kubectl.runner import Kubectl
from tests.cluster.objects import Obj, Objects, contains, eventually


@pytest.fixture
def web(objects: Objects) -> Obj:
    return objects.create("deployments", manifests.deployment())


@pytest.fixture
def settings(objects: Objects) -> Obj:
    return objects.create("configmaps", manifests.configmap("settings", {"a": "1"}, x="1", y="2"))


def container(objects: Objects, name: str = "web") -> Any:
    spec = objects.get("apps/v1", "deployments", name)["spec"]
    return spec["template"]["spec"]["containers"][0]


def test_strategic_patch(kubectl: Kubectl, objects: Objects, web: Obj) -> None:
    side = {"name": "side", "image": "example.test/side:1"}
    patch = {"spec": {"template": {"spec": {"containers": [side]}}}}
    said = kubectl("patch", "deployment", "web", "-p", json.dumps(patch))
    assert said.out == "deployment.apps/web patched\n"
    spec = objects.get("apps/v1", "deployments", "web")["spec"]["template"]["spec"]
    assert [entry["name"] for entry in spec["containers"]] == ["side", "main"]
    gone = {"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}}
    kubectl("patch", "deployment", "web", "--type=strategic", "-p", json.dumps(gone))
    assert container(objects)["name"] == "main"
    same = kubectl("patch", "deployment", "web", "-p", "{}")
    assert same.out == "deployment.apps/web patched (no change)\n"


def test_merge_patch(kubectl: Kubectl, objects: Objects, settings: Obj) -> None:
    kubectl("patch", "cm", "settings", "--type=merge", "-p", '{"data":{"x":null,"z":"3"}}')
    assert objects.get("v1", "configmaps", "settings")["data"] == {"y": "2", "z": "3"}


def test_json_patch(kubectl: Kubectl, objects: Objects, settings: Obj) -> None:
    steps = [
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "replace", "path": "/data/x", "value": "9"},
        {"op": "move", "from": "/data/y", "path": "/data/w"},
        {"op": "add", "path": "/metadata/labels/b~1c", "value": "d"},
    ]
    kubectl("patch", "cm", "settings", "--type=json", "-p", json.dumps(steps))
    stored = objects.get("v1", "configmaps", "settings")
    assert stored["data"] == {"x": "9", "w": "2"}
    assert stored["metadata"]["labels"] == {"a": "1", "b/c": "d"}
    refused = kubectl.fails("patch", "cm", "settings", "--type=json", "-p", json.dumps(steps[:1]))
    assert "the server rejected our request due to an error in our request" in refused


def test_patches_refused(kubectl: Kubectl, settings: Obj, web: Obj) -> None:
    refused = kubectl.fails(
        "patch", "cm", "settings", "--type=json", "-p", '[{"op":"remove","path":"/data/none"}]'
    )
    assert "the server rejected our request due to an error in our request" in refused
    refused = kubectl.fails("patch", "deploy", "web", "-p", '{"spec":{"replicas":-1}}')
    assert "spec.replicas: Invalid value: -1: must be greater than or equal to 0" in refused
    assert '(NotFound): configmaps "none" not found' in kubectl.fails(
        "patch", "cm", "none", "-p", "{}"
    )


def test_patch_of_the_status_leaves_the_spec(kubectl: Kubectl, objects: Objects) -> None:
    objects.create("pods", manifests.pod("one"))
    patch = '{"status":{"phase":"Running","podIP":"10.1.2.3"},"metadata":{"labels":{"x":"y"}}}'
    kubectl("patch", "pod", "one", "--subresource=status", "--type=merge", "-p", patch)
    row = kubectl("get", "pod", "one", "-o", "wide").rows[1]
    assert row[2] == "Running" and row[5] == "10.1.2.3"


def test_patch_dry(kubectl: Kubectl, objects: Objects, settings: Obj) -> None:
    argv = ["patch", "cm", "settings", "--type=merge", "-p", '{"data":{"x":"5"}}']
    assert kubectl.json(*argv, "--dry-run=server")["data"]["x"] == "5"
    assert kubectl(*argv, "--dry-run=client").out.startswith("configmap/settings patched")
    assert objects.get("v1", "configmaps", "settings")["data"]["x"] == "1"


def test_edit(kubectl: Kubectl, objects: Objects, settings: Obj, web: Obj) -> None:
    editor = {"KUBE_EDITOR": "sed -i s/x:/w:/"}
    assert kubectl("edit", "cm", "settings", env=editor).out == "configmap/settings edited\n"
    assert objects.get("v1", "configmaps", "settings")["data"] == {"w": "1", "y": "2"}
    same = kubectl("edit", "cm", "settings", env={"KUBE_EDITOR": "true"})
    assert "Edit cancelled, no changes made." in same.out + same.err
    kubectl("edit", "deploy/web", env={"KUBE_EDITOR": "sed -i s/web:1/web:9/"})
    assert container(objects)["image"] == "example.test/web:9"


def test_edit_that_is_refused(kubectl: Kubectl, objects: Objects, web: Obj) -> None:
    refused = kubectl(
        "edit", "deploy", "web", env={"KUBE_EDITOR": "sed -i s/replicas:.0/replicas:\\ -5/"}, code=1
    )
    assert 'error: deployments.apps "web" is invalid' in refused.err
    assert objects.get("apps/v1", "deployments", "web")["spec"]["replicas"] == 0


def test_set_image_env_resources(kubectl: Kubectl, objects: Objects, web: Obj) -> None:
    said = kubectl("set", "image", "deployment/web", "main=example.test/web:2")
    assert said.out == "deployment.apps/web image updated\n"
    kubectl("set", "env", "deployment/web", "A=1", "B=2")
    assert kubectl("set", "env", "deployment/web", "A-").out == "deployment.apps/web env updated\n"
    assert kubectl("set", "env", "deployment/web", "--list").lines[-1] == "B=2"
    said = kubectl(
        "set", "resources", "deployment/web", "--limits=cpu=1500m,memory=1Gi", "--requests=cpu=0.5"
    )
    assert said.out == "deployment.apps/web resource requirements updated\n"
    assert contains(
        container(objects),
        {
            "image": "example.test/web:2",
            "env": [{"name": "B", "value": "2"}],
            "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
        },
    )
    assert "unable to find container" in kubectl.fails("set", "image", "deploy/web", "none=x")


def test_set_selector_serviceaccount_subject(kubectl: Kubectl, objects: Objects, web: Obj) -> None:
    objects.create("services", manifests.service())
    said = kubectl("set", "selector", "service", "web", "app=other,tier=front")
    assert said.out == "service/web selector updated\n"
    selector = objects.get("v1", "services", "web")["spec"]["selector"]
    assert selector == {"app": "other", "tier": "front"}
    kubectl("set", "serviceaccount", "deployment", "web", "runner")
    pod = objects.get("apps/v1", "deployments", "web")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == pod["serviceAccount"] == "runner"
    kubectl("create", "rolebinding", "b", "--clusterrole=view", "--user=ann")
    said = kubectl("set", "subject", "rolebinding", "b", "--user=bob", "--group=team")
    assert said.out == "rolebinding.rbac.authorization.k8s.io/b subjects updated\n"
    bound = objects.get("rbac.authorization.k8s.io/v1", "rolebindings", "b")
    assert {subject["name"] for subject in bound["subjects"]} == {"ann", "bob", "team"}


def test_label(kubectl: Kubectl, objects: Objects, settings: Obj) -> None:
    assert kubectl("label", "cm", "settings", "b=2").out == "configmap/settings labeled\n"
    refused = kubectl.fails("label", "cm", "settings", "a=9")
    assert "'a' already has a value (1), and --overwrite is false" in refused
    kubectl("label", "cm", "settings", "a=9", "--overwrite")
    assert kubectl("label", "cm/settings", "b-").out == "configmap/settings unlabeled\n"
    assert objects.get("v1", "configmaps", "settings")["metadata"]["labels"] == {"a": "9"}
    listed = kubectl("label", "cm", "settings", "--list").out
    assert listed == "a=9\n"
    assert "invalid label value" in kubectl.fails("label", "cm", "settings", "c=not a value")


def test_label_many_by_selector(kubectl: Kubectl, objects: Objects) -> None:
    for name in ("one", "two"):
        objects.create("configmaps", manifests.configmap(name, {"set": "yes"}))
    said = kubectl("label", "cm", "-l", "set=yes", "marked=true")
    assert said.lines == ["configmap/one labeled", "configmap/two labeled"]
    assert objects.names("v1", "configmaps", "?labelSelector=marked%3Dtrue") == {"one", "two"}


def test_annotate(kubectl: Kubectl, objects: Objects, settings: Obj) -> None:
    kubectl("annotate", "cm", "settings", "note=first words")
    assert "--overwrite is false" in kubectl.fails("annotate", "cm", "settings", "note=second")
    kubectl("annotate", "cm", "settings", "note=second", "other=1", "--overwrite")
    assert kubectl("annotate", "cm", "settings", "other-").out == "configmap/settings annotated\n"
    stored = objects.get("v1", "configmaps", "settings")["metadata"]
    assert stored["annotations"] == {"note": "second"}
    stale = kubectl.fails("annotate", "cm", "settings", "x=1", "--resource-version=1")
    assert "the object has been modified" in stale


def test_scale(kubectl: Kubectl, objects: Objects, web: Obj) -> None:
    said = kubectl("scale", "deployment/web", "--replicas=2", "--current-replicas=0")
    assert said.out == "deployment.apps/web scaled\n"
    refused = kubectl.fails("scale", "deployment/web", "--replicas=3", "--current-replicas=0")
    assert "Expected replicas to be 0, was 2" in refused
    stored = objects.get("apps/v1", "deployments", "web")
    assert (stored["spec"]["replicas"], stored["metadata"]["generation"]) == (2, 2)
    dry = kubectl("scale", "deployment/web", "--replicas=7", "--dry-run=server")
    assert dry.out == "deployment.apps/web scaled (server dry run)\n"
    assert objects.get("apps/v1", "deployments", "web")["spec"]["replicas"] == 2
    assert '"none" not found' in kubectl.fails("scale", "deploy", "none", "--replicas=1")


def test_replace(kubectl: Kubectl, objects: Objects, settings: Obj) -> None:
    said = kubectl("replace", "-f", "-", stdin=manifests.configmap("settings", z="1"))
    assert said.out == "configmap/settings replaced\n"
    stored = objects.get("v1", "configmaps", "settings")
    assert stored["data"] == {"z": "1"} and "labels" not in stored["metadata"]
    assert "(NotFound)" in kubectl.fails("replace", "-f", "-", stdin=manifests.configmap("none"))
    assert "(Conflict)" in kubectl.fails("replace", "-f", "-", stdin=settings)


def test_replace_by_force(kubectl: Kubectl, objects: Objects, settings: Obj) -> None:
    said = kubectl("replace", "--force", "-f", "-", stdin=manifests.configmap("settings", z="1"))
    assert said.lines[-1] == "configmap/settings replaced" and "deleted" in said.lines[0]
    stored = objects.get("v1", "configmaps", "settings")
    assert stored["metadata"]["uid"] != settings["metadata"]["uid"]


def test_replace_of_subresources(kubectl: Kubectl, objects: Objects, web: Obj) -> None:
    made = manifests.pod("one")
    made["spec"]["schedulerName"] = "nobody"  # who would write to its status
    pod = objects.create("pods", made)
    pod["status"]["phase"] = "Failed"
    pod["spec"]["containers"][0]["image"] = "example.test/other:1"
    said = kubectl("replace", "--subresource=status", "-f", "-", stdin=pod)
    assert said.out == "pod/one replaced\n"
    stored = objects.get("v1", "pods", "one")
    assert stored["status"]["phase"] == "Failed"
    assert stored["spec"]["containers"][0]["image"] == "example.test/web:1"
    scale = kubectl.json("get", "deploy", "web", "--subresource=scale")
    scale["spec"] = {"replicas": 3}
    del scale["metadata"]["resourceVersion"]
    path = objects.path("apps/v1", "deployments", "web") + "/scale"
    kubectl("replace", "--raw", path, "-f", "-", stdin=scale)
    assert objects.get("apps/v1", "deployments", "web")["spec"]["replicas"] == 3


def revision(owner: Obj, number: int, image: str) -> Obj:
    """A replica set as a deployment of that revision leaves it behind."""
    made = manifests.obj("apps/v1", "ReplicaSet", f"web-{number}", labels={"app": "web"})
    template = manifests.pod_template("web", image)
    for labels in (made["metadata"]["labels"], template["metadata"]["labels"]):
        labels["pod-template-hash"] = str(number)
    made["metadata"]["annotations"] = {
        "deployment.kubernetes.io/revision": str(number),
        "kubernetes.io/change-cause": f"change {number}",
    }
    reference = {key: owner["metadata"][key] for key in ("name", "uid")}
    made["metadata"]["ownerReferences"] = [
        reference | {"apiVersion": "apps/v1", "kind": "Deployment", "controller": True}
    ]
    selector = {"matchLabels": dict(template["metadata"]["labels"])}
    made["spec"] = {"replicas": 0, "selector": selector, "template": template}
    return made


def test_rollout_history(kubectl: Kubectl, objects: Objects) -> None:
    paused = manifests.deployment(image="example.test/web:2")
    paused["spec"]["paused"] = True
    owner = objects.create("deployments", paused)
    for number in (1, 2):
        objects.create("replicasets", revision(owner, number, f"example.test/web:{number}"))
    said = kubectl("rollout", "history", "deployment/web").rows
    assert said[1] == ["REVISION", "CHANGE-CAUSE"]
    assert said[2] == ["1", "change", "1"] and said[3][0] == "2"
    one = kubectl("rollout", "history", "deployment/web", "--revision=1").out
    assert "example.test/web:1" in one and "with revision #1" in one
    assert "cannot rollback a paused deployment" in kubectl.fails("rollout", "undo", "deploy/web")
    assert kubectl("rollout", "resume", "deploy/web").out == "deployment.apps/web resumed\n"
    said = kubectl("rollout", "undo", "deploy/web", "--to-revision=1")
    assert said.out == "deployment.apps/web rolled back\n"
    assert container(objects)["image"] == "example.test/web:1"


def test_rollout_pause_resume_restart(kubectl: Kubectl, objects: Objects, web: Obj) -> None:
    assert kubectl("rollout", "pause", "deployment/web").out == "deployment.apps/web paused\n"
    assert objects.get("apps/v1", "deployments", "web")["spec"]["paused"] is True
    assert "is already paused" in kubectl.fails("rollout", "pause", "deployment/web")
    assert "can't restart paused deployment" in kubectl.fails("rollout", "restart", "deploy/web")
    assert kubectl("rollout", "resume", "deployment/web").out == "deployment.apps/web resumed\n"
    assert "paused" not in objects.get("apps/v1", "deployments", "web")["spec"]
    assert kubectl("rollout", "restart", "deployment/web").out == "deployment.apps/web restarted\n"
    template = objects.get("apps/v1", "deployments", "web")["spec"]["template"]["metadata"]
    assert "kubectl.kubernetes.io/restartedAt" in template["annotations"]


def test_rollout_status(kubectl: Kubectl, objects: Objects, web: Obj) -> None:
    generation = web["metadata"]["generation"]
    status = {"status": {"observedGeneration": generation}}
    objects.patch("apps/v1", "deployments", "web", status, subresource="status")
    said = kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert said.out.endswith('deployment "web" successfully rolled out\n')


def test_taint_and_cordon(admin: Kubectl, cluster: Objects, unique: str) -> None:
    name = f"n-{unique}"
    cluster.create("nodes", manifests.obj("v1", "Node", name))

    def ours() -> list[Obj]:
        taints = cluster.get("v1", "nodes", name)["spec"].get("taints", [])
        return [taint for taint in taints if taint["key"] == "example.test/gpu"]

    try:
        said = admin("taint", "node", name, "example.test/gpu=a100:NoSchedule")
        assert said.out == f"node/{name} tainted\n"
        assert ours() == [{"key": "example.test/gpu", "value": "a100", "effect": "NoSchedule"}]
        refused = admin.fails("taint", "node", name, "example.test/gpu=h100:NoSchedule")
        assert "already has example.test/gpu taint(s) with same effect(s)" in refused
        admin("taint", "node", name, "example.test/gpu=h100:NoSchedule", "--overwrite")
        assert ours()[0]["value"] == "h100"
        said = admin("taint", "node", name, "example.test/gpu-")
        assert said.out == f"node/{name} untainted\n" and ours() == []
        assert admin("cordon", name).out == f"node/{name} cordoned\n"
        assert admin("get", "node", name).rows[1][1] == "Unknown,SchedulingDisabled"
        assert admin("cordon", name).out == f"node/{name} already cordoned\n"
        assert admin("uncordon", name).out == f"node/{name} uncordoned\n"
        assert "unschedulable" not in cluster.get("v1", "nodes", name)["spec"]
    finally:
        cluster.delete("v1", "nodes", name)


def test_drain_evicts_pods(
    kubectl: Kubectl, objects: Objects, cluster: Objects, unique: str
) -> None:
    name = f"n-{unique}"
    cluster.create("nodes", manifests.obj("v1", "Node", name))
    try:
        one = manifests.pod("one")
        one["spec"] |= {"nodeName": name, "terminationGracePeriodSeconds": 0}
        objects.create("pods", one)
        refused = kubectl.fails("drain", name)
        assert "declare no controller" in refused and "SchedulingDisabled" not in refused
        said = kubectl("drain", name, "--force", "--timeout=30s")
        assert said.lines[-1] == f"node/{name} drained"
        assert eventually(lambda: objects.find("v1", "pods", "one") is None)
    finally:
        cluster.delete("v1", "nodes", name)
