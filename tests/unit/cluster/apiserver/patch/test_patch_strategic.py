"""Strategic merge patch by vectors.

``strategic_vectors.json`` holds documents and patches as fragments of built-in kinds. Every result
and every error was taken from Kubernetes' own merge and confirmed by a kube-apiserver with the
fragment inside a Deployment, Service, ConfigMap or PodDisruptionBudget.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from corral.cluster.apiserver.patch import apply_strategic_patch, go_format
from corral.cluster.apiserver.patch.patchmeta import patch_type
from corral.kube.errors import ApiError
from corral.kube.types import Obj

VECTORS: list[Obj] = orjson.loads(Path(__file__).with_name("strategic_vectors.json").read_bytes())
REASONS = {400: "BadRequest", 422: "Invalid", 500: None}
PATCHES = [v for v in VECTORS if "want" in v]
MISTAKES = [v for v in VECTORS if "error" in v]


def named(vector: Obj) -> str:
    return str(vector["name"])


@pytest.mark.parametrize("vector", PATCHES, ids=named)
def test_merges(vector: Obj) -> None:
    doc = orjson.loads(orjson.dumps(vector["doc"]))
    got = apply_strategic_patch(doc, orjson.dumps(vector["patch"]), vector["definition"])
    assert got == vector["want"]


@pytest.mark.parametrize("vector", MISTAKES, ids=named)
def test_refuses(vector: Obj) -> None:
    doc = orjson.loads(orjson.dumps(vector["doc"]))
    with pytest.raises(ApiError) as caught:
        apply_strategic_patch(doc, orjson.dumps(vector["patch"]), vector["definition"])
    status, want = caught.value.status, vector["error"]
    assert (status["code"], status["message"]) == (want["code"], want["message"])
    assert status.get("reason") == REASONS[want["code"]]


def test_every_kind_of_case_is_there() -> None:
    text = orjson.dumps([v["patch"] for v in PATCHES]).decode()
    for directive in (
        '"$patch":"replace"',
        '"$patch":"delete"',
        '"$retainKeys"',
        '"$deleteFromPrimitiveList/',
        '"$setElementOrder/',
    ):
        assert directive in text
    assert {v["error"]["code"] for v in MISTAKES} == {400, 500}


POD = "io.k8s.api.core.v1.Pod"
INTO_MAP = "into Go value of type map[string]interface {}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "invalid JSON patch"),
        (b"{", "invalid JSON patch"),
        (b"[]", f"json: cannot unmarshal array {INTO_MAP}"),
        (b'"x"', f"json: cannot unmarshal string {INTO_MAP}"),
        (b"3", f"json: cannot unmarshal number {INTO_MAP}"),
    ],
)
def test_bodies_that_are_no_objects(body: bytes, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        apply_strategic_patch({}, body, POD)
    status = caught.value.status
    assert (status["code"], status["reason"], status["message"]) == (400, "BadRequest", message)


def test_null_is_an_empty_patch() -> None:
    assert apply_strategic_patch({"kind": "Pod"}, b"null", POD) == {"kind": "Pod"}


def test_a_decoded_patch_is_taken_too() -> None:
    patch = {"metadata": {"labels": {"b": "2"}}}
    doc = {"metadata": {"labels": {"a": "1"}}}
    assert apply_strategic_patch(doc, patch, POD) == {"metadata": {"labels": {"a": "1", "b": "2"}}}


def test_lists_of_lists_are_invalid() -> None:
    doc: Obj = {"metadata": {"finalizers": []}}
    with pytest.raises(ApiError) as caught:
        apply_strategic_patch(doc, b'{"metadata":{"finalizers":[["x"]]}}', POD)
    assert caught.value.status["code"] == 422
    assert caught.value.status["reason"] == "Invalid"


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"containers": [{"name": {"a": 1}}]}},
        {"spec": {"$retainKeys": [["containers"]]}},
        {"spec": {"$setElementOrder/tolerations": [{"key": "x"}], "tolerations": [{"key": "x"}]}},
        {"spec": {"containers": [None]}},
    ],
    ids=["object as a merge key", "list as a retained key", "order without merge key", "null item"],
)
def test_what_kube_apiserver_cannot_compare_is_an_error(patch: Obj) -> None:
    doc = {"spec": {"containers": [{"name": "a"}], "tolerations": [{"key": "y"}]}}
    with pytest.raises(ApiError) as caught:
        apply_strategic_patch(doc, patch, POD)
    assert caught.value.status["code"] == 500


def test_merge_keys_of_another_type_do_not_match() -> None:
    doc = {"spec": {"ports": [{"port": 80, "name": "a"}]}}
    patch = {"spec": {"ports": [{"port": 80.0, "name": "b"}]}}
    got = apply_strategic_patch(doc, patch, "io.k8s.api.core.v1.Service")
    assert got["spec"]["ports"] == [{"port": 80.0, "name": "b"}, {"port": 80, "name": "a"}]


def test_fields_know_how_they_merge() -> None:
    pod = patch_type("io.k8s.api.core.v1.PodSpec")
    field, item = pod.list_field("volumes")
    assert (field.strategy, field.merge_key, item.name) == ("merge", "name", "Volume")
    assert pod.list_field("volumes") == (field, item)
    assert pod.list_field("VOLUMES")[1] is item  # JSON names match without case, as in Go
    strategy = patch_type("io.k8s.api.apps.v1.DeploymentSpec").field("strategy")
    assert (strategy.strategy, strategy.value.name) == ("", "DeploymentStrategy")
    selector = patch_type("io.k8s.api.policy.v1.PodDisruptionBudgetSpec").field("selector")
    assert selector.strategy == "replace"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": [1, "x"], "a": {"c": None}}, "map[a:map[c:<nil>] b:[1 x]]"),
        ([True, False], "[true false]"),
        (1.5, "1.5"),
        (80.0, "80"),
        (1e21, "1e+21"),
        ({}, "map[]"),
    ],
)
def test_go_format(value: Any, text: str) -> None:
    assert go_format(value) == text
