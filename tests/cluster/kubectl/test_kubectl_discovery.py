"""What kubectl learns of the server: kinds, versions, documentation, descriptions, events."""

from __future__ import annotations

import re
import urllib.request

import pytest

from tests.cluster import manifests
from tests.cluster.kubectl.runner import Kubectl
from tests.cluster.objects import Objects, eventually


def test_api_resources(admin: Kubectl) -> None:
    rows = {tuple(row) for row in admin("api-resources").rows}
    assert ("configmaps", "cm", "v1", "true", "ConfigMap") in rows
    assert ("deployments", "deploy", "apps/v1", "true", "Deployment") in rows
    assert ("namespaces", "ns", "v1", "false", "Namespace") in rows
    assert ("customresourcedefinitions", "crd,crds", "apiextensions.k8s.io/v1", "false",
            "CustomResourceDefinition") in rows  # fmt: skip
    wide = {row[0]: row for row in admin("api-resources", "-o", "wide", "--api-group=apps").rows}
    assert wide["deployments"][-2:] == [
        "create,delete,deletecollection,get,list,patch,update,watch", "all",
    ]  # fmt: skip
    cluster = admin("api-resources", "--namespaced=false", "-o", "name").lines
    assert {"nodes", "clusterroles.rbac.authorization.k8s.io"} <= set(cluster)
    assert "pods" not in cluster
    listable = admin("api-resources", "--verbs=list,get", "-o", "name", "--sort-by=name").lines
    assert "pods" in listable and "tokenreviews.authentication.k8s.io" not in listable
    everything = set(admin("api-resources", "--categories=all", "-o", "name").lines)
    assert everything == {
        "cronjobs.batch", "daemonsets.apps", "deployments.apps",
        "horizontalpodautoscalers.autoscaling", "jobs.batch", "pods", "replicasets.apps",
        "replicationcontrollers", "services", "statefulsets.apps",
    }  # fmt: skip


def test_api_versions(admin: Kubectl) -> None:
    versions = admin("api-versions").lines
    assert versions == sorted(versions)
    assert {
        "v1", "apps/v1", "batch/v1", "autoscaling/v1", "autoscaling/v2", "policy/v1",
        "coordination.k8s.io/v1", "events.k8s.io/v1", "networking.k8s.io/v1",
        "rbac.authorization.k8s.io/v1", "apiextensions.k8s.io/v1", "discovery.k8s.io/v1",
        "admissionregistration.k8s.io/v1", "authentication.k8s.io/v1", "storage.k8s.io/v1",
        "authorization.k8s.io/v1", "certificates.k8s.io/v1", "scheduling.k8s.io/v1",
    } <= set(versions)  # fmt: skip


def test_version_and_cluster_info(admin: Kubectl) -> None:
    version = admin.json("version")["serverVersion"]
    assert version["gitVersion"].startswith("v1.37.") and version["major"] == "1"
    assert re.search(r"Server Version: v1\.37\.\d", admin("version").out)
    info = admin("cluster-info").out
    assert "Kubernetes control plane" in info and "is running at" in info


def test_config(admin: Kubectl, kubeconfig: str) -> None:
    view = admin.json("config", "view")
    assert view["users"][0]["user"] == {"token": "REDACTED"}
    assert admin("config", "current-context").out == "test\n"
    assert admin("config", "get-contexts", "-o", "name").out == "test\n"


EXPLAINED = {
    "kind": (["deployment"], ["GROUP:      apps", "KIND:       Deployment", "VERSION:    v1",
        "Deployment enables declarative updates for Pods and ReplicaSets."]),
    "field": (["pods.spec.containers.image"], ["FIELD: image <string>",
        "Container image name."]),
    "object field": (["deploy.spec.strategy.rollingUpdate"], [
        "FIELD: rollingUpdate <RollingUpdateDeployment>",
        "  maxSurge\t<IntOrString>", "  maxUnavailable\t<IntOrString>"]),
    "enum": (["pods.spec.restartPolicy"], ["ENUM:", "    Always", "    OnFailure"]),
    "required": (["cronjob.spec"], ["  schedule\t<string> -required-",
        "  jobTemplate\t<JobTemplateSpec> -required-"]),
    "version": (["hpa", "--api-version=autoscaling/v1"], ["VERSION:    v1",
        "  spec\t<HorizontalPodAutoscalerSpec>"]),
    "recursive": (["job.spec.template.spec", "--recursive"], [
        "  containers\t<[]Container> -required-", "    env\t<[]EnvVar>",
        "        configMapKeyRef\t<ConfigMapKeySelector>",
        "          key\t<string> -required-"]),
}  # fmt: skip


