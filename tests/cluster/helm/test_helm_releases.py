"""The life of a release: install, look, upgrade, fail, roll back, uninstall."""

from __future__ import annotations

import base64

import pytest
import yaml

from tests.cluster.helm.runner import Helm
from tests.cluster.objects import Objects, contains, eventually


def greeting(objects: Objects) -> str:
    found: str = objects.get("v1", "configmaps", "r-web")["data"]["greeting"]
    return found


def test_charts_are_sound(helm: Helm, web: str, widgets: str) -> None:
    assert "2 chart(s) linted, 0 chart(s) failed" in helm("lint", web, widgets)
    rendered = list(yaml.safe_load_all(helm("template", "r", web, "--set", "extra=false")))
    assert {made["kind"] for made in rendered} == {
        "ConfigMap", "Secret", "ServiceAccount", "Role", "RoleBinding", "Service", "Deployment",
    }  # fmt: skip
    rendered = list(yaml.safe_load_all(helm("template", "r", widgets, "--include-crds")))
    assert [made["kind"] for made in rendered] == ["CustomResourceDefinition", "Widget"]


def test_template_against_the_server(helm: Helm, web: str) -> None:
    rendered = list(yaml.safe_load_all(helm("template", "r", web, "--validate")))
    assert len(rendered) == 8


def test_install(helm: Helm, web: str, objects: Objects) -> None:
    said = helm("install", "r", web, "--set", "greeting=hi")
    assert "STATUS: deployed" in said and "REVISION: 1" in said
    assert "hi from r on 1. Deployments are known." in said
    assert objects.names("v1", "configmaps") >= {"r-web", "r-web-extra"}
    stored = objects.get("apps/v1", "deployments", "r-web")
    assert contains(
        stored["metadata"],
        {
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "r"},
        },
    )
    assert stored["spec"]["template"]["spec"]["serviceAccountName"] == "r-web"
    secret = objects.get("v1", "secrets", "r-web")
    assert base64.b64decode(secret["data"]["password"]) == b"secret"
    record = objects.get("v1", "secrets", "sh.helm.release.v1.r.v1")
    assert record["type"] == "helm.sh/release.v1"
    assert record["metadata"]["labels"]["status"] == "deployed"


def test_look_at_a_release(helm: Helm, web: str) -> None:
    helm("install", "r", web, "--set", "replicas=0,greeting=hi", "--description", "first words")
    (listed,) = helm.json("list")
    assert contains(
        listed, {"name": "r", "revision": "1", "status": "deployed", "chart": "web-1.2.3"}
    )
    assert helm("list", "-q", "--filter", "nothing") == ""
    status = helm.json("status", "r")
    assert status["info"]["status"] == "deployed" and status["version"] == 1
    shown = helm("status", "r", "--show-resources")
    assert "==> v1/Deployment" in shown and "r-web-extra" in shown
    assert "DESIRED" not in shown.split("==> v1/Deployment")[1].split("==>")[0]
    assert helm.json("get", "values", "r") == {"greeting": "hi", "replicas": 0}
    assert helm.json("get", "values", "r", "--all")["image"] == "example.test/web:1"
    manifest = [made for made in yaml.safe_load_all(helm("get", "manifest", "r")) if made]
    assert len(manifest) == 8
    assert "hi from r" in helm("get", "notes", "r")
    assert helm.json("get", "metadata", "r")["appVersion"] == "4.5"


