from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from kube_fake_api import FakeApi, answer, refuse

import corral.kube
from corral.kube import KubeClient, errors, resource
from corral.kube.resources import BUILTIN, CONFIGMAPS, DEPLOYMENTS, NAMESPACES, PODS, Resource

Serve = Callable[..., Awaitable[FakeApi]]
Call = Callable[[KubeClient], Awaitable[Any]]

OBJ = {"metadata": {"name": "a", "namespace": "own"}}
STAMPED = {"apiVersion": "v1", "kind": "ConfigMap", **OBJ}
OPTIONS = {"kind": "DeleteOptions", "apiVersion": "v1"}

# name: (call, method, path, query, content type, body)
CALLS: dict[str, tuple[Call, str, str, list[tuple[str, str]], str | None, Any]] = {
    "get in the default namespace": (
        lambda c: c.get(CONFIGMAPS, "a"),
        "GET", "/api/v1/namespaces/team/configmaps/a", [], None, None,
    ),
    "get a version of a subresource": (
        lambda c: c.get(DEPLOYMENTS, "a", namespace="n", subresource="scale", resource_version="0"),
        "GET", "/apis/apps/v1/namespaces/n/deployments/a/scale", [("resourceVersion", "0")],
        None, None,
    ),
    "get cluster-scoped": (
        lambda c: c.get(NAMESPACES, "a", namespace="ignored"),
        "GET", "/api/v1/namespaces/a", [], None, None,
    ),
    "odd names are escaped": (
        lambda c: c.get(NAMESPACES, "a/b?c"), "GET", "/api/v1/namespaces/a%2Fb%3Fc", [], None, None,
    ),
    "create in the object's namespace": (
        lambda c: c.create(CONFIGMAPS, OBJ),
        "POST", "/api/v1/namespaces/own/configmaps", [], "application/json", STAMPED,
    ),
    "create with all options": (
        lambda c: c.create(CONFIGMAPS, OBJ, namespace="n", field_manager="me",
                           field_validation="Strict", dry_run=True),
        "POST", "/api/v1/namespaces/n/configmaps",
        [("fieldManager", "me"), ("fieldValidation", "Strict"), ("dryRun", "All")],
        "application/json", STAMPED,
    ),
    "create a subresource": (
        lambda c: c.create_subresource(PODS, "a", subresource="binding", body={"x": 1}),
        "POST", "/api/v1/namespaces/team/pods/a/binding", [], "application/json", {"x": 1},
    ),
    "replace": (
        lambda c: c.replace(CONFIGMAPS, OBJ),
        "PUT", "/api/v1/namespaces/own/configmaps/a", [], "application/json", STAMPED,
    ),
    "replace scale keeps its own type": (
        lambda c: c.replace(DEPLOYMENTS, OBJ, subresource="scale"),
        "PUT", "/apis/apps/v1/namespaces/own/deployments/a/scale", [], "application/json", OBJ,
    ),
    "merge patch": (
        lambda c: c.patch(CONFIGMAPS, "a", patch={"x": 1}),
        "PATCH", "/api/v1/namespaces/team/configmaps/a", [], "application/merge-patch+json",
        {"x": 1},
    ),
    "JSON patch of status": (
        lambda c: c.patch(PODS, "a", patch=[{"op": "remove", "path": "/x"}], kind="json",
                          subresource="status"),
        "PATCH", "/api/v1/namespaces/team/pods/a/status", [], "application/json-patch+json",
        [{"op": "remove", "path": "/x"}],
    ),
    "strategic patch": (
        lambda c: c.patch(PODS, "a", patch={}, kind="strategic"),
        "PATCH", "/api/v1/namespaces/team/pods/a", [], "application/strategic-merge-patch+json", {},
    ),
    "apply": (
        lambda c: c.apply(CONFIGMAPS, OBJ, field_manager="me", dry_run=True),
        "PATCH", "/api/v1/namespaces/own/configmaps/a",
        [("fieldManager", "me"), ("dryRun", "All"), ("force", "true")],
        "application/apply-patch+yaml", STAMPED,
    ),
    "apply without force": (
        lambda c: c.apply(CONFIGMAPS, OBJ, field_manager="me", force=False),
        "PATCH", "/api/v1/namespaces/own/configmaps/a", [("fieldManager", "me")],
        "application/apply-patch+yaml", STAMPED,
    ),
    "delete": (
        lambda c: c.delete(CONFIGMAPS, "a"),
        "DELETE", "/api/v1/namespaces/team/configmaps/a", [], None, None,
    ),
    "delete with all options": (
        lambda c: c.delete(PODS, "a", propagation="Foreground", grace_seconds=0, uid="u",
                           resource_version="5", dry_run=True),
        "DELETE", "/api/v1/namespaces/team/pods/a", [], "application/json",
        {**OPTIONS, "propagationPolicy": "Foreground", "gracePeriodSeconds": 0,
         "preconditions": {"uid": "u", "resourceVersion": "5"}, "dryRun": ["All"]},
    ),
    "delete a collection": (
        lambda c: c.delete_collection(PODS, "n", label_selector="a=b,c", field_selector="x=y"),
        "DELETE", "/api/v1/namespaces/n/pods",
        [("labelSelector", "a=b,c"), ("fieldSelector", "x=y")], None, None,
    ),
    "raw": (
        lambda c: c.request("POST", "/x?a=1", query=[("b", "2")], body=["z"]),
        "POST", "/x", [("a", "1"), ("b", "2")], "application/json", ["z"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CALLS)
async def test_what_goes_over_the_wire(serve: Serve, case: str) -> None:
    call, method, path, query, content_type, body = CALLS[case]

    async def ok(request: web.Request) -> web.StreamResponse:
        return answer({"kind": "Answer"})

    api = await serve(ok)
    await call(api.client(namespace="team"))
    [seen] = api.seen
    assert (seen.method, seen.path, seen.query) == (method, path, query)
    assert (seen.json if seen.body else None) == body
    if content_type:
        assert seen.headers["Content-Type"] == content_type


async def test_mistakes_are_value_errors_before_any_request(serve: Serve) -> None:
    async def never(request: web.Request) -> web.StreamResponse:
        raise AssertionError

    client = (await serve(never)).client()
    with pytest.raises(ValueError, match="needs a namespace"):
        await client.delete_collection(PODS)
    with pytest.raises(ValueError, match="empty name"):
        await client.get(PODS, "")
    with pytest.raises(ValueError, match=r"no metadata\.name"):
        await client.apply(PODS, {}, field_manager="me")
    with pytest.raises(ValueError, match="empty command"):
        client.exec("a", [])


# --- lists ---------------------------------------------------------------------------------------


class Pager:
    """Serves names in pages; ``expire_at`` makes the token of that page expire."""

    def __init__(self, *names: str, expire_at: int | None = None) -> None:
        self.names = list(names)
        self.expire_at = expire_at

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        start = int(request.query.get("continue", 0))
        if start and start == self.expire_at:
            self.names.append("new")
            return refuse(410, "Expired")
        size = int(request.query.get("limit", 0)) or len(self.names)
        page = self.names[start : start + size]
        end = start + size
        metadata: dict[str, Any] = {"resourceVersion": str(100 + len(self.names))}
        if end < len(self.names):
            metadata |= {"continue": str(end), "remainingItemCount": len(self.names) - end}
        items = [{"metadata": {"name": n, "uid": f"uid-{n}"}} for n in page]
        return answer(
            {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items or None}
        )


def names(items: list[Any]) -> list[str]:
    return [item["metadata"]["name"] for item in items]


async def test_list_walks_all_pages(serve: Serve) -> None:
    api = await serve(Pager(*"abcde"))
    found = api.client().list(PODS, label_selector="x", resource_version="7", page_size=2)
    items = [item async for item in found]
    assert names(items) == list("abcde")
    assert {(i["apiVersion"], i["kind"]) for i in items} == {("v1", "Pod")}
    assert [s.path for s in api.seen] == ["/api/v1/pods"] * 3
    assert api.seen[0].query == [("labelSelector", "x"), ("limit", "2"), ("resourceVersion", "7")]
    assert api.seen[1].query == [("labelSelector", "x"), ("limit", "2"), ("continue", "2")]


async def test_whole_list_has_the_version_of_its_first_page(serve: Serve) -> None:
    api = await serve(Pager(*"abcde"))
    whole = await api.client().list_all(PODS, "n", page_size=2)
    assert names(whole["items"]) == list("abcde")
    assert whole["metadata"] == {"resourceVersion": "105"}


async def test_empty_list(serve: Serve) -> None:
    api = await serve(Pager())
    assert (await api.client().list_all(PODS))["items"] == []


async def test_expired_page_restarts_the_whole_list(serve: Serve) -> None:
    api = await serve(Pager(*"abcde", expire_at=4))
    whole = await api.client().list_all(PODS, page_size=2)
    assert names(whole["items"]) == [*"abcde", "new"]
    assert whole["metadata"]["resourceVersion"] == "106"
    assert api.seen[-1].query == []


async def test_expired_page_yields_no_object_twice(serve: Serve) -> None:
    api = await serve(Pager(*"abcde", expire_at=4))
    assert names([i async for i in api.client().list(PODS, page_size=2)]) == [*"abcde", "new"]


async def test_expired_version_of_the_first_page_is_the_callers(serve: Serve) -> None:
    async def expired(request: web.Request) -> web.StreamResponse:
        return refuse(410, "Expired")

    api = await serve(expired)
    with pytest.raises(errors.Gone):
        await api.client().list_all(PODS, resource_version="1")
    with pytest.raises(errors.Gone):
        [item async for item in api.client().list(PODS, resource_version="1")]


# --- resources and discovery ---------------------------------------------------------------------


def test_resources_by_api_version_and_plural() -> None:
    assert resource("apps/v1", "deployments") == DEPLOYMENTS
    own = resource("example.test/v1", "things", kind="Thing", namespaced=False)
    assert own == Resource("example.test", "v1", "things", False, "Thing")
    assert own.path("ignored", name="x") == "/apis/example.test/v1/things/x"
    with pytest.raises(ValueError, match="give its kind"):
        resource("example.test/v1", "things")
    assert BUILTIN["v1", "pods"] is PODS


AGGREGATED: dict[str, Any] = {
    "/api": [
        ("", "v1", {"resource": "pods", "scope": "Namespaced", "shortNames": ["po"],
                    "singularResource": "pod", "verbs": ["get"], "categories": ["all"],
                    "responseKind": {"kind": "Pod"}, "subresources": [{"subresource": "log"}]}),
    ],
    "/apis": [
        ("x.test", "v2", {"resource": "things", "scope": "Cluster", "verbs": ["list"],
                          "categories": ["all"], "responseKind": {"kind": "Thing"}}),
        ("x.test", "v1", {"resource": "things", "scope": "Cluster", "verbs": ["list"],
                          "categories": ["all"], "responseKind": {"kind": "Thing"}}),
    ],
}  # fmt: skip
LEGACY: dict[str, Any] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": {"resources": [
        {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod",
         "shortNames": ["po"], "categories": ["all"], "verbs": ["get"]},
        {"name": "pods/log", "namespaced": True, "kind": "Pod", "verbs": ["get"]},
    ]},
    "/apis": {"kind": "APIGroupList", "groups": [{
        "name": "x.test",
        "versions": [{"groupVersion": "x.test/v1"}, {"groupVersion": "x.test/v2"}],
        "preferredVersion": {"groupVersion": "x.test/v2"},
    }]},
    "/apis/x.test/v1": {"resources": [
        {"name": "things", "namespaced": False, "kind": "Thing", "verbs": ["list"],
         "categories": ["all"]}]},
    "/apis/x.test/v2": {"resources": [
        {"name": "things", "namespaced": False, "kind": "Thing", "verbs": ["list"],
         "categories": ["all"]}]},
}  # fmt: skip