@pytest.mark.parametrize(("argv", "expected"), EXPLAINED.values(), ids=EXPLAINED.keys())
def test_explain(admin: Kubectl, argv: list[str], expected: list[str]) -> None:
    said = admin("explain", *argv).out
    assert [text for text in expected if text not in said] == []


def test_explain_of_nothing(admin: Kubectl) -> None:
    assert 'field "nonsense" does not exist' in admin.fails("explain", "pods.spec.nonsense")
    assert "doesn't have a resource type" in admin.fails("explain", "nonsense")


def test_explain_as_openapi_v2(admin: Kubectl) -> None:
    said = admin("explain", "pod.spec.nodeName", "--output=plaintext-openapiv2").out
    assert "nodeName <string>" in said


def test_describe(kubectl: Kubectl, objects: Objects) -> None:
    web = manifests.deployment()
    web["metadata"]["annotations"] = {"note": "words"}
    objects.create("deployments", web)
    said = kubectl("describe", "deployment", "web").out
    assert re.search(r"^Name: +web$", said, re.MULTILINE)
    assert re.search(r"^Selector: +app=web$", said, re.MULTILINE)
    assert re.search(
        r"^RollingUpdateStrategy: +25% max unavailable, 25% max surge$", said, re.MULTILINE
    )
    objects.create("configmaps", manifests.configmap("a", x="1"))
    said = kubectl("describe", "cm/a").out
    assert "x:\n----\n1\n" in said
    objects.create("services", manifests.service())
    assert re.search(r"TargetPort: +8080/TCP", kubectl("describe", "svc", "web").out)
    objects.create("secrets", manifests.obj("v1", "Secret", "s", stringData={"key": "12345"}))
    said = kubectl("describe", "secret", "s").out
    assert re.search(r"^key: +5 bytes$", said, re.MULTILINE) and "12345" not in said
    objects.create("pods", manifests.pod("one", app="web"))
    said = kubectl("describe", "pods", "-l", "app=web").out
    assert re.search(r"^Status: +Pending$", said, re.MULTILINE)
    assert "kube-api-access-" in said and "QoS Class:" in said
    kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    assert re.search(r"pods +\[\] +\[\] +\[get\]", kubectl("describe", "role", "r").out)
    assert '(NotFound): pods "none" not found' in kubectl.fails("describe", "pod", "none")


def test_describe_of_the_cluster(admin: Kubectl, namespace: str) -> None:
    said = admin("describe", "namespace", namespace).out
    assert re.search(r"^Status: +Active$", said, re.MULTILINE) and "No resource quota." in said
    said = admin("describe", "clusterrole", "view").out
    assert re.search(r"configmaps +\[\] +\[\] +\[get list watch\]", said)


def event(involved: manifests.Obj, name: str, *, reason: str, message: str) -> manifests.Obj:
    reference = {"apiVersion": involved["apiVersion"], "kind": involved["kind"]}
    metadata = involved["metadata"]
    reference |= {key: metadata[key] for key in ("name", "namespace", "uid")}
    return manifests.obj(
        "v1",
        "Event",
        name,
        involvedObject=reference,
        reason=reason,
        message=message,
        type="Warning" if reason == "Bad" else "Normal",
        source={"component": "tests"},
        firstTimestamp="2026-01-02T03:04:05Z",
        lastTimestamp="2026-01-02T03:04:05Z",
        count=3,
    )


def test_events(kubectl: Kubectl, objects: Objects) -> None:
    about = objects.create("configmaps", manifests.configmap("a"))
    objects.create("events", event(about, "a.1", reason="Good", message="went well"))
    objects.create("events", event(about, "a.2", reason="Bad", message="went wrong"))
    rows = kubectl("events", "--for=configmap/a").rows
    assert rows[0] == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert {row[-1] for row in rows[1:]} == {"well", "wrong"}
    only = kubectl("events", "--types=Warning", "--no-headers").lines
    assert len(only) == 1 and "ConfigMap/a" in only[0]
    listed = kubectl("get", "events", "--field-selector=reason=Good").rows
    assert listed[0] == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert listed[1][1:] == ["Normal", "Good", "configmap/a", "went", "well"]
    newer = kubectl("get", "events.v1.events.k8s.io", "-o", "jsonpath={.items[*].note}").out
    assert newer == "went well went wrong"
    said = kubectl("describe", "cm", "a").out
    assert re.search(r"Warning +Bad +.*\(x3 over .*\) +tests +went wrong", said)


