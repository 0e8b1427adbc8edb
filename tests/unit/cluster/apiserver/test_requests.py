"""Paths as requests; the table is that of Kubernetes' own request-info resolver."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.requests import Context, parse
from corral.kube import errors


@pytest.mark.parametrize(
    ("request_line", "wanted"),
    [
        ("GET /api/v1/namespaces", "list - v1 - namespaces - -"),
        ("GET /api/v1/namespaces/other", "get - v1 other namespaces other -"),
        ("GET /api/v1/namespaces/other/pods", "list - v1 other pods - -"),
        ("GET /api/v1/namespaces/other/pods/foo", "get - v1 other pods foo -"),
        ("HEAD /api/v1/namespaces/other/pods/foo", "get - v1 other pods foo -"),
        ("GET /api/v1/pods", "list - v1 - pods - -"),
        ("HEAD /api/v1/pods", "list - v1 - pods - -"),
        ("GET /api/v1/namespaces/other/pods/foo/status", "get - v1 other pods foo status"),
        ("GET /api/v1/namespaces/other/pods/foo/log", "get - v1 other pods foo log"),
        ("PUT /api/v1/namespaces/other/finalize", "update - v1 other namespaces other finalize"),
        ("PUT /api/v1/namespaces/other/status", "update - v1 other namespaces other status"),
        ("GET /api/v1/watch/pods", "watch - v1 - pods - -"),
        ("GET /api/v1/watch/namespaces/other/pods", "watch - v1 other pods - -"),
        ("GET /api/v1/watch/namespaces/other/pods/foo", "watch - v1 other pods foo -"),
        ("PATCH /api/v1/namespaces/other/pods/foo", "patch - v1 other pods foo -"),
        ("DELETE /api/v1/namespaces/other/pods/foo", "delete - v1 other pods foo -"),
        ("POST /api/v1/namespaces/other/pods", "create - v1 other pods - -"),
        ("DELETE /api/v1/namespaces/other/pods", "deletecollection - v1 other pods - -"),
        ("DELETE /api/v1/namespaces", "deletecollection - v1 - namespaces - -"),
        ("POST /apis/apps/v1/namespaces/other/deployments", "create apps v1 other deployments - -"),
        ("GET /apis/rbac.authorization.k8s.io/v1/clusterroles/x", "get rbac.authorization.k8s.io v1 - clusterroles x -"),  # noqa: E501
        ("PUT /apis/example.test/v1/widgets/w/scale", "update example.test v1 - widgets w scale"),
        ("POST /api/v1/namespaces/other/pods/foo/eviction", "create - v1 other pods foo eviction"),
        ("OPTIONS /api/v1/namespaces/other/pods/foo", "- - v1 other pods foo -"),
    ],
)  # fmt: skip
def test_resource_paths(request_line: str, wanted: str) -> None:
    """Wanted: verb, group, version, namespace, resource, name, subresource; ``-`` is empty."""
    method, path = request_line.split()
    info = parse(method, path)
    parts = (
        info.verb, info.group, info.version, info.namespace, info.resource, info.name,
        info.subresource,
    )  # fmt: skip
    assert info.is_resource
    assert " ".join(part or "-" for part in parts) == wanted


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("GET", "/", "get"),
        ("GET", "/api", "get"),
        ("GET", "/api/v1", "get"),
        ("GET", "/apis", "get"),
        ("GET", "/apis/apps", "get"),
        ("GET", "/apis/apps/v1", "get"),
        ("POST", "/version", "post"),
        ("HEAD", "/healthz", "head"),
        ("GET", "/openapi/v3/apis/apps/v1", "get"),
        ("PUT", "/apis/apps/v1/", "put"),
    ],
)
def test_other_paths(method: str, path: str, verb: str) -> None:
    info = parse(method, path)
    assert not info.is_resource
    assert (info.verb, info.path) == (verb, path)


@pytest.mark.parametrize(
    ("path", "verb"),
    [
        ("/api/v1/pods", "watch"),
        ("/api/v1/namespaces/n/pods/p", "get"),
        ("/api/v1/namespaces/n/pods/p/log", "get"),
    ],
)
def test_watch_in_the_query(path: str, verb: str) -> None:
    assert parse("GET", path, watch=True).verb == verb


def test_what_follows_a_proxy() -> None:
    info = parse("GET", "/api/v1/namespaces/n/pods/p:80/proxy/a/b")
    assert (info.name, info.subresource, info.rest) == ("p:80", "proxy", "a/b")


def test_escapes_are_read() -> None:
    assert parse("GET", "/api/v1/namespaces/n/pods/a%3Ab").name == "a:b"


@pytest.mark.parametrize(
    "path", ["/api/v1/namespaces/../secrets", "/api/v1/./pods", "/api/v1/pods/%2e%2e", "/a%00b"]
)
def test_tricks_are_refused(path: str) -> None:
    with pytest.raises((errors.BadRequest, errors.NotFound)):
        parse("GET", path)


def test_warnings_are_told_once() -> None:
    context = Context(UserInfo("ann"))
    for text in ("a", "b", "a"):
        context.warn(text)
    assert context.warnings == ["a", "b"]