def test_upgrade_changes_adds_and_removes(helm: Helm, web: str, objects: Objects) -> None:
    helm("install", "r", web)
    objects.patch("apps/v1", "deployments", "r-web", {"metadata": {"annotations": {"by": "hand"}}})
    said = helm("upgrade", "r", web, "--set", "greeting=new,extra=false,image=example.test/web:2")
    assert 'Release "r" has been upgraded' in said
    assert greeting(objects) == "new"
    assert objects.find("v1", "configmaps", "r-web-extra") is None
    stored = objects.get("apps/v1", "deployments", "r-web")
    assert stored["metadata"]["annotations"]["by"] == "hand"
    (container,) = stored["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "example.test/web:2"
    assert container["env"] == [{"name": "GREETING", "value": "new"}]
    helm("upgrade", "r", web, "--reuse-values", "--set", "extra=true")
    assert objects.get("v1", "configmaps", "r-web-extra") and greeting(objects) == "new"
    history = helm.json("history", "r")
    assert [(entry["revision"], entry["status"]) for entry in history] == [
        (1, "superseded"),
        (2, "superseded"),
        (3, "deployed"),
    ]


def test_rollback(helm: Helm, web: str, objects: Objects) -> None:
    helm("install", "r", web, "--set", "greeting=one")
    helm("upgrade", "r", web, "--set", "greeting=two,extra=false")
    assert "Rollback was a success" in helm("rollback", "r", "1")
    assert greeting(objects) == "one"
    assert objects.get("v1", "configmaps", "r-web-extra")
    last = helm.json("history", "r")[-1]
    assert (last["revision"], last["description"]) == (3, "Rollback to 1")


def test_upgrade_that_fails(helm: Helm, web: str, objects: Objects) -> None:
    helm("install", "r", web, "--set", "greeting=one")
    refused = helm("upgrade", "r", web, "--set", "greeting=two,port=70000", code=1)
    assert 'Service "r-web" is invalid: [spec.ports[0].port: Invalid value: 70000' in refused
    assert [entry["status"] for entry in helm.json("history", "r")] == ["deployed", "failed"]
    assert helm.json("status", "r")["info"]["status"] == "failed"
    assert [entry["name"] for entry in helm.json("list", "--failed")] == ["r"]
    helm("rollback", "r")
    assert greeting(objects) == "one"
    assert [entry["status"] for entry in helm.json("history", "r")] == [
        "superseded",
        "failed",
        "deployed",
    ]


def test_install_that_fails_is_taken_back(helm: Helm, web: str, objects: Objects) -> None:
    helm("install", "r", web, "--set", "port=70000", "--atomic", "--timeout=20s", code=1)
    assert helm.json("list", "--all") == []
    assert eventually(lambda: "r-web" not in objects.names("v1", "configmaps"))


def test_upgrade_or_install(helm: Helm, web: str, objects: Objects) -> None:
    said = helm("upgrade", "--install", "r", web)
    assert 'Release "r" does not exist. Installing it now.' in said
    assert "REVISION: 2" in helm("upgrade", "--install", "r", web, "--set", "greeting=again")
    assert greeting(objects) == "again"
    refused = helm("upgrade", "none", web, code=1)
    assert '"none" has no deployed releases' in refused
    assert "cannot re-use a name that is still in use" in helm("install", "r", web, code=1)


def test_dry_runs(helm: Helm, web: str, objects: Objects) -> None:
    said = helm("install", "r", web, "--dry-run=server")
    assert "STATUS: pending-install" in said and "kind: Deployment" in said
    assert objects.names("apps/v1", "deployments") == set()
    helm("install", "r", web)
    assert 'greeting: "dry"' in helm(
        "upgrade", "r", web, "--set", "greeting=dry", "--dry-run=server"
    )
    assert greeting(objects) == "hello"


def test_uninstall(helm: Helm, web: str, objects: Objects) -> None:
    helm("install", "r", web)
    assert helm("uninstall", "r") == 'release "r" uninstalled\n'
    assert eventually(lambda: objects.names("apps/v1", "deployments") == set())
    assert objects.names("v1", "services") == set()
    assert objects.find("v1", "secrets", "sh.helm.release.v1.r.v1") is None
    assert "release: not found" in helm("status", "r", code=1)


def test_uninstall_that_keeps_history(helm: Helm, web: str, objects: Objects) -> None:
    helm("install", "r", web)
    helm("uninstall", "r", "--keep-history", "--wait", "--timeout=30s")
    assert objects.find("apps/v1", "deployments", "r-web") is None
    assert helm.json("history", "r")[0]["status"] == "uninstalled"
    assert [entry["name"] for entry in helm.json("list", "--uninstalled")] == ["r"]
    helm("rollback", "r", "1")
    assert greeting(objects) == "hello"


def test_objects_of_others_are_not_taken(helm: Helm, web: str, objects: Objects) -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "r-web"}}
    objects.create("configmaps", other)
    refused = helm("install", "r", web, code=1)
    assert 'ConfigMap "r-web" in namespace' in refused and "invalid ownership metadata" in refused
    assert "STATUS: deployed" in helm("install", "r", web, "--take-ownership")


def test_values_that_the_chart_refuses(helm: Helm, web: str) -> None:
    assert "values don't meet the specifications" in helm(
        "install", "r", web, "--set", "replicas=-1", code=1
    )


@pytest.mark.usefixtures("no_widgets")
def test_chart_with_a_definition(
    helm: Helm, widgets: str, objects: Objects, cluster: Objects
) -> None:
    helm("install", "r", widgets)
    stored = objects.get("charts.example.test/v1", "widgets", "r")
    assert stored["spec"] == {"size": 3, "colour": "red"}
    definition = cluster.get(
        "apiextensions.k8s.io/v1", "customresourcedefinitions", "widgets.charts.example.test"
    )
    assert "meta.helm.sh/release-name" not in definition["metadata"].get("annotations", {})
    helm("upgrade", "r", widgets, "--set", "size=4")
    assert objects.get("charts.example.test/v1", "widgets", "r")["spec"]["size"] == 4
    refused = helm("upgrade", "r", widgets, "--set", "size=40", code=1)
    assert "spec.size in body should be less than or equal to 10" in refused
    helm("rollback", "r", "1")
    assert objects.get("charts.example.test/v1", "widgets", "r")["spec"]["size"] == 3
    helm("uninstall", "r")
    assert objects.names("charts.example.test/v1", "widgets") == set()


@pytest.fixture
def no_widgets(cluster: Objects) -> None:
    """No definition is left from another case."""
    where = ("apiextensions.k8s.io/v1", "customresourcedefinitions", "widgets.charts.example.test")
    cluster.delete(*where)
    eventually(lambda: cluster.find(*where) is None)
