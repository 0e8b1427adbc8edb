"""Tenant A against tenant B over every resource, subresource and verb of the API.

A has `admin` in its own namespace, as a person and as a service account. Whatever it asks of B's
namespace or of the cluster must be refused before anything is looked up: 403 for what is there and
for what is not alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.backends import Backend
from tests.backends.base import Reply
from tests.cluster.objects import Objects, eventually

RBAC = "rbac.authorization.k8s.io"
OPEN = {
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
}
"""What everybody may ask about oneself."""
METHODS = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
MERGE = "application/merge-patch+json"


class Route(NamedTuple):
    """One resource or subresource."""

    group: str
    version: str
    plural: str
    sub: str
    namespaced: bool
    verbs: tuple[str, ...]

    def path(self, namespace: str, name: str) -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"{root}/namespaces/{namespace}" if self.namespaced and namespace else root
        path = f"{where}/{self.plural}"
        path = f"{path}/{name}" if name else path
        return f"{path}/{self.sub}" if self.sub else path


class Tenant:
    """Requests in the name of tenant A."""

    def __init__(self, backend: Backend, user: str, groups: list[str]) -> None:
        self._backend = backend
        self.user = user
        self._headers = {"Impersonate-User": user, "Impersonate-Group": groups[0]}

    def __call__(self, method: str, path: str, body: Any = None, **more: str) -> Reply:
        """``more``: headers, with underscores for hyphens."""
        media = MERGE if method == "PATCH" else "application/json"
        headers = {**self._headers, **{k.replace("_", "-"): v for k, v in more.items()}}
        return self._backend.request(method, path, body, headers=headers, content_type=media)


def routes(backend: Backend) -> Iterator[Route]:
    """Everything that discovery shows."""
    documents = [("", backend.request("GET", "/api/v1").json())]
    for group in backend.request("GET", "/apis").json()["groups"]:
        for version in group["versions"]:
            found = backend.request("GET", f"/apis/{version['groupVersion']}")
            if found.code == 200:
                documents.append((group["name"], found.json()))
    for group, document in documents:
        version = document["groupVersion"].rpartition("/")[2]
        for resource in document["resources"]:
            plural, _, sub = resource["name"].partition("/")
            verbs = tuple(resource["verbs"])
            yield Route(group, version, plural, sub, resource["namespaced"], verbs)


@pytest.fixture(scope="module")
def other(backend: Backend) -> Iterator[str]:
    """The namespace of tenant B, with something in it."""
    cluster = Objects(backend)
    meta = {"generateName": "tenant-b-"}
    made = cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    name = made["metadata"]["name"]
    inside = Objects(backend, name)
    eventually(lambda: inside.find("v1", "serviceaccounts", "default"))
    own = (
        ("ConfigMap", "configmaps"),
        ("Secret", "secrets"),
        ("ServiceAccount", "serviceaccounts"),
    )
    for kind, plural in own:
        inside.create(plural, {"apiVersion": "v1", "kind": kind, "metadata": {"name": "mine"}})
    yield name
    cluster.delete("v1", "namespaces", name)


@pytest.fixture(params=["person", "service account"])
def tenant(request: pytest.FixtureRequest, backend: Backend, objects: Objects) -> Tenant:
    """Tenant A, with `admin` in its own namespace."""
    if request.param == "person":
        user, groups = "tenant-a", ["system:authenticated"]
        subject = {"kind": "User", "name": user, "apiGroup": RBAC}
    else:
        user = f"system:serviceaccount:{objects.namespace}:default"
        groups = ["system:authenticated"]
        subject = {"kind": "ServiceAccount", "name": "default", "namespace": objects.namespace}
    objects.create(
        "rolebindings",
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "tenant"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "admin"},
            "subjects": [subject],
        },
    )
    made = Tenant(backend, user, groups)
    path = f"/api/v1/namespaces/{objects.namespace}/configmaps"
    eventually(lambda: made("GET", path).code == 200)
    return made


def ways(tenant: Tenant, routes: list[Route], namespace: str) -> tuple[int, list[str]]:
    """How many requests were tried, and those that were not refused."""
    tried, found = 0, []
    for route, verb in ((r, v) for r in routes for v in r.verbs):
        if verb not in METHODS or (route.group, route.plural) in OPEN:
            continue
        of_one = verb in ("get", "update", "patch", "delete") or route.sub
        for name in ("mine", "missing") if of_one else ("",):
            body = {} if METHODS[verb] in ("POST", "PUT", "PATCH") else None
            reply = tenant(METHODS[verb], route.path(namespace, name), body)
            tried += 1
            if reply.code != 403:
                found.append(f"{verb} {route.path(namespace, name)}: {reply.code}")
    return tried, found


@pytest.mark.attack(
    "tenant against tenant",
    "uses every verb on every resource of another's namespace",
    "each is forbidden, whether the object is there or not",
)
@pytest.mark.route("API objects and subresources")
def test_no_way_into_another_namespace(backend: Backend, tenant: Tenant, other: str) -> None:
    inside = [route for route in routes(backend) if route.namespaced]
    tried, found = ways(tenant, inside, other)
    assert tried > 300
    assert found == []


@pytest.mark.attack(
    "tenant against tenant",
    "uses every verb on every cluster-scoped resource, and lists over all namespaces",
    "each is forbidden",
)
@pytest.mark.route("API of the cluster")
def test_no_way_into_the_cluster(backend: Backend, tenant: Tenant, other: str) -> None:
    everything = list(routes(backend))
    wide = [route for route in everything if not route.namespaced]
    # a namespace's own administrator reads that namespace, and no other
    tried, found = ways(tenant, wide, "")
    across = [r._replace(verbs=("list",)) for r in everything if r.namespaced and "list" in r.verbs]
    more, leaks = ways(tenant, across, "")
    assert tried + more > 150
    assert found + leaks == []


@pytest.mark.attack(
    "tenant against tenant",
    "watches another's namespace, or all of them with a selector for it",
    "each watch is forbidden",
)
@pytest.mark.route("API watches")
def test_no_watch_of_another_namespace(backend: Backend, tenant: Tenant, other: str) -> None:
    watched = [r for r in routes(backend) if r.namespaced and "watch" in r.verbs]
    codes = set()
    for route, query in itertools.product(
        watched, ("watch=1", "watch=1&fieldSelector=metadata.name%3Dmine")
    ):
        codes.add(tenant("GET", f"{route.path(other, '')}?{query}").code)
        selector = f"watch=1&fieldSelector=metadata.namespace%3D{other}"
        codes.add(tenant("GET", f"{route.path('', '')}?{selector}").code)
    assert codes == {403}


@pytest.mark.attack(
    "tenant against tenant",
    "opens a WebSocket or SPDY stream into another's pod, service or log, there or not",
    "each is forbidden before the connection becomes a stream",
)
@pytest.mark.route("API streams (WebSocket, SPDY, logs)")
@pytest.mark.parametrize("upgrade", ["websocket", "SPDY/3.1", ""])
def test_no_stream_into_another_namespace(tenant: Tenant, other: str, upgrade: str) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": upgrade} if upgrade else {}
    if upgrade == "websocket":
        headers |= {
            "Sec_WebSocket_Version": "13",
            "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Sec_WebSocket_Protocol": "v5.channel.k8s.io",
        }
    elif upgrade:
        headers |= {"X_Stream_Protocol_Version": "v4.channel.k8s.io"}
    pods, codes = f"/api/v1/namespaces/{other}/pods", {}
    for name in ("mine", "missing"):
        for path in (
            f"{pods}/{name}/exec?command=id&stdout=1",
            f"{pods}/{name}/attach?stdout=1",
            f"{pods}/{name}/portforward?ports=80",
            f"{pods}/{name}/proxy/",
            f"{pods}/{name}:80/proxy/x",
            f"{pods}/{name}/log?follow=1",
            f"/api/v1/namespaces/{other}/services/{name}/proxy/",
            f"/api/v1/namespaces/{other}/services/http:{name}:80/proxy/x",
            "/api/v1/nodes/some/proxy/exec/x/y/z?command=id",
        ):
            for method in ("GET", "POST"):
                codes[f"{method} {path}"] = tenant(method, path, **headers).code
    assert {path: code for path, code in codes.items() if code != 403} == {
        # logs are only read
        path: 405
        for path in codes
        if path.startswith("POST") and "/log" in path and codes[path] == 405
    }


@pytest.mark.attack(
    "tenant against tenant",
    "acts in another user's or group's name",
    "impersonation is forbidden",
)
@pytest.mark.route("API identities")
@pytest.mark.parametrize(
    "headers",
    [
        {"Impersonate-User": "admin"},
        {"Impersonate-User": "tenant-b"},
        {"Impersonate-User": "system:apiserver"},
    ],
)
def test_nobody_else_can_be_acted_as(
    backend: Backend, objects: Objects, headers: dict[str, str]
) -> None:
    token = backend.request(
        "POST", f"/api/v1/namespaces/{objects.namespace}/serviceaccounts/default/token",
        {"spec": {"expirationSeconds": 600}},
    ).json()["status"]["token"]  # fmt: skip
    reply = backend.request("GET", "/api/v1/namespaces", headers=headers, token=token)
    assert reply.code == 403
    assert b"impersonate" in reply.body


@pytest.mark.attack(
    "tenant against tenant",
    "asks the API for a token of another namespace's account",
    "it is forbidden, also to be bound to a pod of its own",
)
@pytest.mark.route("API tokens")
def test_no_token_of_another_account(tenant: Tenant, other: str) -> None:
    path = f"/api/v1/namespaces/{other}/serviceaccounts/default/token"
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "mine"}
    for spec in ({}, {"boundObjectRef": bound}):
        assert tenant("POST", path, {"spec": spec}).code == 403


@pytest.mark.attack(
    "tenant against tenant",
    "binds itself a role in another's namespace, or a larger one in its own",
    "nobody gives what they do not have",
)
@pytest.mark.route("API rights")
def test_rights_do_not_grow(tenant: Tenant, objects: Objects, other: str) -> None:
    binding = {
        "metadata": {"name": "more"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": tenant.user, "apiGroup": RBAC}],
    }
    for where in (f"namespaces/{other}/rolebindings", "clusterrolebindings"):
        assert tenant("POST", f"/apis/{RBAC}/v1/{where}", binding).code == 403
    own = f"/apis/{RBAC}/v1/namespaces/{objects.namespace}/rolebindings"
    assert tenant("POST", own, binding).code == 403
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    role = {"metadata": {"name": "more"}, "rules": [rule]}
    path = f"/apis/{RBAC}/v1/namespaces/{objects.namespace}/roles"
    assert tenant("POST", path, role).code == 403


def reaching(name: str) -> dict[str, dict[str, Any]]:
    """Pods, each with another kind of reference to a name."""
    container = {"name": "c", "image": "x"}
    volumes = {
        "Secret": {"secret": {"secretName": name}},
        "ConfigMap": {"configMap": {"name": name}},
        "claim": {"persistentVolumeClaim": {"claimName": name}},
        "projected": {"projected": {"sources": [{"secret": {"name": name}}]}},
    }
    specs: dict[str, dict[str, Any]] = {
        kind: {"containers": [container], "volumes": [{"name": "v", **volume}]}
        for kind, volume in volumes.items()
    }
    specs["variables"] = {"containers": [{**container, "envFrom": [{"secretRef": {"name": name}}]}]}
    specs["pulls"] = {"containers": [container], "imagePullSecrets": [{"name": name}]}
    specs["account"] = {"containers": [container], "serviceAccountName": name}
    return specs


@pytest.mark.attack(
    "tenant against tenant",
    "names another's Secret, ConfigMap, account or claim in a pod of its own",
    "a pod reaches only what is in its own namespace",
)
@pytest.mark.route("API references")
def test_references_stay_in_the_namespace(tenant: Tenant, objects: Objects, other: str) -> None:
    path = f"/api/v1/namespaces/{objects.namespace}/pods"
    for name in (f"{other}/mine", f"../{other}/mine"):
        for kind, spec in reaching(name).items():
            # one that was placed meanwhile is there until its node has ended it: other names
            pod = {"metadata": {"generateName": "reaches-"}, "spec": spec}
            reply = tenant("POST", path, pod)
            # a name that no object can have: refused, or the pod waits for ever
            assert reply.code in (201, 403, 422), (kind, reply.body)
            if reply.code == 201:
                made = reply.json()["metadata"]
                assert made["namespace"] == objects.namespace
                assert tenant("DELETE", f"{path}/{made['name']}").code == 200
    account = {"metadata": {"name": "reaches"}, "spec": reaching("mine")["account"]}
    reply = tenant("POST", path, account)
    assert reply.code == 403 and b"not found" in reply.body, "an account of another namespace"
    elsewhere = {**account, "metadata": {"name": "reaches", "namespace": other}}
    assert tenant("POST", path, elsewhere).code == 400


@pytest.mark.attack(
    "tenant against tenant",
    "writes events about another's objects in its own namespace",
    "an event is about objects of its own namespace",
)
@pytest.mark.route("API references")
def test_events_about_others(tenant: Tenant, objects: Objects, other: str) -> None:
    about = {"kind": "Secret", "apiVersion": "v1", "name": "mine", "namespace": other}
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "x", "type": "Normal"}
    path = f"/api/v1/namespaces/{objects.namespace}/events"
    reply = tenant("POST", path, event)
    assert reply.code in (403, 422)
    assert tenant("POST", f"/api/v1/namespaces/{other}/events", event).code == 403
