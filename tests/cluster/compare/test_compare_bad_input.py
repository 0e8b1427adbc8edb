# ruff: noqa: E501 -- a case a line reads better
"""Requests that no server should like: the same refusal from both, and both live on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.compare.kinds import BAD as NAMESPACE
from tests.cluster.compare.pair import JSON, Pair, Request, Side
from tests.cluster.compare.tokens import give_tokens

pytestmark = pytest.mark.real

YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
MAPS = f"{CORE}/configmaps"
PODS = f"{CORE}/pods"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
WIDGETS = f"/apis/example.com/v1/namespaces/{NAMESPACE}/widgets"
PRESENT = f"{MAPS}/present"


def config_map(name: str = "made", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}


def named(**meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "busybox"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "made"},
        "spec": {"containers": containers, **spec},
    }


def widget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "made"},
        "spec": {"size": 1, **spec},
    }


def post(body: Any, path: str = MAPS, media: str = JSON, **how: Any) -> Request:
    return Request("POST", path, body, media, **how)


def put(body: Any, path: str = PRESENT, **how: Any) -> Request:
    return Request("PUT", path, body, about="present", **how)


def patch(body: Any, media: str, path: str = PRESENT, **how: Any) -> Request:
    return Request("PATCH", path, body, media, about="present", **how)


def get(path: str, **headers: str) -> Request:
    sent = tuple((k.replace("_", "-"), v) for k, v in headers.items())
    return Request("GET", path, headers=sent)


def as_user(method: str, path: str, body: Any = None, media: str = JSON) -> Request:
    return Request(method, path, body, media, headers=(("Impersonate-User", "weak"),))


def nested(depth: int, opening: str = '{"a":', closing: str = "}") -> bytes:
    head = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"deep"},"data":'
    return head + (opening * depth + "1" + closing * depth).encode() + b"}"


BODIES = {
    "empty body": post(b""),
    "only spaces": post(b"   "),
    "no JSON": post(b"{nope"),
    "half a JSON": post(b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":'),
    "JSON and more": post(json.dumps(config_map()).encode() + b" trailing"),
    "two objects": post(json.dumps(config_map()).encode() * 2),
    "a list": post([]),
    "a list of objects": post([config_map()]),
    "a string": post("text"),
    "a number": post(b"5"),
    "null": post(b"null"),
    "an empty object": post({}),
    "invalid UTF-8": post(b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"u"},"data":{"a":"\xff\xfe"}}'),
    "a lone surrogate": post(b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"},"data":{"a":"\\ud800"}}'),
    "a NUL in a value": post(b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"z"},"data":{"a":"\\u0000"}}'),
    "a raw control character": post(b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"\x01"}}'),
    "a byte order mark": post(b"\xef\xbb\xbf" + json.dumps(config_map()).encode()),
    "bad YAML": post(b"a: [b", media=YAML),
    "YAML with tabs": post(b"a:\n\t- b", media=YAML),
    "a YAML list": post(b"- a\n- b", media=YAML),
    "a YAML scalar": post(b"hello", media=YAML),
    "YAML aliases of nothing": post(b"a: *b", media=YAML),
    "JSON called protobuf": post(json.dumps(config_map()).encode(), media=PROTOBUF),
    "garbage protobuf": post(b"\xff\x00\xff\x00garbage", media=PROTOBUF),
    "protobuf magic only": post(b"k8s\x00", media=PROTOBUF),
    "protobuf cut off": post(b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09Conf", media=PROTOBUF),
    "an unknown media type": post(config_map(), media="text/plain"),
    "no media type": post(config_map("without-type"), media=""),
    "a malformed media type": post(config_map(), media="///;;"),
    "form data": post(b"a=b", media="application/x-www-form-urlencoded"),
}  # fmt: skip

TYPES = {
    "kind of another resource": post({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}),
    "unknown kind": post({"apiVersion": "v1", "kind": "Nope", "metadata": {"name": "x"}}),
    "unknown version": post({"apiVersion": "v9", "kind": "ConfigMap", "metadata": {"name": "x"}}),
    "another group": post({"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
    "malformed version": post({"apiVersion": "a/b/c", "kind": "ConfigMap", "metadata": {"name": "x"}}),
    "kind is a number": post({"apiVersion": "v1", "kind": 5, "metadata": {"name": "x"}}),
    "metadata is a list": post({"apiVersion": "v1", "kind": "ConfigMap", "metadata": []}),
    "name is a number": post(named(name=5)),
    "labels is a list": post(named(name="x", labels=["a"])),
    "label value is a number": post(named(name="x", labels={"a": 1})),
    "finalizers is a string": post(named(name="x", finalizers="a")),
    "timestamp is no time": post(named(name="x", creationTimestamp="yesterday")),
    "owner is a string": post(named(name="x", ownerReferences=["a"])),
    "data value is an object": post(config_map(data={"a": {}})),
    "data is a string": post(config_map(data="a")),
    "immutable is a string": post(config_map(immutable="yes")),
    "binary data is no base64": post(config_map(binaryData={"a": "*"})),
    "containers is an object": post(pod(containers={}), PODS),
    "container is a string": post(pod(containers=["a"]), PODS),
    "port is a string": post(pod(containers=[{"name": "a", "image": "b", "ports": [{"containerPort": "80"}]}]), PODS),
    "port is a fraction": post(pod(containers=[{"name": "a", "image": "b", "ports": [{"containerPort": 80.5}]}]), PODS),
    "port is too big for its type": post(pod(containers=[{"name": "a", "image": "b", "ports": [{"containerPort": 2**40}]}]), PODS),
    "quantity is nonsense": post(pod(containers=[{"name": "a", "image": "b", "resources": {"limits": {"cpu": "a lot"}}}]), PODS),
    "flag is a number": post(pod(hostNetwork=1), PODS),
    "widget: wrong type": post(widget(size="big"), WIDGETS),
    "widget: too big": post(widget(size=1000), WIDGETS),
    "widget: not in the list": post(widget(color="mauve"), WIDGETS),
    "widget: required field missing": post({**widget(), "spec": {}}, WIDGETS),
    "widget: no kind": post({"apiVersion": "example.com/v1", "metadata": {"name": "x"}}, WIDGETS),
    "widget: another kind": post({**widget(), "kind": "Gadget"}, WIDGETS),
    "widget: another version": post({**widget(), "apiVersion": "example.com/v2"}, f"{WIDGETS}?fieldValidation=Ignore"),
    "widget: duplicate set items": post(widget(tags=["a", "a"]), WIDGETS),
    "widget: duplicate map keys": post(widget(parts=[{"name": "a"}, {"name": "a"}]), WIDGETS),
    "widget: metadata is a string": post({**widget(), "metadata": "x"}, WIDGETS),
    "widget: rule broken": post(widget(tags=["a", "b", "c", "d", "e", "f"]), WIDGETS),
}  # fmt: skip

NAMES = {
    "no name": post(named()),
    "empty name": post(named(name="")),
    "name in capitals": post(named(name="Capital")),
    "name with a slash": post(named(name="a/b")),
    "name with dots only": post(named(name="..")),
    "name too long": post(named(name="a" * 254)),
    "name with unicode": post(named(name="ünï")),
    "namespace of another": post(named(name="x", namespace="other")),
    "namespace that is not there": post(config_map(), "/api/v1/namespaces/nowhere/configmaps"),
    "generateName too long": post(named(generateName="a" * 300)),
    "generateName with capitals": post(named(generateName="Up-")),
    "finalizer without a domain": post(named(name="x", finalizers=["plain"])),
    "label key with a space": post(named(name="x", labels={"a b": "c"})),
    "label value too long": post(named(name="x", labels={"a": "b" * 64})),
    "annotation key malformed": post(named(name="x", annotations={"a b": "c"})),
    "annotations too long": post(named(name="x", annotations={"a": "b" * 300_000})),
    "owner without uid": post(named(name="x", ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p"}])),
    "two controllers": post(named(name="x", ownerReferences=[
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": u, "controller": True} for u in "ab"])),
    "resourceVersion on create": post(named(name="x", resourceVersion="7")),
    "exists already": post(config_map("present")),
    "exists already, dry run": post(config_map("present"), f"{MAPS}?dryRun=All"),
}  # fmt: skip

UNKNOWN = {
    f"{what}, {how}": post(body, f"{path}?fieldValidation={how}&dryRun=All", media)
    for how in ("Strict", "Warn", "Ignore")
    for what, body, path, media in (
        ("unknown field", config_map(nosuch=1), MAPS, JSON),
        ("unknown nested field", pod(nosuch=1), PODS, JSON),
        ("unknown field in a list", pod(containers=[{"name": "a", "image": "b", "x": 1}]), PODS, JSON),
        ("field in another case", config_map(Data={"a": "b"}), MAPS, JSON),
        ("duplicate field", b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d"},"data":{"a":"1","a":"2"}}', MAPS, JSON),
        ("duplicate field in YAML", b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: d\ndata:\n  a: b\n  a: c\n", MAPS, YAML),
        ("unknown field of a widget", widget(nosuch=1), WIDGETS, JSON),
        ("unknown field of metadata", named(name="x", nosuch=1), MAPS, JSON),
    )
}  # fmt: skip

SIZES = {
    "3 MB and one byte": post(json.dumps(config_map(data={"a": "b" * (3 * 2**20)})).encode()),
    "2 MB, over the limit of a ConfigMap": post(config_map(data={"a": "b" * (2 * 2**20)})),
    "a secret of 2 MB": post({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "big"}, "stringData": {"a": "b" * (2 * 2**20)}}, f"{CORE}/secrets"),
    "nesting of 1000": post(nested(1000)),
    "nesting of 9000": post(nested(9000)),
    "nesting of 20000": post(nested(20_000)),
    "lists nested 20000 deep": post(nested(20_000, "[", "]")),
    "a deep merge patch": patch(('{"a":' * 20_000 + "1" + "}" * 20_000).encode(), MERGE),
    "a deep applied configuration": patch(b"[" * 20_000 + b"]" * 20_000, APPLY, f"{PRESENT}?fieldManager=x"),
    "a huge name in the path": get(f"{MAPS}/{'a' * 5000}"),
}  # fmt: skip

PATCHES = {
    "a patch that is no JSON": patch(b"{", MERGE),
    "a JSON patch that is an object": patch({}, JSON_PATCH),
    "a JSON patch with a bad operation": patch([{"op": "explode", "path": "/data"}], JSON_PATCH),
    "a JSON patch without a path": patch([{"op": "add", "value": 1}], JSON_PATCH),
    "a JSON patch whose test fails": patch([{"op": "test", "path": "/kind", "value": "X"}], JSON_PATCH),
    "a JSON patch of a missing place": patch([{"op": "remove", "path": "/no/where"}], JSON_PATCH),
    "a JSON patch to another type": patch([{"op": "replace", "path": "/data", "value": 5}], JSON_PATCH),
    "a JSON patch of the whole": patch([{"op": "replace", "path": "", "value": {}}], JSON_PATCH),
    "too many operations": patch([{"op": "test", "path": "/kind", "value": "ConfigMap"}] * 10_001, JSON_PATCH),
    "a merge patch that is a list": patch([], MERGE),
    "a merge patch that is null": patch(b"null", MERGE),
    "a merge patch of the kind": patch({"kind": "Secret"}, MERGE),
    "a merge patch of the version": patch({"apiVersion": "v2"}, MERGE),
    "a merge patch of the name": patch({"metadata": {"name": "other"}}, MERGE),
    "a merge patch of the namespace": patch({"metadata": {"namespace": "other"}}, MERGE),
    "a merge patch of the uid": patch({"metadata": {"uid": "other"}}, MERGE),
    "a merge patch of an old version": patch({"metadata": {"resourceVersion": "1"}}, MERGE),
    "a merge patch of no version": patch({"metadata": {"resourceVersion": "abc"}}, MERGE),
    "a merge patch of metadata": patch({"metadata": None}, MERGE),
    "an unknown directive": patch({"data": {"$patch": "explode"}}, STRATEGIC),
    "a retainKeys that is no list": patch({"data": {"$retainKeys": "a"}}, STRATEGIC),
    "an order that is no list": patch({"metadata": {"$setElementOrder/finalizers": 1}}, STRATEGIC),
    "a strategic patch of a widget": patch({"spec": {"size": 2}}, STRATEGIC, f"{WIDGETS}/present"),
    "a patch type nobody knows": patch({}, "application/x-patch"),
    "a patch without a type": patch({}, ""),
    "a patch of what is not there": patch({}, MERGE, f"{MAPS}/absent"),
    "a bad patch of what is not there": patch(b"{", MERGE, f"{MAPS}/absent"),
    "an unknown field, strictly": patch({"nosuch": 1}, MERGE, f"{PRESENT}?fieldValidation=Strict"),
    "an unknown field of a widget, strictly": patch({"spec": {"nosuch": 1}}, MERGE, f"{WIDGETS}/present?fieldValidation=Strict"),
    "a duplicate field, strictly": patch(b'{"data":{"a":"1"},"data":{"a":"2"}}', MERGE, f"{PRESENT}?fieldValidation=Strict"),
    "a label that is no label": patch({"metadata": {"labels": {"a b": "c"}}}, MERGE),
    "apply without a manager": patch(config_map("present"), APPLY),
    "apply without a kind": patch({"apiVersion": "v1"}, APPLY, f"{PRESENT}?fieldManager=x"),
    "apply of another kind": patch({**config_map("present"), "kind": "Secret"}, APPLY, f"{PRESENT}?fieldManager=x"),
    "apply of another version": patch({**config_map("present"), "apiVersion": "v2"}, APPLY, f"{PRESENT}?fieldManager=x"),
    "apply of another name": patch(config_map("other"), APPLY, f"{PRESENT}?fieldManager=x"),
    "apply with managedFields": patch({**named(name="present", managedFields=[{"manager": "x"}])}, APPLY, f"{PRESENT}?fieldManager=x"),
    "apply of an unknown field": patch(config_map("present", nosuch=1), APPLY, f"{PRESENT}?fieldManager=x"),
    "apply of a wrong type": patch(config_map("present", data={"a": 1}), APPLY, f"{PRESENT}?fieldManager=x"),
    "apply that conflicts": patch(config_map("present", data={"a": "mine"}), APPLY, f"{PRESENT}?fieldManager=x"),
    "apply of bad YAML": patch(b"a: [b", APPLY, f"{PRESENT}?fieldManager=x"),
    "apply of a list": patch(b"- a", APPLY, f"{PRESENT}?fieldManager=x"),
    "apply of nothing": patch(b"", APPLY, f"{PRESENT}?fieldManager=x"),
    "apply of a duplicate key, strictly": patch(b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: present\ndata:\n  z: b\n  z: c\n", APPLY, f"{PRESENT}?fieldManager=x&fieldValidation=Strict"),
    "apply of a duplicate widget key": patch({**widget(parts=[{"name": "a"}, {"name": "a"}]), "metadata": {"name": "present"}}, APPLY, f"{WIDGETS}/present?fieldManager=x"),
    "apply of a uid to nothing": patch({**named(name="absent", uid="x")}, APPLY, f"{MAPS}/absent?fieldManager=x"),
    "force without apply": patch({}, MERGE, f"{PRESENT}?force=true"),
}  # fmt: skip

UPDATES = {
    "put of what is not there": put(config_map("absent"), f"{MAPS}/absent"),
    "put of bad JSON to what is not there": put(b"{", f"{MAPS}/absent"),
    "put of another name": put(config_map("other")),
    "put without a name": put(named()),
    "put of another namespace": put(named(name="present", namespace="other")),
    "put of an old version": put(named(name="present", resourceVersion="1")),
    "put of no version": put(named(name="present", resourceVersion="abc")),
    "put of another uid": put(named(name="present", uid="other")),
    "put of another kind": put({**config_map("present"), "kind": "Secret"}),
    "put to a collection": put(config_map("present"), MAPS),
    "put of an immutable map": put(config_map("frozen", data={"a": "c"}, immutable=True), f"{MAPS}/frozen"),
    "put that thaws": put(config_map("frozen", data={"a": "b"}), f"{MAPS}/frozen"),
    "put of an old widget": put({**widget(), "metadata": {"name": "present", "resourceVersion": "1"}}, f"{WIDGETS}/present"),
    "put of a widget without version": put({**widget(), "metadata": {"name": "present"}}, f"{WIDGETS}/present"),
    "put of another pod spec": put({**pod(hostNetwork=True), "metadata": {"name": "present"}}, f"{PODS}/present"),
    "put of a status that has none": put(config_map("present"), f"{PRESENT}/status"),
    "scale to less than nothing": put({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "present"}, "spec": {"replicas": -1}}, f"{DEPLOYMENTS}/present/scale"),
    "scale to a word": put({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "present"}, "spec": {"replicas": "x"}}, f"{DEPLOYMENTS}/present/scale"),
    "scale of another name": put({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x"}, "spec": {"replicas": 1}}, f"{DEPLOYMENTS}/present/scale"),
    "scale of another kind": put(config_map("present"), f"{DEPLOYMENTS}/present/scale"),
    "scale of bad JSON": put(b"{", f"{DEPLOYMENTS}/present/scale"),
}  # fmt: skip

OPTIONS = {
    f"{name} {value!r}": post(config_map("made-by-option"), f"{MAPS}?{name}={value}")
    for name, values in {
        "dryRun": ("Some", "All&dryRun=Some"),
        "fieldValidation": ("Maybe", "strict"),
        "fieldManager": ("a" * 129, "a%0ab"),
    }.items()
    for value in values
}

LISTS = {
    f"?{query}": get(f"{CORE}/secrets?{query}")
    for query in (
        "limit=-1", "limit=x", "limit=1.5", "timeoutSeconds=x", "timeoutSeconds=1.5",
        "labelSelector=a%20b", "labelSelector=a%20in", "labelSelector=a%20in%20(", "labelSelector==x",
        "labelSelector=!", "labelSelector=a%3Db%2C%2Cc", "labelSelector=a%3D%3D%3Db", "labelSelector=a%20in%20()",
        "labelSelector=a%3E1", "labelSelector=a%3Ex", "labelSelector=%2Fa%3Db", "labelSelector=a%3Db%20c",
        "fieldSelector=nosuch%3Dx", "fieldSelector=metadata.name", "fieldSelector=data.a%3Db", "fieldSelector=metadata.name%3D%5Cx",
        "fieldSelector=metadata.labels%3Dx",
        "resourceVersion=abc", "resourceVersion=-1", "resourceVersion=1.5", "resourceVersionMatch=Exact",
        "resourceVersionMatch=Odd&resourceVersion=1", "resourceVersionMatch=Exact&resourceVersion=0",
        "resourceVersionMatch=NotOlderThan", "resourceVersionMatch=NotOlderThan&resourceVersion=abc",
        "continue=abc", "continue=%7B%7D", "continue=eyJ2IjoieCJ9", "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvLi4vYSJ9",
        "continue=abc&resourceVersion=5", "continue=abc&resourceVersionMatch=Exact",
        "sendInitialEvents=true", "sendInitialEvents=true&watch=true&timeoutSeconds=1",
        "sendInitialEvents=true&watch=true&resourceVersionMatch=Exact&timeoutSeconds=1",
        "watch=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1", "watch=true&resourceVersion=abc&timeoutSeconds=1",
        "sendInitialEvents=x&watch=true&timeoutSeconds=1", "allowWatchBookmarks=x&limit=1",
    )
}  # fmt: skip

PATHS = {
    path: get(path)
    for path in (
        "/api/v1/nosuch", "/api/v2/pods", "/apis/nosuch.io/v1/things", "/apis/apps/v9/deployments", "/nosuch",
        f"{MAPS}/absent", f"{CORE}/nosuch", f"{PRESENT}/nosuch", f"{PRESENT}/data/a", "/api/v1/configmaps/present",
        "/api/v1/namespaces/nowhere/configmaps/x", "/api/v1/namespaces/nowhere", "/api/v1/nodes/nowhere",
        f"/api/v1/namespaces/{NAMESPACE}/nodes", f"{CORE}/configmaps/a%2Fb", f"{CORE}/configmaps/..%2F..%2Fsecrets",
        f"{CORE}/configmaps/%2e%2e/secrets", f"{CORE}/configmaps/../secrets", f"{CORE}//configmaps", f"{CORE}/secrets/",
        "/api/v1/../v1/pods", "//api/v1/namespaces",
        f"{MAPS}/%C3%BC", f"{MAPS}/a%20b", "/API/V1/pods",
        "/apis/apps/v1/namespaces/compare/deployments/absent/scale", f"{WIDGETS}/absent", "/apis/example.com/v2/widgets",
        "/apis/example.com/v1/gadgets", "/apis/example.com", "/api/v1/watch/nosuch",
        f"{PODS}/absent/log", f"{PODS}/present/log?container=nosuch", f"{PODS}/present/nosuch", "/openapi/v3/nosuch", "/version/x",
        "/healthz/nosuch", "/readyz/nosuch", "/metrics/nosuch",
    )
}  # fmt: skip

METHODS = {
    "POST to an object": Request("POST", PRESENT, config_map("present")),
    "PATCH of a collection": patch({}, MERGE, MAPS),
    "PUT of all namespaces": put(config_map(), "/api/v1/configmaps"),
    "POST without a namespace": post(config_map(), "/api/v1/configmaps"),
    "DELETE of all namespaces": Request("DELETE", "/api/v1/configmaps"),
    "DELETE of namespaces": Request("DELETE", "/api/v1/namespaces"),
    "OPTIONS": Request("OPTIONS", MAPS),
    "GET of a token": get(f"{CORE}/serviceaccounts/default/token"),
    "GET of a review": get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    "PUT of a review": put({}, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    "POST to discovery": post({}, "/api/v1"),
    "DELETE of what is not there": Request("DELETE", f"{MAPS}/absent"),
    "DELETE with another uid": Request("DELETE", PRESENT, {"preconditions": {"uid": "x"}}),
    "DELETE of an old version": Request("DELETE", PRESENT, {"preconditions": {"resourceVersion": "1"}}),
    "DELETE with an odd policy": Request("DELETE", PRESENT, {"propagationPolicy": "Odd"}),
    "DELETE with two policies": Request("DELETE", PRESENT, {"propagationPolicy": "Orphan", "orphanDependents": True}),
    "DELETE with bad JSON": Request("DELETE", PRESENT, b"{"),
    "DELETE with another kind": Request("DELETE", PRESENT, config_map()),
    "DELETE with a word for grace": Request("DELETE", PRESENT, {"gracePeriodSeconds": "x"}),
    "DELETE with an odd dry run": Request("DELETE", PRESENT, {"dryRun": ["Some"]}),
    "DELETE with an odd dry run in the query": Request("DELETE", f"{PRESENT}?dryRun=Some"),
    "DELETE with an odd policy in the query": Request("DELETE", f"{PRESENT}?propagationPolicy=Odd"),
}  # fmt: skip

ACCEPTS = {
    f"Accept: {accept}": get(PRESENT, Accept=accept)
    for accept in (
        "text/html", "application/xml", "image/png", "application/json;as=Nope;g=meta.k8s.io;v=v1",
        "application/json;as=Table;g=nope;v=v1", "application/json;as=Table;g=meta.k8s.io;v=v9", "nonsense", "*/*",
        "text/html, application/json;q=0.1", "application/json;as=Table;g=meta.k8s.io;v=v9, application/json",
    )
}  # fmt: skip

TOKENS = {
    f"token: {name}": Request("GET", PRESENT, token=token)
    for name, token in {
        "none at all": "", "unknown": "nope", "empty parts": "..", "one dot": "a.b", "spaces": "a b",
        "truncated": "$truncated", "tampered": "$tampered", "unsigned": "$unsigned", "expired": "$expired",
        "not yet valid": "$not-yet", "of another key": "$other-key", "of another issuer": "$other-issuer",
        "for another audience": "$other-audience", "of another uid": "$other-uid", "without claims": "$no-claims",
        "good but weak": "$good", "of nobody in particular": "nobody-token",
    }.items()
}  # fmt: skip
TOKENS["basic authentication"] = Request(
    "GET", PRESENT, token="", headers=(("Authorization", "Basic YTpi"),)
)
TOKENS["an empty bearer"] = Request(
    "GET", PRESENT, token="", headers=(("Authorization", "Bearer"),)
)
TOKENS["bearer in small letters"] = Request(
    "GET", PRESENT, token="", headers=(("Authorization", "bearer admin-token"),)
)

FORBIDDEN = {
    "weak: get": as_user("GET", PRESENT),
    "weak: list": as_user("GET", MAPS),
    "weak: list everywhere": as_user("GET", "/api/v1/configmaps"),
    "weak: watch": as_user("GET", f"{MAPS}?watch=true&timeoutSeconds=1"),
    "weak: create": as_user("POST", MAPS, config_map()),
    "weak: create bad JSON": as_user("POST", MAPS, b"{"),
    "weak: update": as_user("PUT", PRESENT, config_map("present")),
    "weak: patch": as_user("PATCH", PRESENT, {}, MERGE),
    "weak: delete": as_user("DELETE", PRESENT),
    "weak: delete all": as_user("DELETE", MAPS),
    "weak: subresource": as_user("GET", f"{PODS}/present/log"),
    "weak: scale": as_user("GET", f"{DEPLOYMENTS}/present/scale"),
    "weak: widgets": as_user("GET", WIDGETS),
    "weak: cluster scoped": as_user("GET", "/api/v1/nodes/x"),
    "weak: unknown resource": as_user("GET", "/api/v1/nosuch"),
    "weak: unknown group": as_user("GET", "/apis/nosuch.io/v1/things"),
    "weak: metrics": as_user("GET", "/metrics"),
    "weak: unknown path": as_user("GET", "/nosuch"),
    "weak: discovery": as_user("GET", "/apis/nosuch.io"),
    "impersonate nobody": Request("GET", PRESENT, headers=(("Impersonate-Group", "g"),)),
    "impersonate a masters group": Request("GET", PRESENT, token="nobody-token", headers=(
        ("Impersonate-User", "a"), ("Impersonate-Group", "system:masters"))),
    "impersonate without the right": Request("GET", PRESENT, token="nobody-token", headers=(("Impersonate-User", "a"),)),
    "impersonate an account without the right": Request("GET", PRESENT, token="nobody-token", headers=(
        ("Impersonate-User", "system:serviceaccount:a:b"),)),
    "escalate a role": as_user("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "x"}}),
}  # fmt: skip

HEADERS = {
    "a long header": get(PRESENT, X_Long="a" * 7000),
    "many headers": Request("GET", PRESENT, headers=tuple((f"X-{i}", "v") for i in range(50))),
    "a header with UTF-8": Request("GET", PRESENT, headers=(("X-Odd", "caf\xe9"),)),
    "an odd user agent": Request("GET", PRESENT, headers=(("User-Agent", "\\x/"),)),
}

# Not here, because ours answers in another way on purpose or by its nature:
# * a method that is no HTTP method, a header over 8 kB and more than 100 headers end in the HTTP
#   library (400), where the reference goes on to its own answers;
# * NUL in a path is refused (400) before anything looks at it; "." in a path is 404 and not the 500
#   that the reference's storage gives it; "%" in a name is an ordinary unknown name;
# * an Accept of application/* is served;
# * kinds of versions that are no longer served are unknown ones.
SILENT = {
    "nesting of 1000", "nesting of 9000", "a deep applied configuration", "Accept: text/html",
    "Accept: application/xml", "Accept: image/png", "Accept: nonsense",
}  # fmt: skip
"""Same code and reason, other words: ours stops at fewer levels, and negotiates in one place."""
CODES = {"//api/v1/namespaces", "/openapi/v3/nosuch", "/version/x", "/apis/example.com/v1/gadgets"}
"""Same code only: one says it as a Status, the other in plain text or not at all."""
GENERATED = {"generateName too long": "a" * 58, "generateName with capitals": "Up-"}

CASES = {
    **BODIES, **TYPES, **NAMES, **UNKNOWN, **SIZES, **PATCHES, **UPDATES, **OPTIONS, **LISTS, **PATHS, **METHODS,
    **ACCEPTS, **TOKENS, **FORBIDDEN, **HEADERS,
}  # fmt: skip


@pytest.fixture(scope="module")
def furnished(pair: Pair) -> Iterator[Pair]:
    """Both servers with one object of each kind that the cases are about."""
    minimal = {"containers": [{"name": "main", "image": "busybox"}]}
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": minimal}
    deployment = {"selector": {"matchLabels": labels}, "template": template}
    objects = (
        (MAPS, config_map("present", data={"a": "b"})),
        (MAPS, config_map("frozen", data={"a": "b"}, immutable=True)),
        (PODS, {**pod(), "metadata": {"name": "present"}}),
        (WIDGETS, {**widget(), "metadata": {"name": "present"}}),
        (
            DEPLOYMENTS,
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "present"},
                "spec": deployment,
            },
        ),
    )
    for path, body in objects:
        pair.send(Request("POST", path, body, about="present" if path == MAPS else ""))
    pair.send(Request("GET", PRESENT, about="present"))
    pair.both(give_tokens)
    yield pair


@pytest.mark.parametrize("name", CASES)
def test_bad_input(furnished: Pair, name: str) -> None:
    how = {"messages": name not in SILENT, "generated": GENERATED.get(name, "")}
    outcome = furnished.send(CASES[name], **how)
    furnished.both(_alive)
    if name in CODES:
        assert outcome.ours.code == outcome.theirs.code
        return
    assert not outcome.found, outcome.report()


def _alive(side: Side) -> None:
    assert side.send(Request("GET", "/readyz")).body == b"ok", side.name
