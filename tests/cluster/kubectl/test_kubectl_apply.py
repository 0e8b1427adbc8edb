"""`kubectl apply` on the client and on the server, diff, prune, kustomize and validation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cluster import manifests
from tests.cluster.kubectl.runner import Kubectl
from tests.cluster.objects import Objects

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def test_client_side(kubectl: Kubectl, objects: Objects) -> None:
    first = manifests.configmap("a", x="1", y="2")
    assert kubectl("apply", "-f", "-", stdin=first).out == "configmap/a created\n"
    assert kubectl("apply", "-f", "-", stdin=first).out == "configmap/a unchanged\n"
    objects.patch("v1", "configmaps", "a", {"data": {"z": "other"}})
    second = manifests.configmap("a", x="9")
    assert kubectl("apply", "-f", "-", stdin=second).out == "configmap/a configured\n"
    stored = objects.get("v1", "configmaps", "a")
    assert stored["data"] == {"x": "9", "z": "other"}
    assert json.loads(stored["metadata"]["annotations"][LAST_APPLIED])["data"] == {"x": "9"}


def test_client_side_merges_lists_by_name(kubectl: Kubectl, objects: Objects) -> None:
    web = manifests.deployment()
    containers = web["spec"]["template"]["spec"]["containers"]
    containers[0]["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    kubectl("apply", "-f", "-", stdin=web)
    kubectl("set", "env", "deployment/web", "C=3")
    containers[0]["env"] = [{"name": "B", "value": "9"}]
    containers.append({"name": "side", "image": "example.test/side:1"})
    assert kubectl("apply", "-f", "-", stdin=web).out == "deployment.apps/web configured\n"
    stored = objects.get("apps/v1", "deployments", "web")
    names = [container["name"] for container in stored["spec"]["template"]["spec"]["containers"]]
    assert names == ["main", "side"]
    env = stored["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {entry["name"]: entry["value"] for entry in env} == {"B": "9", "C": "3"}


def test_client_side_keeps_a_service_address(kubectl: Kubectl, objects: Objects) -> None:
    web = manifests.service()
    kubectl("apply", "-f", "-", stdin=web)
    address = objects.get("v1", "services", "web")["spec"]["clusterIP"]
    web["spec"]["ports"] = [{"port": 81, "name": "other"}]
    assert kubectl("apply", "-f", "-", stdin=web).out == "service/web configured\n"
    spec = objects.get("v1", "services", "web")["spec"]
    assert spec["clusterIP"] == address
    assert spec["ports"] == [{"name": "other", "port": 81, "protocol": "TCP", "targetPort": 81}]


def test_client_side_on_what_was_created_otherwise(kubectl: Kubectl, objects: Objects) -> None:
    kubectl("create", "configmap", "a", "--from-literal=x=1")
    said = kubectl("apply", "-f", "-", stdin=manifests.configmap("a", x="2"))
    assert "missing the kubectl.kubernetes.io/last-applied-configuration" in said.err
    assert said.out == "configmap/a configured\n"


def test_last_applied_commands(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("apply", "-f", "-", stdin=manifests.configmap("a", x="1"))
    viewed = yaml.safe_load(kubectl("apply", "view-last-applied", "configmap/a").out)
    assert viewed["data"] == {"x": "1"}
    file = tmp_path / "a.json"
    file.write_text(json.dumps(manifests.configmap("a", x="2")))
    said = kubectl("apply", "set-last-applied", "-f", str(file))
    assert said.out == "configmap/a configured\n"
    again = kubectl("apply", "view-last-applied", "configmap/a", "-o", "json").json()
    assert again["data"] == {"x": "2"}


def server_side(kubectl: Kubectl, obj: manifests.Obj, *argv: str, code: int = 0) -> str:
    said = kubectl("apply", "--server-side", *argv, "-f", "-", stdin=obj, code=code)
    return said.out if code == 0 else said.err


def test_server_side(kubectl: Kubectl, objects: Objects) -> None:
    first = manifests.configmap("a", x="1", y="2")
    applied = "configmap/a serverside-applied\n"
    assert server_side(kubectl, first) == applied
    version = objects.get("v1", "configmaps", "a")["metadata"]["resourceVersion"]
    assert server_side(kubectl, first) == applied
    stored = objects.get("v1", "configmaps", "a")
    assert stored["metadata"]["resourceVersion"] == version
    (entry,) = stored["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("kubectl", "Apply")
    server_side(kubectl, manifests.configmap("a", z="3"), "--field-manager=other")
    server_side(kubectl, manifests.configmap("a", x="1"))
    assert objects.get("v1", "configmaps", "a")["data"] == {"x": "1", "z": "3"}


def test_server_side_conflict(kubectl: Kubectl, objects: Objects) -> None:
    server_side(kubectl, manifests.configmap("a", x="1"), "--field-manager=first")
    second = manifests.configmap("a", x="2")
    refused = server_side(kubectl, second, "--field-manager=second", code=1)
    assert 'Apply failed with 1 conflict: conflict with "first": .data.x' in refused
    assert objects.get("v1", "configmaps", "a")["data"] == {"x": "1"}
    server_side(kubectl, second, "--field-manager=second", "--force-conflicts")
    stored = objects.get("v1", "configmaps", "a")
    assert stored["data"] == {"x": "2"}
    assert [entry["manager"] for entry in stored["metadata"]["managedFields"]] == ["second"]


def test_server_side_conflict_with_updates(kubectl: Kubectl, objects: Objects) -> None:
    web = manifests.deployment()
    server_side(kubectl, web)
    kubectl("set", "image", "deployment/web", "main=example.test/web:2")
    kubectl("scale", "deployment/web", "--replicas=1")
    refused = server_side(kubectl, web, code=1)
    assert "Apply failed with 2 conflicts" in refused
    assert 'conflicts with "kubectl" with subresource "scale" using apps/v1' in refused
    assert '.spec.template.spec.containers[name="main"].image' in refused
    assert 'conflicts with "kubectl-set" using apps/v1' in refused


def test_server_side_after_client_side(kubectl: Kubectl, objects: Objects) -> None:
    kubectl("apply", "-f", "-", stdin=manifests.configmap("a", x="1", y="2"))
    server_side(kubectl, manifests.configmap("a", x="3"))
    stored = objects.get("v1", "configmaps", "a")
    assert stored["data"] == {"x": "3"}
    managers = {(e["manager"], e["operation"]) for e in stored["metadata"]["managedFields"]}
    assert managers == {("kubectl", "Apply"), ("kubectl-last-applied", "Apply")}


def test_dry_runs_store_nothing(kubectl: Kubectl, objects: Objects) -> None:
    made = manifests.configmap("a", x="1")
    said = kubectl("apply", "-f", "-", "--dry-run=server", stdin=made)
    assert said.out == "configmap/a created (server dry run)\n"
    said = kubectl("apply", "-f", "-", "--dry-run=client", stdin=made)
    assert said.out == "configmap/a created (dry run)\n"
    said = kubectl("apply", "--server-side", "-f", "-", "--dry-run=server", stdin=made)
    assert said.out == "configmap/a serverside-applied (server dry run)\n"
    whole = kubectl.json("apply", "-f", "-", "--dry-run=server", stdin=made)
    assert whole["metadata"]["uid"] and whole["metadata"]["creationTimestamp"]
    assert objects.find("v1", "configmaps", "a") is None


def test_diff(kubectl: Kubectl, objects: Objects) -> None:
    made = manifests.configmap("a", x="1")
    created = kubectl("diff", "-f", "-", stdin=made, code=1).out
    assert '+  x: "1"' in created and "+kind: ConfigMap" in created
    kubectl("apply", "-f", "-", stdin=made)
    assert kubectl("diff", "-f", "-", stdin=made).out == ""
    changed = kubectl("diff", "-f", "-", stdin=manifests.configmap("a", x="2"), code=1).lines
    assert '-  x: "1"' in changed and '+  x: "2"' in changed
    server = kubectl(
        "diff", "--server-side", "--force-conflicts", "-f", "-",
        stdin=manifests.configmap("a", x="3"), code=1,
    ).lines  # fmt: skip
    assert '+  x: "3"' in server
    assert objects.get("v1", "configmaps", "a")["data"] == {"x": "1"}


def test_diff_hides_secrets(kubectl: Kubectl) -> None:
    secret = manifests.obj("v1", "Secret", "s", stringData={"k": "hidden"})
    shown = kubectl("diff", "-f", "-", stdin=secret, code=1).out
    assert "***" in shown and "hidden" not in shown


def test_prune(kubectl: Kubectl, objects: Objects) -> None:
    labels = {"app": "pruned"}
    both = [manifests.configmap(name, labels, x="1") for name in ("keep", "drop")]
    secret = manifests.obj("v1", "Secret", "spare", labels=labels)
    kubectl("apply", "-f", "-", stdin=[*both, secret])
    said = kubectl(
        "apply", "-f", "-", "--prune", "-l", "app=pruned",
        "--prune-allowlist=core/v1/ConfigMap", stdin=both[:1],
    )  # fmt: skip
    assert said.lines == ["configmap/keep unchanged", "configmap/drop pruned"]
    assert objects.find("v1", "configmaps", "drop") is None
    assert objects.get("v1", "secrets", "spare")


def test_prune_by_applyset(kubectl: Kubectl, objects: Objects) -> None:
    env = {"KUBECTL_APPLYSET": "true"}
    both = [manifests.configmap(name, x="1") for name in ("keep", "drop")]
    argv = ["apply", "--server-side", "--prune", "--applyset=mine", "-f", "-"]
    kubectl(*argv, stdin=both, env=env)
    said = kubectl(*argv, stdin=both[:1], env=env)
    assert said.lines == ["configmap/keep serverside-applied", "configmap/drop pruned"]
    parent = objects.get("v1", "secrets", "mine")["metadata"]
    member = objects.get("v1", "configmaps", "keep")["metadata"]["labels"]
    assert member["applyset.kubernetes.io/part-of"] == parent["labels"]["applyset.kubernetes.io/id"]


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    base, overlay = tmp_path / "base", tmp_path / "overlay"
    base.mkdir()
    overlay.mkdir()
    (base / "web.json").write_text(json.dumps(manifests.deployment()))
    (base / "kustomization.yaml").write_text("resources: [web.json]\n")
    (overlay / "kustomization.yaml").write_text(
        "resources: [../base]\n"
        "namePrefix: live-\n"
        "configMapGenerator: [{name: settings, literals: [mode=live]}]\n"
        "images: [{name: example.test/web, newTag: '7'}]\n"
    )
    return overlay


def test_kustomize(kubectl: Kubectl, objects: Objects, overlay: Path) -> None:
    printed = list(yaml.safe_load_all(kubectl("kustomize", str(overlay)).out))
    assert [made["kind"] for made in printed] == ["ConfigMap", "Deployment"]
    said = kubectl("apply", "-k", str(overlay))
    generated = printed[0]["metadata"]["name"]
    assert said.lines == [f"configmap/{generated} created", "deployment.apps/live-web created"]
    assert objects.get("v1", "configmaps", generated)["data"] == {"mode": "live"}
    pod = objects.get("apps/v1", "deployments", "live-web")["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "example.test/web:7"
    assert kubectl("diff", "-k", str(overlay)).out == ""
    assert kubectl("delete", "-k", str(overlay)).out.count(" deleted") == 2


def test_folders_and_order(kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(
        yaml.safe_dump_all([manifests.configmap("b", x="1"), manifests.configmap("c", x="1")])
    )
    (tmp_path / "a.json").write_text(json.dumps(manifests.configmap("a", x="1")))
    deeper = tmp_path / "deeper"
    deeper.mkdir()
    (deeper / "d.yaml").write_text(yaml.safe_dump(manifests.configmap("d", x="1")))
    assert kubectl("apply", "-f", str(tmp_path)).lines == [
        "configmap/a created", "configmap/b created", "configmap/c created",
    ]  # fmt: skip
    assert kubectl("apply", "-R", "-f", str(tmp_path)).lines[-1] == "configmap/d created"


def test_validation(kubectl: Kubectl, objects: Objects) -> None:
    wrong = manifests.deployment()
    wrong["spec"]["nonsense"] = 1
    wrong["spec"]["template"]["spec"]["containers"][0]["imag"] = "x"
    refused = kubectl.fails("apply", "-f", "-", "--validate=strict", stdin=wrong)
    assert 'strict decoding error: unknown field "spec.nonsense"' in refused
    assert 'unknown field "spec.template.spec.containers[0].imag"' in refused
    assert kubectl.fails("create", "-f", "-", stdin=wrong).count("unknown field") == 2
    warned = kubectl("apply", "-f", "-", "--validate=warn", stdin=wrong)
    assert 'Warning: unknown field "spec.nonsense"' in warned.err
    assert warned.out == "deployment.apps/web created\n"
    ignored = kubectl("apply", "-f", "-", "--validate=ignore", stdin=wrong)
    assert (
        ignored.err == "" and "nonsense" not in objects.get("apps/v1", "deployments", "web")["spec"]
    )


def test_duplicate_fields(kubectl: Kubectl, namespace: str) -> None:
    raw = (
        '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"},"data":{}}'
    )
    path = f"/api/v1/namespaces/{namespace}/configmaps?fieldValidation=Strict"
    assert 'duplicate field "data"' in kubectl.fails("create", "--raw", path, "-f", "-", stdin=raw)


REFUSED = {
    "a wrong type": (
        manifests.deployment() | {"spec": {"replicas": "many"}},
        "cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    "a missing selector": (
        manifests.obj("apps/v1", "Deployment", "d", spec={"template": manifests.pod_template("d")}),
        "spec.selector: Required value",
    ),
    "a selector that does not match": (
        manifests.obj("apps/v1", "Deployment", "d", spec={
            "selector": {"matchLabels": {"app": "other"}},
            "template": manifests.pod_template("d"),
        }),
        "`selector` does not match template `labels`",
    ),
    "a pod without containers": (
        manifests.obj("v1", "Pod", "p", spec={"containers": []}),
        "spec.containers: Required value",
    ),
    "a port out of range": (
        manifests.obj("v1", "Service", "s", spec={"ports": [{"port": 70000}]}),
        "spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    "a bad label": (
        manifests.configmap("a", {"x": "not a value"}),
        "a valid label must be an empty string or consist of alphanumeric characters",
    ),
    "an unknown kind": (
        manifests.obj("v1", "Nonsense", "n"),
        'no matches for kind "Nonsense" in version "v1"',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("made", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(kubectl: Kubectl, made: manifests.Obj, message: str) -> None:
    assert message in kubectl.fails("apply", "-f", "-", stdin=made)


def test_immutable_fields(kubectl: Kubectl) -> None:
    web = manifests.deployment()
    kubectl("apply", "-f", "-", stdin=web)
    web["spec"]["selector"]["matchLabels"] = {"app": "other"}
    web["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    refused = kubectl.fails("apply", "-f", "-", stdin=web)
    assert 'The Deployment "web" is invalid: spec.selector: Invalid value' in refused
    assert "field is immutable" in refused
    fixed = manifests.configmap("a", x="1") | {"immutable": True}
    kubectl("apply", "-f", "-", stdin=fixed)
    fixed["data"] = {"x": "2"}
    assert "field is immutable when `immutable` is set" in kubectl.fails(
        "apply", "-f", "-", stdin=fixed
    )
