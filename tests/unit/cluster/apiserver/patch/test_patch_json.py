"""RFC 6902 as kube-apiserver applies it; every result was compared with its library."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from corral.cluster.apiserver.patch import apply_json_patch
from corral.kube.errors import ApiError

REFUSED = "the server rejected our request due to an error in our request"


def op(kind: str, path: str, *value: Any, **members: Any) -> dict[str, Any]:
    given = {"value": value[0]} if value else {}
    return {"op": kind, "path": path, **given, **members}


def copy(source: str, path: str) -> dict[str, Any]:
    return op("copy", path, **{"from": source})


def move(source: str, path: str) -> dict[str, Any]:
    return op("move", path, **{"from": source})


APPLIES: dict[str, tuple[Any, list[Any], Any]] = {
    "add a member": ({"a": 1}, [op("add", "/b", 2)], {"a": 1, "b": 2}),
    "add over a member": ({"a": 1}, [op("add", "/a", [3])], {"a": [3]}),
    "add into an object": ({"a": {}}, [op("add", "/a/b", {"c": 1})], {"a": {"b": {"c": 1}}}),
    "add an item": ({"a": [1, 3]}, [op("add", "/a/1", 2)], {"a": [1, 2, 3]}),
    "add at the end by index": ({"a": [1]}, [op("add", "/a/1", 2)], {"a": [1, 2]}),
    "add at the end by dash": ({"a": [1]}, [op("add", "/a/-", [2])], {"a": [1, [2]]}),
    "add at -1 appends": ({"a": [1, 2]}, [op("add", "/a/-1", 3)], {"a": [1, 2, 3]}),
    "add before the last": ({"a": [1, 2]}, [op("add", "/a/-2", 3)], {"a": [1, 3, 2]}),
    "add at a signed index": ({"a": [1, 2]}, [op("add", "/a/+1", 3)], {"a": [1, 3, 2]}),
    "add null": ({}, [op("add", "/a", None)], {"a": None}),
    "add without value": ({}, [op("add", "/a")], {"a": None}),
    "add under the empty name": ({}, [op("add", "/", 1)], {"": 1}),
    "text before the first slash is ignored": ({"a": {}}, [op("add", "x/a/b", 1)], {"a": {"b": 1}}),
    "unknown members are ignored": ({}, [op("add", "/a", 1, extra=2)], {"a": 1}),
    "remove a member": ({"a": 1, "b": 2}, [op("remove", "/a")], {"b": 2}),
    "remove a null": ({"a": None}, [op("remove", "/a")], {}),
    "remove an item": ({"a": [1, 2, 3]}, [op("remove", "/a/1")], {"a": [1, 3]}),
    "remove from the end": ({"a": [1, 2, 3]}, [op("remove", "/a/-3")], {"a": [2, 3]}),
    "replace a member": ({"a": 1}, [op("replace", "/a", {"b": 2})], {"a": {"b": 2}}),
    "replace a missing member adds it": ({}, [op("replace", "/a", 1)], {"a": 1}),
    "replace an item": ({"a": [1, 2]}, [op("replace", "/a/-1", 3)], {"a": [1, 3]}),
    "replace the document": ({"a": 1}, [op("replace", "", {"b": 2})], {"b": 2}),
    "move a member": ({"a": {"b": 1}, "c": {}}, [move("/a/b", "/c/d")], {"a": {}, "c": {"d": 1}}),
    "move an item": ({"a": [1, 2, 3]}, [move("/a/0", "/a/2")], {"a": [2, 3, 1]}),
    "move a null": ({"a": None}, [move("/a", "/b")], {"b": None}),
    "copy a member": ({"a": {"b": [1]}}, [copy("/a/b", "/c")], {"a": {"b": [1]}, "c": [1]}),
    "a copy is independent": (
        {"a": [1]},
        [copy("/a", "/b"), op("add", "/b/-", 2)],
        {"a": [1], "b": [1, 2]},
    ),
    "copy a missing member adds null": ({"a": 1}, [copy("/z", "/b")], {"a": 1, "b": None}),
    "escapes": ({"a/b": 1, "m~n": 2}, [op("remove", "/a~1b"), move("/m~0n", "/~01")], {"~1": 2}),
    "test a string": ({"a": "x"}, [op("test", "/a", "x")], {"a": "x"}),
    "test an object in any order": (
        {"a": {"x": 1, "y": [True, "z"]}},
        [op("test", "/a", {"y": [True, "z"], "x": 1})],
        {"a": {"x": 1, "y": [True, "z"]}},
    ),
    "test an item": ({"a": [1, 2]}, [op("test", "/a/-1", 2)], {"a": [1, 2]}),
    "test the document": ({"a": 1}, [op("test", "", {"a": 1})], {"a": 1}),
    "test a missing member for null": ({}, [op("test", "/a", None)], {}),
    "test a missing member without value": ({}, [op("test", "/a")], {}),
    "operations see what earlier ones did": (
        {"a": []},
        [op("add", "/a/-", {"n": 1}), op("replace", "/a/0/n", 2), op("test", "/a", [{"n": 2}])],
        {"a": [{"n": 2}]},
    ),
    "no operations": ({"a": 1}, [], {"a": 1}),
    "null for a patch": ({"a": 1}, None, {"a": 1}),  # type: ignore[dict-item]  # what a client may send
}

REFUSES: dict[str, tuple[Any, Any]] = {
    "add below a missing member": ({}, [op("add", "/a/b", 1)]),
    "add below a scalar": ({"a": 1}, [op("add", "/a/b", 1)]),
    "add below a null": ({"a": None}, [op("add", "/a/b", 1)]),
    "add past the end": ({"a": [1]}, [op("add", "/a/2", 1)]),
    "add before the start": ({"a": [1]}, [op("add", "/a/-3", 1)]),
    "add at a name in a list": ({"a": [1]}, [op("add", "/a/x", 1)]),
    "add at a spaced index": ({"a": [1]}, [op("add", "/a/ 0", 1)]),
    "add at an index no integer holds": ({"a": [1]}, [op("add", "/a/" + "9" * 5000, 1)]),
    "add the document": ({}, [op("add", "", {})]),
    "add to a path without a slash": ({"a": 1}, [op("add", "a", 1)]),
    "add without path": ({}, [{"op": "add", "value": 1}]),
    "add with a null path": ({}, [{"op": "add", "path": None, "value": 1}]),
    "remove a missing member": ({}, [op("remove", "/a")]),
    "remove a missing item": ({"a": [1]}, [op("remove", "/a/1")]),
    "remove the dash": ({"a": [1]}, [op("remove", "/a/-")]),
    "remove the document": ({}, [op("remove", "")]),
    "replace below a missing member": ({}, [op("replace", "/a/b", 1)]),
    "replace a missing item": ({"a": [1]}, [op("replace", "/a/1", 1)]),
    "replace the document by a number": ({}, [op("replace", "", 3)]),
    "replace the document by null": ({}, [op("replace", "", None)]),
    "move a missing member": ({}, [move("/a", "/b")]),
    "move into itself": ({"a": {}}, [move("/a", "/a/b")]),
    "move without from": ({"a": 1}, [op("move", "/b")]),
    "copy a missing item": ({"a": []}, [copy("/a/0", "/b")]),
    "copy below a missing member": ({"a": 1}, [copy("/a", "/b/c")]),
    "test another value": ({"a": "x"}, [op("test", "/a", "y")]),
    "test another type of number": ({"a": 1}, [op("test", "/a", 1.0)]),
    "test true is not one": ({"a": 1}, [op("test", "/a", True)]),
    "test nested true is not one": ({"a": [1]}, [op("test", "/a", [True])]),
    "test missing for a value": ({}, [op("test", "/a", 1)]),
    "test a value for null": ({"a": 1}, [op("test", "/a", None)]),
    "test the document for another": ({"a": 1}, [op("test", "", {})]),
    "test a null member is not an absent one": ({"a": {"b": None}}, [op("test", "/a", {})]),
    "unknown operation": ({}, [op("merge", "/a", 1)]),
    "names are case-sensitive": ({}, [{"OP": "add", "path": "/a", "value": 1}]),
    "an empty operation": ({}, [{}]),
    "a null operation": ({}, [None]),
    "too much copied": (
        {"a": "x" * 1_000_000},
        [copy("/a", f"/b{i}") for i in range(4)],
    ),
    "a copy nested too deep to store": (
        {"a": {}},
        [step for _ in range(300) for step in (copy("/a", "/b"), move("/b", "/a/a"))],
    ),
}

UNDECODABLE = {
    "nothing": (b"", "invalid JSON patch"),
    "not JSON": (b"[{", "invalid JSON patch"),
    "JSON and more": (b"[] x", "invalid JSON patch"),
    "an object": (
        b"{}",
        "error decoding patch: json: cannot unmarshal object into Go value of type "
        "[]handlers.jsonPatchOp",
    ),
    "a string": (
        b'"x"',
        "error decoding patch: json: cannot unmarshal string into Go value of type "
        "[]handlers.jsonPatchOp",
    ),
    "numbers": (
        b"[1]",
        "error decoding patch: json: cannot unmarshal number into Go value of type "
        "handlers.jsonPatchOp",
    ),
    "op is a number": (
        b'[{"op":1}]',
        "error decoding patch: json: cannot unmarshal number into Go struct field "
        "jsonPatchOp.op of type string",
    ),
    "path is a list": (
        b'[{"op":"add","path":[]}]',
        "error decoding patch: json: cannot unmarshal array into Go struct field "
        "jsonPatchOp.path of type string",
    ),
}


@pytest.mark.parametrize(("doc", "patch", "want"), APPLIES.values(), ids=APPLIES)
def test_applies(doc: Any, patch: Any, want: Any) -> None:
    assert apply_json_patch(orjson.loads(orjson.dumps(doc)), orjson.dumps(patch)) == want


@pytest.mark.parametrize(("doc", "patch"), REFUSES.values(), ids=REFUSES)
def test_refuses(doc: Any, patch: Any) -> None:
    with pytest.raises(ApiError) as caught:
        apply_json_patch(orjson.loads(orjson.dumps(doc)), orjson.dumps(patch))
    status = caught.value.status
    assert (status["code"], status["reason"], status["message"]) == (422, "Invalid", REFUSED)


@pytest.mark.parametrize(("body", "message"), UNDECODABLE.values(), ids=UNDECODABLE)
def test_undecodable(body: bytes, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        apply_json_patch({}, body, problems=[])
    status = caught.value.status
    assert (status["code"], status["reason"], status["message"]) == (400, "BadRequest", message)


def test_a_list_for_a_document_is_invalid() -> None:
    with pytest.raises(ApiError) as caught:
        apply_json_patch({}, orjson.dumps([op("replace", "", [1])]))
    status = caught.value.status
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"].startswith(
        ' "" is invalid: patch: Invalid value: "[1]": couldn\'t get version/kind; json parse '
        "error: json: cannot unmarshal array into Go value of type struct { APIVersion string "
    )


def test_operations_are_limited() -> None:
    step = op("add", "/a", 1)
    assert apply_json_patch({}, orjson.dumps([step] * 10_000)) == {"a": 1}
    with pytest.raises(ApiError) as caught:
        apply_json_patch({}, orjson.dumps([step] * 10_001))
    status = caught.value.status
    assert (status["code"], status["reason"]) == (413, "RequestEntityTooLarge")
    assert status["message"] == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, "
        "got 10001"
    )


def test_unknown_members_are_reported_on_request() -> None:
    problems: list[str] = []
    patch = [op("add", "/a", 1), op("add", "/b", 2, extra=1, OP="x")]
    apply_json_patch({}, orjson.dumps(patch), problems=problems)
    assert problems == [
        'json patch unknown field "[1].extra"',
        'json patch unknown field "[1].OP"',
    ]
