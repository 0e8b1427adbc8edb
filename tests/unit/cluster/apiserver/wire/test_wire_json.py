"""Normal form, as printed by Kubernetes 1.37 for the same bodies."""

import json
from typing import Any

import orjson
import pytest

from corral.cluster.apiserver.codec import decode_json, emptied, message, message_for, normalise
from corral.cluster.apiserver.codec.types import Message


def found(api_version: str, kind: str) -> Message:
    group, _, version = api_version.rpartition("/")
    msg = message_for(group, version, kind)
    assert msg is not None
    return msg


EMPTY_POD_TEMPLATE = {"metadata": {}, "spec": {"containers": None}}


@pytest.mark.parametrize(
    ("api_version", "kind", "body", "expected"),
    [
        ("apps/v1", "Deployment", {},
         {"metadata": {}, "spec": {"selector": None, "template": EMPTY_POD_TEMPLATE,
                                   "strategy": {}}, "status": {}}),
        ("v1", "ConfigMap", {"data": {}, "binaryData": None, "immutable": False},
         {"metadata": {}, "immutable": False}),
        ("v1", "Service", {"spec": {"ports": [{"port": 80}]}},
         {"metadata": {}, "spec": {"ports": [{"port": 80, "targetPort": 0}]},
          "status": {"loadBalancer": {}}}),
        ("v1", "Pod", {"spec": {"containers": [None], "hostNetwork": False,
                                "terminationGracePeriodSeconds": 0}},
         {"metadata": {}, "spec": {"containers": [{"name": "", "resources": {}}],
                                   "terminationGracePeriodSeconds": 0}, "status": {}}),
        ("v1", "Pod", {"metadata": {"labels": {"b": None, "a": "x"}, "annotations": {},
                                    "creationTimestamp": None, "deletionTimestamp": None},
                       "unknown": {"x": 1}},
         {"metadata": {"labels": {"a": "x", "b": ""}}, "spec": {"containers": None},
          "status": {}}),
        ("v1", "ResourceQuota", {"spec": {"hard": {"memory": "1024Ki", "cpu": "1000m", "pods": 3,
                                                   "x": 0.5, "y": " 1Gi ", "z": None}}},
         {"metadata": {}, "spec": {"hard": {"cpu": "1", "memory": "1Mi", "pods": "3", "x": "500m",
                                            "y": "1Gi", "z": "0"}}, "status": {}}),
        ("v1", "Secret", {"data": {"a": "QR==", "b": "QUJD\nQQ==", "c": [65], "d": None},
                          "type": "Opaque"},
         {"metadata": {}, "data": {"a": "QQ==", "b": "QUJDQQ==", "c": "QQ==", "d": ""},
          "type": "Opaque"}),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", {"rules": []},
         {"metadata": {}, "rules": []}),
        ("discovery.k8s.io/v1", "EndpointSlice", {"addressType": "IPv4", "endpoints": []},
         {"metadata": {}, "addressType": "IPv4", "endpoints": [], "ports": None}),
        ("v1", "PodList", {"items": []}, {"metadata": {}, "items": []}),
        ("apps/v1", "ControllerRevision", {}, {"metadata": {}, "data": None, "revision": 0}),
        ("coordination.k8s.io/v1", "Lease",
         {"spec": {"renewTime": "2020-01-01T02:00:00.100000+02:00"}},
         {"metadata": {}, "spec": {"renewTime": "2020-01-01T00:00:00.100000Z"}}),
        ("meta.k8s.io/v1", "DeleteOptions", {"gracePeriodSeconds": 0, "dryRun": []},
         {"gracePeriodSeconds": 0}),
        ("authentication.k8s.io/v1", "TokenRequest", {},
         {"metadata": {}, "spec": {"audiences": None, "expirationSeconds": None,
                                   "boundObjectRef": None},
          "status": {"token": "", "expirationTimestamp": None}}),
        ("metrics.k8s.io/v1beta1", "PodMetrics", {"window": "90s", "timestamp": None},
         {"metadata": {}, "timestamp": None, "window": "1m30s", "containers": None}),
    ],
)  # fmt: skip
def test_normal_form(
    api_version: str, kind: str, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    decoded = decode_json(found(api_version, kind), orjson.dumps(body), strict=False)
    whole = {"kind": kind, "apiVersion": api_version, **expected}
    assert json.dumps(decoded.obj) == json.dumps(whole)
    assert decoded.problems == []
    again = {**decoded.obj}
    assert normalise(found(api_version, kind), again) == decoded.obj


def test_schemas_of_custom_resources() -> None:
    schema = {
        "default": {"b": 1, "a": None},
        "enum": [1, None, "x"],
        "minimum": 1.0,
        "maximum": 1.5,
        "additionalProperties": {"foo": 1, "type": "string"},
        "properties": {
            "b": {"items": []},
            "a": {"items": {"type": "string"}, "required": []},
            "c": {"additionalProperties": False},
            "d": {"dependencies": {"x": ["a"], "y": {"type": "string"}, "z": 5}},
        },
    }
    expected = {
        "default": {"b": 1, "a": None},
        "maximum": 1.5,
        "minimum": 1,
        "enum": [1, None, "x"],
        "properties": {
            "a": {"items": {"type": "string"}},
            "b": {"items": None},
            "c": {"additionalProperties": False},
            "d": {"dependencies": {"x": ["a"], "y": {"type": "string"}, "z": None}},
        },
        "additionalProperties": {"type": "string"},
    }
    msg = message("apiextensions/v1.JSONSchemaProps")
    assert json.dumps(normalise(msg, schema)) == json.dumps(expected)


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        ('{"metadata":{"name":"a"}}', []),
        ('{"foo":1,"data":{"a":"1","a":"2"},"metadata":{"name":"a","x":2}}',
         ['unknown field "foo"', 'duplicate field "data.a"', 'unknown field "metadata.x"']),
        ('{"data":{"a":":x","b" : "y"},"metadata":{"annotations":{"x":"{\\"a\\":1}"}}}', []),
        ('{"Data":{}}', ['unknown field "Data"']),
        ('{"metadata":{"ownerReferences":[{},{"nme":"x"}]}}',
         ['unknown field "metadata.ownerReferences[1].nme"']),
    ],
)  # fmt: skip
def test_strict_problems(body: str, problems: list[str]) -> None:
    msg = message("core/v1.ConfigMap")
    assert decode_json(msg, body.encode(), strict=True).problems == problems
    assert decode_json(msg, body.encode(), strict=False).problems == []


