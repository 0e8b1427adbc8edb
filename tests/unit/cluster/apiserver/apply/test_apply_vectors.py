"""What kube-apiserver made of the same writes: managedFields, objects and errors, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from corral.cluster.apiserver.apply import (
    TypeSchema,
    apply,
    builtin_schema,
    crd_schema,
    track_update,
)
from corral.kube.errors import ApiError
from corral.kube.types import Obj

NOW = "2100-01-01T00:00:00Z"
FILE = Path(__file__).parent / "apply_vectors.json"
DATA: dict[str, Any] = orjson.loads(FILE.read_bytes())
WRITTEN = [v for v in DATA["vectors"] if "error" not in v]
REFUSED = [v for v in DATA["vectors"] if "error" in v]


def schema_of(vector: Obj) -> TypeSchema:
    if "definition" in vector["schema"]:
        return builtin_schema(vector["schema"]["definition"])
    return crd_schema(DATA["crds"][vector["schema"]["crd"]], preserve_unknown=False)


def run(vector: Obj) -> Obj:
    fresh: Obj = orjson.loads(orjson.dumps(vector))
    common: dict[str, Any] = {
        "live": fresh.get("live"),
        "manager": fresh["manager"],
        "api_version": fresh["apiVersion"],
        "now": NOW,
        "subresource": fresh.get("subresource", ""),
        "reset_fields": [tuple(p) for p in fresh.get("reset", ())],
        "versions": {fresh["apiVersion"]},
    }
    schema = schema_of(vector)
    if fresh["op"] == "apply":
        return apply(schema, config=fresh["input"], force=fresh["force"], **common)
    new: Obj = fresh["input"]
    track_update(schema, new=new, **common)
    return new


@pytest.mark.parametrize("vector", WRITTEN, ids=lambda v: v["name"])
def test_managed_fields_are_those_of_kube_apiserver(vector: Obj) -> None:
    entries = run(vector)["metadata"].get("managedFields")
    expected = orjson.loads(
        orjson.dumps(vector["managedFields"]).replace(b'"NOW"', f'"{NOW}"'.encode())
    )
    assert entries == expected
    if "definition" not in vector["schema"]:
        return  # custom resources are written with sorted keys throughout
    # The order of elements as well: it is what clients get to see.
    assert orjson.dumps(entries) == orjson.dumps(expected)


@pytest.mark.parametrize("vector", REFUSED, ids=lambda v: v["name"])
def test_refusals_are_those_of_kube_apiserver(vector: Obj) -> None:
    with pytest.raises(ApiError) as refused:
        run(vector)
    expected = vector["error"]
    status = refused.value.status
    assert status["message"] == expected["message"]
    assert status["code"] == expected["code"]
    assert status.get("reason", "") == expected["reason"]
    assert status.get("details", {}) == expected["details"]


@pytest.mark.parametrize(
    "vector", [v for v in WRITTEN if v.get("same_object")], ids=lambda v: v["name"]
)
def test_merged_objects_are_those_of_kube_apiserver(vector: Obj) -> None:
    result = run(vector)
    assert {k: v for k, v in result.items() if k != "metadata"} == {
        k: v for k, v in vector["object"].items() if k != "metadata"
    }


def test_last_applied_annotation_follows_kubectl() -> None:
    vector = next(v for v in WRITTEN if v["name"] == "ssa kubectl allowed")
    expected = vector["object"]["metadata"]["annotations"]
    assert run(vector)["metadata"]["annotations"] == expected