def test_custom_resources(kubectl: Kubectl, objects: Objects, group: str) -> None:
    kubectl("wait", "crd", f"widgets.{group}", "--for=condition=Established", "--timeout=30s")
    said = kubectl("apply", "-f", "-", stdin=manifests.widget(group, size=3))
    assert said.out == f"widget.{group}/w created\n"
    stored = objects.get(f"{group}/v1", "widgets", "w")
    assert stored["spec"] == {"size": 3, "colour": "red"}
    assert stored["metadata"]["generation"] == 1
    said = kubectl("apply", "-f", "-", stdin=manifests.widget(group, size=4))
    assert said.out == f"widget.{group}/w configured\n"
    name = f"widgets.{group}"
    assert kubectl("get", name).rows[0] == ["NAME", "SIZE", "PHASE", "AGE"]
    assert kubectl("get", name, "-o", "wide").rows[1][:3] == ["w", "4", "red"]
    patch = '{"status":{"phase":"Made","conditions":[{"type":"Ready","status":"True"}]}}'
    kubectl("patch", name, "w", "--subresource=status", "--type=merge", "-p", patch)
    assert kubectl("get", name).rows[1][:3] == ["w", "4", "Made"]
    met = kubectl("wait", f"{name}/w", "--for=condition=Ready", "--timeout=30s")
    assert met.out == f"widget.{group}/w condition met\n"
    assert kubectl("scale", name, "w", "--replicas=5").out == f"widget.{group}/w scaled\n"
    assert objects.get(f"{group}/v1", "widgets", "w")["spec"]["replicas"] == 5
    said = kubectl("describe", name, "w").out
    assert re.search(r"^Spec:\n  Colour: +red\n  Replicas: +5\n  Size: +4$", said, re.MULTILINE)
    kubectl("edit", name, "w", env={"KUBE_EDITOR": "sed -i s/colour:.red/colour:\\ blue/"})
    assert objects.get(f"{group}/v1", "widgets", "w")["spec"]["colour"] == "blue"
    assert kubectl("delete", name, "--all").out.startswith(f'widget.{group} "w" deleted')


def test_custom_resources_in_discovery(kubectl: Kubectl, group: str) -> None:
    row = kubectl("api-resources", f"--api-group={group}").rows[1]
    assert row == ["widgets", "wd", f"{group}/v1", "true", "Widget"]
    assert f"{group}/v1" in kubectl("api-versions").lines
    said = eventually(lambda: kubectl.run("explain", f"widgets.{group}").out)
    assert "A widget of the tests." in said and f"GROUP:      {group}" in said
    said = kubectl("explain", f"widgets.{group}.spec").out
    assert "  size\t<integer> -required-\n    How big it is." in said
    said = kubectl("explain", f"widgets.{group}", "--recursive").out
    assert "    parts\t<[]Object>\n      name\t<string>" in said


REFUSED: dict[str, tuple[manifests.Obj, list[str]]] = {
    "too small": ({"size": 0}, ["spec.size", "should be greater than or equal to 1"]),
    "missing": ({"colour": "red"}, ["spec.size: Required value"]),
    "not in the list": (
        {"size": 1, "colour": "green"},
        ['spec.colour: Unsupported value: "green": supported values: "red", "blue"'],
    ),
    "wrong type": (
        {"size": "big"},
        ['spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'],
    ),
    "unknown field": ({"size": 1, "weight": 2}, ['unknown field "spec.weight"']),
}


def test_custom_resources_refused(kubectl: Kubectl, group: str) -> None:
    for name, (spec, messages) in REFUSED.items():
        refused = kubectl.fails("create", "-f", "-", stdin=manifests.widget(group, **spec))
        for message in messages:
            assert message in refused, name


def test_custom_resources_by_short_name_and_category(kubectl: Kubectl, group: str) -> None:
    kubectl("apply", "--server-side", "-f", "-", stdin=manifests.widget(group, size=1))
    assert kubectl("get", f"wd.{group}", "-o", "name").out == f"widget.{group}/w\n"
    listed = kubectl("get", "gadgets", "-o", "name").lines
    assert f"widget.{group}/w" in listed


def test_definition_goes_with_its_objects(kubectl: Kubectl, cluster: Objects, unique: str) -> None:
    group = f"h{unique}.example.test"
    kubectl("create", "-f", "-", stdin=manifests.widget_definition(group))
    kubectl("wait", "crd", f"widgets.{group}", "--for=condition=Established", "--timeout=30s")
    eventually(lambda: cluster.backend.request("GET", f"/apis/{group}/v1/widgets").code == 200)
    kubectl("create", "-f", "-", stdin=manifests.widget(group, size=1))
    kubectl("delete", "crd", f"widgets.{group}", "--timeout=30s")
    eventually(lambda: cluster.backend.request("GET", f"/apis/{group}/v1/widgets").code == 404)


def test_proxy(kubectl: Kubectl) -> None:
    with kubectl.running("proxy", "--port=0") as output:
        address = output.until("Starting to serve on").split()[-1]
        with urllib.request.urlopen(f"http://{address}/version", timeout=30) as answer:
            assert b'"gitVersion"' in answer.read()