def test_problems_of_a_parsed_object_are_its_unknown_fields() -> None:
    decoded = decode_json(message("core/v1.ConfigMap"), {"foo": {"bar": 1}}, strict=True)
    assert decoded.problems == ['unknown field "foo"']
    assert "foo" not in decoded.obj


def test_unknown_fields_inside_alternatives_are_not_reported() -> None:
    crd = {"spec": {"versions": [{"schema": {"openAPIV3Schema": {
        "foo": 1, "items": {"bar": 1}, "properties": {"a": {"baz": 1}}}}}]}}  # fmt: skip
    msg = message("apiextensions/v1.CustomResourceDefinition")
    schema = "spec.versions[0].schema.openAPIV3Schema"
    assert decode_json(msg, orjson.dumps(crd), strict=True).problems == [
        f'unknown field "{schema}.foo"',
        f'unknown field "{schema}.properties.a.baz"',
    ]


def test_broken_text_is_repaired_as_go_does() -> None:
    msg = message("core/v1.ConfigMap")
    decoded = decode_json(msg, b'{"data":{"a":"\\ud800","b":"\xff"}}', strict=False)
    assert decoded.obj["data"] == {"a": "\ufffd", "b": "\ufffd"}


def test_null_is_an_empty_object() -> None:
    decoded = decode_json(message("core/v1.ConfigMap"), b"null", strict=True)
    assert decoded.obj == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}}


def test_the_input_is_left_alone() -> None:
    body = {"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "1000m"}}}]}}
    before = orjson.dumps(body)
    normalise(message("core/v1.Pod"), body)
    assert orjson.dumps(body) == before


@pytest.mark.parametrize(
    ("api_version", "kind", "body", "expected"),
    [
        ("rbac.authorization.k8s.io/v1", "ClusterRole", {"rules": []}, {"rules": None}),
        ("rbac.authorization.k8s.io/v1", "Role", {"rules": [{"verbs": []}]},
         {"rules": [{"verbs": None}]}),
        ("v1", "Pod", {"spec": {"containers": [], "volumes": [{"projected": {"sources": []}}]}},
         {"spec": {"containers": None, "volumes": [{"projected": {"sources": None}}]}}),
    ],
)  # fmt: skip
def test_a_list_that_is_empty_in_the_request_is_null_in_the_store(
    api_version: str, kind: str, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    empty = emptied(found(api_version, kind))
    assert empty is not None
    empty(body)
    assert body == expected


def test_kinds_without_such_lists_need_no_emptying() -> None:
    assert emptied(found("v1", "ConfigMap")) is None
