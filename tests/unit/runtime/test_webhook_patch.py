"""JSON patches from a before/after pair."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.cluster.apiserver.patch.jsonpatch import apply_json_patch
from corral.runtime.webhooks.jsonpatch import json_patch, same

CASES: dict[str, tuple[Any, Any, list[Any]]] = {
    "same": ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, []),
    "add": ({}, {"a": 1}, [{"op": "add", "path": "/a", "value": 1}]),
    "remove": ({"a": 1}, {}, [{"op": "remove", "path": "/a"}]),
    "replace": ({"a": 1}, {"a": 2}, [{"op": "replace", "path": "/a", "value": 2}]),
    "true is not one": ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
    "float is not int": ({"a": 1}, {"a": 1.0}, [{"op": "replace", "path": "/a", "value": 1.0}]),
    "escapes": ({}, {"a/b~c": 1}, [{"op": "add", "path": "/a~1b~0c", "value": 1}]),
    "deep": (
        {"spec": {"a": "x" * 40, "b": 1}},
        {"spec": {"a": "x" * 40, "b": 2}},
        [{"op": "replace", "path": "/spec/b", "value": 2}],
    ),
    "insert": (
        {"a": ["x" * 40, "y" * 40]},
        {"a": ["x" * 40, "new", "y" * 40]},
        [{"op": "add", "path": "/a/1", "value": "new"}],
    ),
    "append": (
        {"a": ["x" * 40]},
        {"a": ["x" * 40, 1, 2]},
        [{"op": "add", "path": "/a/1", "value": 1}, {"op": "add", "path": "/a/2", "value": 2}],
    ),
    "drop two": (
        {"a": ["x" * 60, "b", "c", "y" * 60]},
        {"a": ["x" * 60, "y" * 60]},
        [{"op": "remove", "path": "/a/2"}, {"op": "remove", "path": "/a/1"}],
    ),
    "inside an item": (
        {"a": [{"name": "x" * 40, "v": 1}]},
        {"a": [{"name": "x" * 40, "v": 2}]},
        [{"op": "replace", "path": "/a/0/v", "value": 2}],
    ),
}


@pytest.mark.parametrize("before,after,expected", CASES.values(), ids=CASES)
def test_cases(before: Any, after: Any, expected: list[Any]) -> None:
    assert json_patch(before, after) == expected


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b/~", "é"]),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(["a", "b", "c/d", "e~f", ""]), inner, max_size=4)
    ),
    max_leaves=25,
)
_objects = st.dictionaries(st.sampled_from(["a", "b", "c"]), _json, max_size=3)


@given(_objects, _objects)
def test_applying_it_gives_exactly_the_other(before: Any, after: Any) -> None:
    untouched = deepcopy(before)
    patch = json_patch(before, after)
    assert same(before, untouched)
    assert same(apply_json_patch(before, orjson.dumps(patch)), after)
    assert all(operation["path"] for operation in patch)
