"""Behaviour that clients once found missing, kept here one case each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backends import Backend
from tests.cluster import manifests
from tests.cluster.objects import Objects, eventually

STRATEGIC = "application/strategic-merge-patch+json"
CURL = {"User-Agent": "curl/8.5.0"}


# -- strategic merge patches ---------------------------------------------------------------


@pytest.fixture
def deployment(objects: Objects) -> str:
    objects.create("deployments", manifests.deployment())
    return objects.path("apps/v1", "deployments", "web")


@pytest.mark.parametrize(
    ("patch", "shown", "why"),
    [
        ({"metadata": {"labels": "x"}}, "map[metadata:map[labels:x]]",
         "cannot restore map from string"),
        ({"metadata": {"finalizers": "x"}}, "map[metadata:map[finalizers:x]]",
         "cannot restore slice from string"),
        ({"metadata": "x"}, "map[metadata:x]", "cannot restore struct from: string"),
        ({"metadata": {"labels": {"a": 1}}}, "map[metadata:map[labels:map[a:1]]]",
         "cannot convert int64 to string"),
        ({"spec": {"replicas": 1.5}}, "map[spec:map[replicas:1.5]]",
         "cannot convert float64 to int32"),
        ({"spec": {"paused": 1}}, "map[spec:map[paused:1]]", "unrecognized type: bool"),
    ],
)  # fmt: skip
def test_strategic_patch_of_the_wrong_type(
    backend: Backend, deployment: str, patch: dict[str, Any], shown: str, why: str
) -> None:
    reply = backend.request("PATCH", deployment, patch, content_type=STRATEGIC)
    assert reply.code == 422
    assert reply.json()["message"] == f' "" is invalid: patch: Invalid value: "{shown}": {why}'


def test_strategic_patch_takes_whole_floats(backend: Backend, deployment: str) -> None:
    reply = backend.request(
        "PATCH", deployment, b'{"spec":{"replicas":2.0}}', content_type=STRATEGIC
    )
    assert (reply.code, reply.json()["spec"]["replicas"]) == (200, 2)


def test_strategic_patch_with_unknown_fields(backend: Backend, deployment: str) -> None:
    path = f"{deployment}?fieldValidation=Strict"
    reply = backend.request("PATCH", path, {"zz": 1, "aa": 2}, content_type=STRATEGIC)
    assert reply.json()["message"] == (
        ' "" is invalid: patch: Invalid value: "map[aa:2 zz:1]": '
        'strict decoding error: unknown field "aa", unknown field "zz"'
    )


# -- forms of answers ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "headers", "indented"),
    [
        ("", CURL, True),
        ("", {"User-Agent": "Mozilla/5.0 (X11)"}, True),
        ("", {"User-Agent": "kubectl/v1.37.1"}, False),
        ("?pretty=true", {"User-Agent": "kubectl/v1.37.1"}, True),
        ("?pretty=false", CURL, False),
    ],
)
def test_json_is_indented_for_people(
    backend: Backend, query: str, headers: dict[str, str], indented: bool
) -> None:
    for path in ("/api/v1/namespaces/default", "/api/v1/namespaces", "/api/v1/namespaces/none"):
        body = backend.request("GET", path + query, headers=headers).body
        assert body.startswith(b'{\n  "kind": "') is indented, path


# -- OpenAPI -------------------------------------------------------------------------------


def test_custom_kinds_offer_no_strategic_patch(backend: Backend, group: str) -> None:
    """kubectl apply sends what the document offers."""

    def patches() -> set[str]:
        reply = backend.request("GET", f"/openapi/v3/apis/{group}/v1")
        if reply.code != 200:
            return set()
        item = reply.json()["paths"][f"/apis/{group}/v1/namespaces/{{namespace}}/widgets/{{name}}"]
        return set(item["patch"]["requestBody"]["content"])

    assert {"application/json-patch+json", "application/merge-patch+json"} <= eventually(patches)
    assert STRATEGIC not in patches()


def test_openapi_v2_in_protobuf(backend: Backend) -> None:
    """The only form Go clients ask for, with no other to fall back to."""
    media = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    reply = backend.request("GET", "/openapi/v2", headers={"Accept": media})
    assert reply.code == 200
    assert reply.headers["Content-Type"].startswith("application/com.github.proto-openapi")
    assert reply.body.startswith(b"\x0a\x032.0")


def test_openapi_v2_is_version_2(backend: Backend) -> None:
    document = backend.request("GET", "/openapi/v2").json()
    item = document["paths"]["/api/v1/namespaces/{namespace}/configmaps"]
    parameters = item["post"]["parameters"]
    body = next(p for p in parameters if p.get("in") == "body")
    assert body["schema"] == {"$ref": "#/definitions/io.k8s.api.core.v1.ConfigMap"}
    assert item["get"]["responses"]["200"]["schema"] == {
        "$ref": "#/definitions/io.k8s.api.core.v1.ConfigMapList"
    }
    assert document["info"] == {"title": "Kubernetes", "version": "1.37"}


# -- custom kinds --------------------------------------------------------------------------


def test_deprecated_versions_warn(backend: Backend, cluster: Objects, unique: str) -> None:
    group = f"d{unique}.example.test"
    definition = manifests.widget_definition(group)
    newest = definition["spec"]["versions"][0]
    other = {**newest, "storage": False, "deprecated": True}
    definition["spec"]["versions"] += [
        {**other, "name": "v1beta1"},
        {**other, "name": "v1alpha1", "deprecationWarning": 'use "v1"'},
    ]
    cluster.create("customresourcedefinitions", definition)
    try:
        eventually(lambda: backend.request("GET", f"/apis/{group}/v1/widgets").code == 200)
        warnings = {
            version: backend.request("GET", f"/apis/{group}/{version}/widgets").headers.get(
                "Warning"
            )
            for version in ("v1", "v1beta1", "v1alpha1")
        }
    finally:
        name = f"widgets.{group}"
        cluster.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", name)
    assert warnings == {
        "v1": None,
        "v1beta1": f'299 - "{group}/v1beta1 Widget is deprecated; use {group}/v1 Widget"',
        "v1alpha1": '299 - "use \\"v1\\""',
    }


# -- services ------------------------------------------------------------------------------


def test_dry_run_does_not_look_at_addresses(objects: Objects) -> None:
    """Node ports are looked at even then."""

    def service(name: str, address: str, port: int | None = None) -> dict[str, Any]:
        ports = [{"port": 80} if port is None else {"port": 80, "nodePort": port}]
        spec = {"clusterIP": address, "ports": ports}
        if port is not None:
            spec["type"] = "NodePort"
        return {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec,
        }  # fmt: skip

    made = objects.create("services", service("a", "", 0))
    address, port = made["spec"]["clusterIP"], made["spec"]["ports"][0]["nodePort"]
    path = objects.path("v1", "services")
    tries = {
        "address, for real": (path, service("b", address)),
        "address, dry run": (f"{path}?dryRun=All", service("b", address)),
        "same name, dry run": (f"{path}?dryRun=All", service("a", address)),
        "port, dry run": (f"{path}?dryRun=All", service("b", "", port)),
    }
    codes = {name: objects.backend.request("POST", *sent).code for name, sent in tries.items()}
    assert codes == {
        "address, for real": 422,
        "address, dry run": 201,
        "same name, dry run": 409,
        "port, dry run": 422,
    }
