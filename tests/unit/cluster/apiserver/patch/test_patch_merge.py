"""RFC 7386 as kube-apiserver applies it, and what all bodies have in common."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from corral.cluster.apiserver.patch import (
    apply_json_patch,
    apply_merge_patch,
    apply_strategic_patch,
)
from corral.cluster.apiserver.patch.body import MAX_DEPTH
from corral.kube.errors import ApiError, BadRequest
from corral.kube.types import Obj

CASES: dict[str, tuple[Obj, Obj, Obj]] = {
    "replace": ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    "add": ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    "remove": ({"a": "b"}, {"a": None}, {}),
    "remove one of two": ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    "remove what is not there": ({"a": "b"}, {"z": None}, {"a": "b"}),
    "a list by a string": ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    "a string by a list": ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    "lists are replaced": ({"a": [{"b": "c"}, 1]}, {"a": [2]}, {"a": [2]}),
    "nested": ({"a": {"b": "c", "d": "e"}}, {"a": {"b": "f", "d": None}}, {"a": {"b": "f"}}),
    "an object by a scalar": ({"a": {"b": 1}}, {"a": 2}, {"a": 2}),
    "a scalar by an object": ({"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}),
    "a null in the document stays": ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    "a null in the document is replaced": ({"e": None}, {"e": {"x": None}}, {"e": {}}),
    "a new object loses its nulls": ({}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
    "objects in a new list lose their nulls": (
        {},
        {"a": [None, {"b": None, "c": [{"d": None}]}]},
        {"a": [None, {"c": [{}]}]},
    ),
    "objects in a replaced list lose their nulls": (
        {"a": [1]},
        {"a": [{"b": None}, None]},
        {"a": [{}, None]},
    ),
    "a list in place of an object keeps its nulls": (
        {"a": {"x": 1}},
        {"a": [{"b": None}, None]},
        {"a": [{"b": None}, None]},
    ),
    "an empty object is no change": ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1}}),
    "an empty patch": ({"a": 1}, {}, {"a": 1}),
}

INTO_MAP = "into Go value of type map[string]interface {}"
REFUSED = {
    "nothing": (b"", "invalid JSON patch"),
    "not JSON": (b'{"a":', "invalid JSON patch"),
    "not UTF-8": (b'{"a":"\xff"}', "invalid JSON patch"),
    "null": (b"null", "Invalid JSON Patch"),
    "a list": (b"[]", f"error decoding patch: json: cannot unmarshal array {INTO_MAP}"),
    "a string": (b'"x"', f"error decoding patch: json: cannot unmarshal string {INTO_MAP}"),
    "a number": (b"3", f"error decoding patch: json: cannot unmarshal number {INTO_MAP}"),
    "a truth": (b"true", f"error decoding patch: json: cannot unmarshal bool {INTO_MAP}"),
}


@pytest.mark.parametrize(("doc", "patch", "want"), CASES.values(), ids=CASES)
def test_merges(doc: Obj, patch: Obj, want: Obj) -> None:
    assert apply_merge_patch(orjson.loads(orjson.dumps(doc)), orjson.dumps(patch)) == want


@pytest.mark.parametrize(("body", "message"), REFUSED.values(), ids=REFUSED)
def test_refuses(body: bytes, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        apply_merge_patch({}, body)
    status = caught.value.status
    assert (status["code"], status["reason"], status["message"]) == (400, "BadRequest", message)


def _nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def test_deep_bodies_are_bad_requests() -> None:
    def strategic(doc: Obj, body: bytes) -> Any:
        return apply_strategic_patch(doc, body, "io.k8s.api.core.v1.Pod")

    for apply in (apply_json_patch, apply_merge_patch, strategic):
        for levels in (MAX_DEPTH + 1, 1_000, 100_000):
            with pytest.raises(BadRequest):
                apply({}, _nested(levels))


def test_the_deepest_body_merges_and_can_be_stored() -> None:
    body = _nested(MAX_DEPTH)
    merged = apply_merge_patch(orjson.loads(body), body)
    assert orjson.dumps(merged) == body


def test_wide_bodies_are_not_deep() -> None:
    wide: Obj = {str(i): [] for i in range(2 * MAX_DEPTH)}
    assert apply_merge_patch({}, orjson.dumps(wide)) == wide