async def aggregated(request: web.Request) -> web.StreamResponse:
    groups: dict[str, list[Any]] = {}
    for group, version, entry in AGGREGATED[request.path]:
        groups.setdefault(group, []).append({"version": version, "resources": [entry]})
    items = [{"metadata": {"name": name}, "versions": v} for name, v in groups.items()]
    return answer({"kind": "APIGroupDiscoveryList", "items": items})


async def legacy(request: web.Request) -> web.StreamResponse:
    return answer(LEGACY[request.path])


@pytest.mark.parametrize("handler", [aggregated, legacy], ids=["aggregated", "legacy"])
async def test_discovery(serve: Serve, handler: Any) -> None:
    api = await serve(handler)
    found = await api.client().discover()
    thing = Resource("x.test", "v2", "things", False, "Thing")
    assert found.find("po").resource == PODS
    assert found.find("Pod").subresources == ("log",)
    assert found.find("things").resource == thing
    assert found.find("things.v1.x.test").resource.version == "v1"
    assert found.for_kind("x.test/v1", "Thing").version == "v1"
    assert [e.resource for e in found.category("all")] == [PODS, thing]
    assert len(list(found)) == 3
    with pytest.raises(corral.kube.UnknownKind, match='have a resource type "none"'):
        found.find("none")
    assert "as=APIGroupDiscoveryList" in api.seen[0].headers["Accept"]


async def test_unknown_kind_is_asked_for_again_once(serve: Serve) -> None:
    api = await serve(aggregated)
    client = api.client()
    assert await client.resource_for("v1", "Pod") == PODS
    assert api.seen == []
    assert (await client.resource_for("x.test/v1", "Thing")).plural == "things"
    assert (await client.resource_for("x.test/v1", "Thing")).plural == "things"
    assert len(api.seen) == 2
    with pytest.raises(corral.kube.UnknownKind, match='no matches for kind "No" in version "v1"'):
        await client.resource_for("v1", "No")
    assert len(api.seen) == 4


def test_public_names_resolve_and_are_complete() -> None:
    for name in corral.kube.__all__:
        assert getattr(corral.kube, name) is not None
    homes = " ".join(corral.kube._HOMES.values())
    assert set(corral.kube.__all__) == set(homes.split())
    with pytest.raises(AttributeError):
        corral.kube.nothing  # noqa: B018  the access itself is the case
