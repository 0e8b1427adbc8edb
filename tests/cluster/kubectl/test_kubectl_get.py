"""`kubectl get` in every output, with selectors, pages and sorting."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.cluster import manifests
from tests.cluster.kubectl.runner import Kubectl
from tests.cluster.objects import Objects

FRUIT = {"apple": ("red", "3"), "banana": ("yellow", "1"), "cherry": ("red", "2")}


@pytest.fixture
def fruit(objects: Objects) -> None:
    for name, (colour, order) in FRUIT.items():
        made = manifests.configmap(name, {"colour": colour, "kind": "fruit"}, order=order)
        objects.create("configmaps", made)


def get(kubectl: Kubectl, *argv: str) -> list[str]:
    return kubectl("get", "configmaps", "-l", "kind=fruit", *argv).lines


OUTPUTS = {
    "name": (["-o", "name"], ["configmap/apple", "configmap/banana", "configmap/cherry"]),
    "jsonpath": (["-o", "jsonpath={.items[*].data.order}"], ["3 1 2"]),
    "jsonpath range": (
        ["-o", 'jsonpath={range .items[*]}{.metadata.name}={.data.order}{"\\n"}{end}'],
        ["apple=3", "banana=1", "cherry=2"],
    ),
    "jsonpath filter": (
        ["-o", 'jsonpath={.items[?(@.data.order=="2")].metadata.name}'],
        ["cherry"],
    ),
    "go-template": (
        ["-o", "go-template={{range .items}}{{.metadata.name}}/{{end}}"],
        ["apple/banana/cherry/"],
    ),
    "custom-columns": (
        ["-o", "custom-columns=WHO:.metadata.name,ORDER:.data.order,NONE:.data.none"],
        ["WHO      ORDER   NONE", "apple    3       <none>", "banana   1       <none>",
         "cherry   2       <none>"],
    ),
    "custom-columns without headers": (
        ["--no-headers", "-o", "custom-columns=WHO:.metadata.name"],
        ["apple", "banana", "cherry"],
    ),
    "sort-by": (["--sort-by=.data.order", "-o", "name"], [
        "configmap/banana", "configmap/cherry", "configmap/apple"]),
    "selector": (["-l", "colour=red,kind=fruit", "-o", "name"], [
        "configmap/apple", "configmap/cherry"]),
    "selector of sets": (["-l", "colour notin (red,blue),kind", "-o", "name"], [
        "configmap/banana"]),
    "selector of absence": (["-l", "!colour,kind=fruit", "-o", "name"], []),
    "field selector": (["--field-selector=metadata.name=apple", "-o", "name"], [
        "configmap/apple"]),
    "field selector of others": (["--field-selector=metadata.name!=apple", "-o", "name"], [
        "configmap/banana", "configmap/cherry"]),
    "chunks": (["--chunk-size=2", "-o", "name"], [
        "configmap/apple", "configmap/banana", "configmap/cherry"]),
}  # fmt: skip


@pytest.mark.usefixtures("fruit")
@pytest.mark.parametrize(("argv", "expected"), OUTPUTS.values(), ids=OUTPUTS.keys())
def test_output(kubectl: Kubectl, argv: list[str], expected: list[str]) -> None:
    assert get(kubectl, *argv) == expected


@pytest.mark.usefixtures("fruit")
def test_table(kubectl: Kubectl) -> None:
    rows = [line.split() for line in get(kubectl)]
    assert rows[0] == ["NAME", "DATA", "AGE"]
    assert [row[:2] for row in rows[1:]] == [[name, "1"] for name in FRUIT]


@pytest.mark.usefixtures("fruit")
def test_table_sorted_in_chunks_with_labels(kubectl: Kubectl) -> None:
    rows = [
        line.split()
        for line in get(kubectl, "--sort-by={.data.order}", "--chunk-size=1", "-L", "colour")
    ]
    assert rows[0] == ["NAME", "DATA", "AGE", "COLOUR"]
    assert [(row[0], row[3]) for row in rows[1:]] == [
        ("banana", "yellow"),
        ("cherry", "red"),
        ("apple", "red"),
    ]
    shown = get(kubectl, "--show-labels", "--no-headers")
    assert shown[0].split()[-1] == "colour=red,kind=fruit"
    assert get(kubectl, "--show-kind", "--no-headers")[2].split()[0] == "configmap/cherry"


@pytest.mark.usefixtures("fruit")
def test_json_and_yaml_are_whole_objects(kubectl: Kubectl, namespace: str) -> None:
    listed = kubectl.json("get", "cm", "-l", "kind=fruit")
    assert listed["kind"] == "List" and len(listed["items"]) == 3
    one = kubectl.json("get", "cm", "apple")
    assert one["apiVersion"] == "v1" and one["kind"] == "ConfigMap"
    assert one["metadata"]["namespace"] == namespace and "managedFields" not in one["metadata"]
    assert yaml.safe_load(kubectl("get", "cm/apple", "-o", "yaml").out) == one
    full = kubectl.json("get", "cm", "apple", "--show-managed-fields")
    assert full["metadata"]["managedFields"][0]["fieldsV1"]["f:data"] == {".": {}, "f:order": {}}


@pytest.mark.usefixtures("fruit")
def test_all_namespaces(kubectl: Kubectl, namespace: str) -> None:
    rows = kubectl(
        "get", "cm", "-A", "-l", "kind=fruit", f"--field-selector=metadata.namespace={namespace}"
    ).rows
    assert rows[0] == ["NAMESPACE", "NAME", "DATA", "AGE"]
    assert [row[:2] for row in rows[1:]] == [[namespace, name] for name in FRUIT]


def test_nothing_and_not_found(kubectl: Kubectl, namespace: str) -> None:
    said = kubectl("get", "pods")
    assert said.out == "" and said.err == f"No resources found in {namespace} namespace.\n"
    assert kubectl.fails("get", "pod", "none") == (
        'Error from server (NotFound): pods "none" not found\n'
    )
    assert kubectl("get", "pod", "none", "--ignore-not-found").out == ""
    assert kubectl.fails("get", "nonsense") == (
        'error: the server doesn\'t have a resource type "nonsense"\n'
    )


def test_field_selectors_of_kinds(kubectl: Kubectl, objects: Objects) -> None:
    objects.create("pods", manifests.pod("one"))
    objects.create("secrets", manifests.obj("v1", "Secret", "s", type="example.test/x"))
    assert kubectl("get", "pods", "--field-selector=status.phase=Pending", "-o", "name").lines == [
        "pod/one"
    ]
    assert kubectl("get", "pods", "--field-selector=spec.nodeName=n1", "-o", "name").lines == []
    assert kubectl(
        "get", "secrets", "--field-selector=type=example.test/x", "-o", "name"
    ).lines == ["secret/s"]
    refused = kubectl.fails("get", "pods", "--field-selector=spec.nonsense=1")
    assert "field label not supported: spec.nonsense" in refused


def test_several_kinds_and_files(kubectl: Kubectl, objects: Objects) -> None:
    made = [manifests.configmap("a"), manifests.service("web"), manifests.deployment("web")]
    kubectl("create", "-f", "-", stdin=made)
    names = ["configmap/a", "service/web", "deployment.apps/web"]
    assert kubectl("get", "-f", "-", "-o", "name", stdin=made).lines == names
    assert kubectl("get", "cm/a", "svc/web", "deploy/web", "-o", "name").lines == names
    assert kubectl("get", "svc,deploy", "-o", "name").lines == names[1:]
    everything = kubectl("get", "all", "-o", "name").lines
    assert {"service/web", "deployment.apps/web"} <= set(everything)
    assert "configmap/a" not in everything


def test_raw(kubectl: Kubectl, namespace: str) -> None:
    assert kubectl("get", "--raw", "/healthz").out == "ok"
    assert "[+]ping ok" in kubectl("get", "--raw", "/readyz?verbose").out
    listed = json.loads(kubectl("get", "--raw", f"/api/v1/namespaces/{namespace}/configmaps").out)
    assert listed["kind"] == "ConfigMapList" and listed["metadata"]["resourceVersion"].isdigit()
    assert "(NotFound)" in kubectl.fails("get", "--raw", "/nonsense")


def test_subresources(kubectl: Kubectl, objects: Objects) -> None:
    objects.create("deployments", manifests.deployment())
    scale = kubectl.json("get", "deployment", "web", "--subresource=scale")
    assert (scale["kind"], scale["spec"]) == ("Scale", {}), scale
    assert scale["status"]["selector"] == "app=web"
    status = kubectl.json("get", "deployment", "web", "--subresource=status")
    assert status["kind"] == "Deployment"
    refused = kubectl.fails("get", "configmap", "kube-root-ca.crt", "--subresource=status")
    assert "the server could not find the requested resource" in refused


HEADERS = {
    "pods": "NAME READY STATUS RESTARTS AGE",
    "services": "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE",
    "deployments": "NAME READY UP-TO-DATE AVAILABLE AGE",
    "replicasets": "NAME DESIRED CURRENT READY AGE",
    "statefulsets": "NAME READY AGE",
    "daemonsets": "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR AGE",
    "jobs": "NAME STATUS COMPLETIONS DURATION AGE",
    "cronjobs": "NAME SCHEDULE TIMEZONE SUSPEND ACTIVE LAST SCHEDULE AGE",
    "secrets": "NAME TYPE DATA AGE",
    "ingresses": "NAME CLASS HOSTS ADDRESS PORTS AGE",
    "networkpolicies": "NAME POD-SELECTOR AGE",
    "persistentvolumeclaims": "NAME STATUS VOLUME CAPACITY ACCESS MODES STORAGECLASS "
    "VOLUMEATTRIBUTESCLASS AGE",
    "resourcequotas": "NAME REQUEST LIMIT AGE",
    "limitranges": "NAME CREATED AT",
    "poddisruptionbudgets": "NAME MIN AVAILABLE MAX UNAVAILABLE ALLOWED DISRUPTIONS AGE",
    "horizontalpodautoscalers": "NAME REFERENCE TARGETS MINPODS MAXPODS REPLICAS AGE",
    "roles": "NAME CREATED AT",
    "rolebindings": "NAME ROLE AGE",
    "leases": "NAME HOLDER AGE",
    "endpointslices": "NAME ADDRESSTYPE PORTS ENDPOINTS AGE",
    "controllerrevisions": "NAME CONTROLLER REVISION AGE",
}


def one_of_each() -> list[manifests.Obj]:
    template = manifests.pod_template("x")
    selector = {"matchLabels": {"app": "x"}}
    workload = {"selector": selector, "template": template}
    never = {"spec": template["spec"] | {"restartPolicy": "Never"}}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "none",
    }
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    rbac = "rbac.authorization.k8s.io"
    obj = manifests.obj
    return [
        manifests.pod("x"),
        manifests.service("x"),
        manifests.deployment("x"),
        obj("apps/v1", "ReplicaSet", "x", spec=workload | {"replicas": 0}),
        obj("apps/v1", "StatefulSet", "x", spec=workload | {"replicas": 0, "serviceName": "x"}),
        obj("apps/v1", "DaemonSet", "x", spec=workload),
        obj("batch/v1", "Job", "x", spec={"suspend": True, "template": never}),
        manifests.cronjob("x"),
        obj("v1", "Secret", "x", stringData={"a": "b"}),
        obj("networking.k8s.io/v1", "Ingress", "x", spec={
            "defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}),
        obj("networking.k8s.io/v1", "NetworkPolicy", "x", spec={"podSelector": selector}),
        obj("v1", "PersistentVolumeClaim", "x", spec=claim),
        obj("v1", "ResourceQuota", "x", spec={"hard": {"count/leases.example.test": "5"}}),
        obj("v1", "LimitRange", "x", spec={"limits": [{"type": "Pod", "max": {"cpu": "4"}}]}),
        obj("policy/v1", "PodDisruptionBudget", "x", spec={
            "minAvailable": 1, "selector": selector}),
        obj("autoscaling/v2", "HorizontalPodAutoscaler", "x", spec={
            "scaleTargetRef": target, "maxReplicas": 3}),
        obj(f"{rbac}/v1", "Role", "x", rules=[]),
        obj(f"{rbac}/v1", "RoleBinding", "x", roleRef={
            "apiGroup": rbac, "kind": "Role", "name": "x"}),
        obj("coordination.k8s.io/v1", "Lease", "x", spec={"holderIdentity": "me"}),
        obj("discovery.k8s.io/v1", "EndpointSlice", "x", addressType="IPv4", endpoints=[
            {"addresses": ["10.0.0.1"]}], ports=[{"port": 80, "name": "http"}]),
        obj("apps/v1", "ControllerRevision", "x", revision=3, data={}),
    ]  # fmt: skip


CELLS = {
    "pods": ["x", "0/1", "Pending", "0"],
    "services": ["x", "ClusterIP"],
    "statefulsets": ["x", "0/0"],
    "daemonsets": ["x", "0", "0", "0", "0", "0", "<none>"],
    "cronjobs": ["x", "0", "3", "*", "*", "*", "<none>", "True", "0", "<none>"],
    "secrets": ["x", "Opaque", "1"],
    "ingresses": ["x", "<none>", "*", "80"],
    "networkpolicies": ["x", "app=x"],
    "persistentvolumeclaims": ["x", "Pending", "none", "<unset>"],
    "poddisruptionbudgets": ["x", "1", "N/A", "0"],
    "horizontalpodautoscalers": ["x", "Deployment/x"],
    "rolebindings": ["x", "Role/x"],
    "leases": ["x", "me"],
    "endpointslices": ["x", "IPv4", "80", "10.0.0.1"],
    "controllerrevisions": ["x", "<none>", "3"],
}


def test_columns_of_every_kind(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=one_of_each())
    tables = kubectl("get", ",".join(HEADERS), "--field-selector=metadata.name=x").out
    found = {}
    for table in tables.strip().split("\n\n"):
        header, row = table.splitlines()
        kind, _, rest = row.partition("/")
        found[kind] = (" ".join(header.split()), rest.split())
    kinds = dict(zip(found, HEADERS, strict=True))
    assert {kinds[kind]: header for kind, (header, _) in found.items()} == HEADERS
    for kind, (_, cells) in found.items():
        expected = CELLS.get(kinds[kind], ["x"])
        assert cells[: len(expected)] == expected, kind


def test_wide_columns(kubectl: Kubectl, objects: Objects) -> None:
    objects.create("pods", manifests.pod("x"))
    objects.create("deployments", manifests.deployment("web"))
    objects.create("services", manifests.service("web"))
    pods = kubectl("get", "pod", "x", "-o", "wide").rows
    assert pods[0][5:] == "IP NODE NOMINATED NODE READINESS GATES".split()
    assert pods[1][5:] == ["<none>"] * 4
    deployments = kubectl("get", "deploy", "-o", "wide").rows
    assert deployments[0][5:] == ["CONTAINERS", "IMAGES", "SELECTOR"]
    assert deployments[1][5:] == ["main", "example.test/web:1", "app=web"]
    services = kubectl("get", "svc", "-o", "wide").rows
    assert services[0][-1] == "SELECTOR" and services[1][-1] == "app=web"


def test_namespaces_and_nodes_of_the_cluster(
    admin: Kubectl, cluster: Objects, unique: str, namespace: str
) -> None:
    rows = admin("get", "ns", namespace, "kube-system").rows
    assert rows[0] == ["NAME", "STATUS", "AGE"]
    assert [row[:2] for row in rows[1:]] == [[namespace, "Active"], ["kube-system", "Active"]]
    cluster.create("nodes", manifests.obj("v1", "Node", f"n-{unique}"))
    rows = admin("get", "node", f"n-{unique}").rows
    assert rows[0] == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert rows[1][:3] == [f"n-{unique}", "Unknown", "<none>"]
    cluster.delete("v1", "nodes", f"n-{unique}")
