"""Objects against a CRD: what kube-apiserver 1.37 answered to the same (data/gadget.json)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.apiserver.crd.definition.kind import default_crd, validate_crd
from corral.cluster.apiserver.crd.structural import compile_version
from corral.kube.errors import BadRequest, InternalError

DATA = json.loads((Path(__file__).parent / "data" / "gadget.json").read_text())
default_crd(DATA["crd"])
VERSION = compile_version(DATA["crd"], "v1")


def gadget(spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "shop.example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": "a"},
        "spec": copy.deepcopy(spec),
    }


def problems(found: list[Any]) -> list[list[str]]:
    return sorted([p.type, p.field, p.body] for p in found)


@pytest.mark.parametrize("name", DATA["values"])
def test_values_as_the_real_server_sees_them(name: str) -> None:
    case = DATA["values"][name]
    obj = gadget(case["spec"])
    if isinstance(case.get("errors"), str):
        with pytest.raises(BadRequest) as refused:
            VERSION.prune(obj)
        assert refused.value.message == case["errors"]
        return
    VERSION.prune(obj)
    VERSION.default(obj)
    assert problems(VERSION.validate(obj, None)) == sorted(case.get("errors", []))
    if "result" in case:
        assert obj["spec"] == case["result"]


def test_the_crd_is_valid() -> None:
    crd = copy.deepcopy(DATA["crd"])
    default_crd(crd)
    assert validate_crd(crd) == []


def test_unknown_fields_in_the_order_of_the_strict_decoding_error() -> None:
    obj = gadget(
        {
            "x": 1,
            "items": [{"name": "a", "z": 1}],
            "any": {"q": 1, "known": {"a": "1", "b": 2}},
            "labels": {"k": "v"},
            "tmpl": {"apiVersion": "v1", "kind": "P", "metadata": {"zz": 1, "labels": {"a": "b"}}},
            "a.b": {"c": 1},
        }
    )
    obj["metadata"] |= {"foo": 1, "managedFields": [{"zz": 1}], "ownerReferences": [{"x": 1}]}
    obj |= {"bar": 1, "status": {"zz": 1}}
    assert VERSION.prune(obj) == [
        "metadata.foo",
        "metadata.managedFields[0].zz",
        "metadata.ownerReferences[0].x",
        "bar",
        "spec.a.b",
        "spec.any.known.b",
        "spec.items[0].z",
        "spec.x",
        "status.zz",
        "spec.tmpl.metadata.zz",
    ]
    assert obj["spec"] == {
        "items": [{"name": "a"}],
        "any": {"q": 1, "known": {"a": "1"}},
        "labels": {"k": "v"},
        "tmpl": {"apiVersion": "v1", "kind": "P", "metadata": {"labels": {"a": "b"}}},
    }
    assert obj["metadata"] == {"name": "a", "managedFields": [{}], "ownerReferences": [{}]}


def test_pruning_a_clean_object_reports_nothing() -> None:
    assert VERSION.prune(gadget({"replicas": 1})) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({"color": "pink"}, {"color": "pink"}, [], id="unchanged"),
        pytest.param({"color": "pink"}, {"color": "pink", "mult": 5}, [], id="other-field"),
        pytest.param({"color": "pink"}, {"color": "grey"}, ["spec.color"], id="still-wrong"),
        pytest.param(
            {"items": [{"name": "a", "value": "x"}, {"name": "b"}]},
            {"items": [{"name": "b"}, {"name": "a", "value": "x"}]},
            [],
            id="moved-in-a-list-map",
        ),
        pytest.param(
            {"set": ["a", "a"]}, {"set": ["a", "a", "b"]}, [], id="list-type-broken-before"
        ),
        pytest.param({"set": ["a"]}, {"set": ["a", "a"]}, ["spec.set[1]"], id="list-type"),
    ],
)
def test_ratcheting(old: Any, new: Any, expected: list[str]) -> None:
    found = VERSION.validate(gadget(new), gadget(old))
    assert [p.field for p in found] == expected


def test_status_writes_validate_the_status_alone() -> None:
    old = gadget({"color": "pink"})
    new = copy.deepcopy(old) | {"status": {"replicas": "x"}}
    assert [str(p) for p in VERSION.validate(new, old, status=True)] == [
        'status.replicas: Invalid value: "string": replicas in body must be of type integer: '
        '"string"',
        ".status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the type "
        "string, expected int64",
    ]


def test_published_schema() -> None:
    assert VERSION.openapi == DATA["openapi"]
    assert VERSION.openapi_list == DATA["openapi_list"]


def test_scale() -> None:
    obj = gadget({"replicas": 3}) | {"status": {"replicas": 2, "selector": "a=b"}}
    obj["metadata"] |= {"namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"}}
    assert VERSION.get_scale(obj) == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"},
        "spec": {"replicas": 3},
        "status": {"replicas": 2, "selector": "a=b"},
    }
    VERSION.set_scale_replicas(obj, 5)
    assert obj["spec"] == {"replicas": 5}
    with pytest.raises(InternalError, match="does not exist"):
        VERSION.get_scale(gadget({}))


def test_selectable_fields() -> None:
    assert VERSION.selectable_fields == ["spec.color"]
    assert VERSION.field_values(gadget({"color": "red"})) == {"spec.color": "red"}
    assert VERSION.field_values(gadget({})) == {"spec.color": ""}
