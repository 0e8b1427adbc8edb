"""`kubectl delete`: one, many, by selector, by force, with each cascade."""

from __future__ import annotations

import pytest

from tests.cluster import manifests
from tests.cluster.kubectl.runner import Kubectl
from tests.cluster.objects import Obj, Objects, eventually


@pytest.fixture
def family(objects: Objects) -> Obj:
    """A config map that owns two others, which no controller but the collector knows."""
    parent = objects.create("configmaps", manifests.configmap("parent"))
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "parent",
        "uid": parent["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    for name in ("child-1", "child-2"):
        child = manifests.configmap(name, {"is": "child"})
        child["metadata"]["ownerReferences"] = [reference]
        objects.create("configmaps", child)
    return parent


def children(objects: Objects) -> set[str]:
    return objects.names("v1", "configmaps", "?labelSelector=is%3Dchild")


@pytest.mark.usefixtures("family")
@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_cascade(kubectl: Kubectl, objects: Objects, cascade: str, namespace: str) -> None:
    said = kubectl("delete", "cm", "parent", f"--cascade={cascade}")
    assert said.out.startswith('configmap "parent" deleted')
    assert objects.find("v1", "configmaps", "parent") is None
    if cascade == "foreground":
        assert children(objects) == set()
    assert eventually(lambda: not children(objects))


@pytest.mark.usefixtures("family")
def test_cascade_orphan(kubectl: Kubectl, objects: Objects) -> None:
    kubectl("delete", "cm", "parent", "--cascade=orphan")
    assert objects.find("v1", "configmaps", "parent") is None
    for name in ("child-1", "child-2"):
        assert "ownerReferences" not in objects.get("v1", "configmaps", name)["metadata"]


def test_finalizers_hold_it_back(kubectl: Kubectl, objects: Objects) -> None:
    held = manifests.configmap("held")
    held["metadata"]["finalizers"] = ["example.test/hold"]
    objects.create("configmaps", held)
    kubectl("delete", "cm", "held", "--wait=false")
    metadata = objects.get("v1", "configmaps", "held")["metadata"]
    assert metadata["deletionTimestamp"] and metadata["deletionGracePeriodSeconds"] == 0
    timed_out = kubectl("delete", "cm", "held", "--timeout=200ms", code=1)
    assert "timed out waiting for the condition" in timed_out.err
    with kubectl.running("delete", "cm", "held") as output:
        output.until("deleted")
        kubectl("patch", "cm", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert eventually(lambda: objects.find("v1", "configmaps", "held") is None)


def test_many(kubectl: Kubectl, objects: Objects) -> None:
    for name in ("a", "b", "c"):
        labels = {"side": "left"} if name != "c" else {}
        objects.create("secrets", manifests.obj("v1", "Secret", name, labels=labels))
    said = kubectl("delete", "secrets", "-l", "side=left")
    assert [line.split()[1] for line in said.lines] == ['"a"', '"b"']
    assert objects.names("v1", "secrets") == {"c"}
    dry = kubectl("delete", "secret", "c", "--dry-run=server")
    assert "(server dry run)" in dry.out and objects.get("v1", "secrets", "c")
    assert kubectl("delete", "secrets", "--all", "-o", "name").out == "secret/c\n"
    assert objects.names("v1", "secrets") == set()
    assert "No resources found" in kubectl("delete", "secrets", "--all").out


def test_not_found(kubectl: Kubectl) -> None:
    assert kubectl.fails("delete", "cm", "none") == (
        'Error from server (NotFound): configmaps "none" not found\n'
    )
    assert kubectl("delete", "cm", "none", "--ignore-not-found").out == ""


def test_files_and_names(kubectl: Kubectl, objects: Objects) -> None:
    made = [manifests.configmap("a"), manifests.service("web")]
    kubectl("create", "-f", "-", stdin=made)
    said = kubectl("delete", "-f", "-", stdin=made)
    assert [line.split()[:2] for line in said.lines] == [["configmap", '"a"'], ["service", '"web"']]
    kubectl("create", "-f", "-", stdin=made)
    kubectl("delete", "cm/a", "svc/web", "--now")
    assert objects.find("v1", "services", "web") is None


def test_pods_by_force(kubectl: Kubectl, objects: Objects) -> None:
    bound = manifests.pod("bound")
    bound["spec"]["nodeName"] = "nowhere"
    objects.create("pods", bound)
    kubectl("delete", "pod", "bound", "--wait=false")
    metadata = objects.get("v1", "pods", "bound")["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 30
    assert kubectl("get", "pod", "bound").rows[1][2] == "Terminating"
    said = kubectl("delete", "pod", "bound", "--grace-period=0", "--force")
    assert "Immediate deletion does not wait for confirmation" in said.err
    assert said.out.startswith('pod "bound" force deleted')
    assert objects.find("v1", "pods", "bound") is None


def test_pods_that_never_ran_go_at_once(kubectl: Kubectl, objects: Objects) -> None:
    objects.create("pods", manifests.pod("free"))
    kubectl("delete", "pod", "free")
    assert objects.find("v1", "pods", "free") is None


def test_namespaces(kubectl: Kubectl, objects: Objects, cluster: Objects, unique: str) -> None:
    held = manifests.configmap("held")
    held["metadata"]["finalizers"] = ["example.test/hold"]
    objects.create("configmaps", held)
    objects.create("secrets", manifests.obj("v1", "Secret", "free"))
    namespace, free = objects.namespace, f"free-{unique}"
    kubectl("create", "namespace", free)
    said = kubectl("delete", "namespace", namespace, free, "--wait=false")
    assert said.out.startswith(f'namespace "{namespace}" deleted')
    assert kubectl("get", "namespace", namespace).rows[1][1] == "Terminating"
    refused = kubectl.fails("create", "configmap", "late")
    assert f"unable to create new content in namespace {namespace} because it is being" in refused
    kubectl("wait", "--for=delete", f"namespace/{free}", "--timeout=30s")
    assert cluster.find("v1", "namespaces", free) is None
    assert eventually(lambda: not objects.names("v1", "secrets"))
    assert eventually(lambda: objects.names("v1", "configmaps") == {"held"})
    objects.patch("v1", "configmaps", "held", {"metadata": {"finalizers": None}})


def test_raw(kubectl: Kubectl, objects: Objects) -> None:
    objects.create("configmaps", manifests.configmap("a"))
    said = kubectl("delete", "--raw", objects.path("v1", "configmaps", "a")).json()
    assert (said["kind"], said["status"], said["details"]["name"]) == ("Status", "Success", "a")


def test_protected_namespaces_stay(admin: Kubectl) -> None:
    refused = admin.fails("delete", "namespace", "default")
    assert 'namespaces "default" is forbidden: this namespace may not be deleted' in refused
