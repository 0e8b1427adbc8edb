"""Discovery and OpenAPI documents: the shapes that clients read."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from corral.cluster.apiserver.http.discovery import Discovery
from corral.cluster.apiserver.http.openapi.v3 import OpenApi
from corral.cluster.apiserver.resources import Catalog, ResourceInfo, Subresource
from corral.kube.types import Obj

GROUP = "example.test"
SCHEMA: Obj = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
    "x-kubernetes-group-version-kind": [{"group": GROUP, "version": "v1", "kind": "Widget"}],
}


@pytest.fixture
def catalog() -> Catalog:
    made = Catalog()
    scale = Subresource("scale", "autoscaling", "v1", "Scale", ("get", "patch", "update"))
    made.add(
        ResourceInfo(
            GROUP, "v1", "widgets", "widget", "Widget", True, ("wd",), ("all",),
            subresources={"scale": scale}, list_kind="WidgetList", custom=True,
        )
    )  # fmt: skip
    return made


def read(body: bytes | None) -> Any:
    assert body is not None
    return orjson.loads(body)


def test_resource_list(catalog: Catalog) -> None:
    found = read(Discovery(catalog).resource_list("apps", "v1"))
    assert found["kind"] == "APIResourceList" and found["groupVersion"] == "apps/v1"
    named = {r["name"]: r for r in found["resources"]}
    assert list(named) == sorted(named)
    deployments = named["deployments"]
    assert deployments["singularName"] == "deployment" and deployments["shortNames"] == ["deploy"]
    assert deployments["categories"] == ["all"] and deployments["namespaced"] is True
    assert deployments["verbs"] == [
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    ]  # fmt: skip
    assert deployments["storageVersionHash"]
    scale = named["deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert "group" not in named["deployments/status"]


def test_groups(catalog: Catalog) -> None:
    discovery = Discovery(catalog)
    groups = {g["name"]: g for g in read(discovery.group_list())["groups"]}
    assert "" not in groups
    assert groups["autoscaling"]["preferredVersion"] == {
        "groupVersion": "autoscaling/v2", "version": "v2",
    }  # fmt: skip
    assert [v["version"] for v in groups["autoscaling"]["versions"]] == ["v2", "v1"]
    assert read(discovery.group("apps"))["kind"] == "APIGroup"
    assert discovery.group("") is None and discovery.group("nothing.test") is None
    assert discovery.resource_list("apps", "v9") is None


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_aggregated(catalog: Catalog, version: str) -> None:
    found = read(Discovery(catalog).aggregated(core=False, version=version))
    assert found["kind"] == "APIGroupDiscoveryList"
    assert found["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    (group,) = [g for g in found["items"] if g["metadata"]["name"] == GROUP]
    (served,) = group["versions"]
    assert served["version"] == "v1" and served["freshness"] == "Current"
    (widgets,) = served["resources"]
    assert widgets["resource"] == "widgets" and widgets["scope"] == "Namespaced"
    assert widgets["singularResource"] == "widget" and widgets["shortNames"] == ["wd"]
    assert widgets["responseKind"] == {"group": GROUP, "version": "v1", "kind": "Widget"}
    assert widgets["subresources"][0]["responseKind"]["kind"] == "Scale"
    core = read(Discovery(catalog).aggregated(core=True, version=version))
    assert [v["version"] for v in core["items"][0]["versions"]] == ["v1"]


def test_documents_follow_the_catalog(catalog: Catalog) -> None:
    discovery = Discovery(catalog)
    assert GROUP.encode() in discovery.group_list()
    catalog.remove(GROUP, "widgets")
    assert GROUP.encode() not in discovery.group_list()
    assert discovery.resource_list(GROUP, "v1") is None


@pytest.fixture
def openapi(catalog: Catalog) -> OpenApi:
    return OpenApi(catalog, lambda info: SCHEMA if info.custom else None)


def test_index_names_every_document_with_a_hash(openapi: OpenApi, catalog: Catalog) -> None:
    paths = read(openapi.index())["paths"]
    assert {"api/v1", "apis/apps/v1", f"apis/{GROUP}/v1"} <= set(paths)
    for path, entry in paths.items():
        url, _, digest = entry["serverRelativeURL"].partition("?hash=")
        assert url == f"/openapi/v3/{path}" and len(digest) == 64
    before = paths[f"apis/{GROUP}/v1"], paths["apis/apps/v1"]
    catalog.add(ResourceInfo(GROUP, "v1", "gadgets", "gadget", "Gadget", True, custom=True))
    after = read(openapi.index())["paths"]
    assert after[f"apis/{GROUP}/v1"] != before[0] and after["apis/apps/v1"] == before[1]


def test_document_is_whole(openapi: OpenApi) -> None:
    found = read(openapi.document("apis/apps/v1"))
    assert found["openapi"].startswith("3.0")
    schemas = found["components"]["schemas"]
    deployment = schemas["io.k8s.api.apps.v1.Deployment"]
    assert deployment["x-kubernetes-group-version-kind"] == [
        {"group": "apps", "version": "v1", "kind": "Deployment"}
    ]
    assert not list(_dangling(found, schemas))
    create = found["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"]["post"]
    assert create["x-kubernetes-action"] == "post"
    assert create["x-kubernetes-group-version-kind"]["kind"] == "Deployment"
    assert "fieldValidation" in {p["name"] for p in create["parameters"]}
    patch = found["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "application/apply-patch+yaml" in patch["requestBody"]["content"]


def _dangling(node: Any, schemas: Obj) -> Any:
    """References that lead nowhere."""
    if isinstance(node, dict):
        target = node.get("$ref")
        if isinstance(target, str):
            name = target.removeprefix("#/components/schemas/")
            if name not in schemas:
                yield target
        for value in node.values():
            yield from _dangling(value, schemas)
    elif isinstance(node, list):
        for value in node:
            yield from _dangling(value, schemas)


def test_custom_document(openapi: OpenApi) -> None:
    found = read(openapi.document(f"apis/{GROUP}/v1"))
    schemas = found["components"]["schemas"]
    (name,) = [n for n in schemas if n.endswith(".Widget")]
    assert schemas[name]["properties"]["spec"] == SCHEMA["properties"]["spec"]
    assert any(n.endswith(".WidgetList") for n in schemas)
    assert not list(_dangling(found, schemas))


@pytest.mark.parametrize("path", ["api/v9", "apis/nothing.test/v1", "x/v1", "apis/v1", ""])
def test_documents_that_are_not_there(openapi: OpenApi, path: str) -> None:
    assert openapi.document(path) is None


def test_version_two_has_everything(openapi: OpenApi) -> None:
    found = read(openapi.v2(protobuf=False))
    assert found["swagger"] == "2.0"
    assert "io.k8s.api.core.v1.Pod" in found["definitions"]
    assert "/api/v1/namespaces/{namespace}/pods" in found["paths"]
    container = found["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert container["x-kubernetes-patch-merge-key"] == "name"
    assert openapi.v2(protobuf=True)[:1] == b"\x0a"
