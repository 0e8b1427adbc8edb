"""Literals of patches: how they are rewritten, checked and read back."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.cel import compile
from corral.cluster.apiserver.cel.patch_types import (
    TypeMismatch,
    flatten,
    plain_object,
    restore,
    to_maps,
)

KEY = '"\\u0000"'


@pytest.mark.parametrize(
    ("expression", "rewritten"),
    [
        ("Object{}", f'dyn({{{KEY}: "Object"}})'),
        ("Object{a: 1}", f'dyn({{{KEY}: "Object", "a": 1}})'),
        ("Object.a.b{?c: x, `d-e`: f(1, 2),}",
         f'dyn({{{KEY}: "Object.a.b", ?"c": x , "d-e": f(1, 2)}})'),
        ("JSONPatch{op: 'a'}", f'dyn({{{KEY}: "JSONPatch", "op": \'a\'}})'),
        ("{'a': 'Object{b: 1}'}", "{'a': 'Object{b: 1}'}"),
        ("object.Object{a: 1}", "object.Object{a: 1}"),
        ("// Object{a: 1}\ntrue", "// Object{a: 1}\ntrue"),
    ],
)  # fmt: skip
def test_literals_become_maps(expression: str, rewritten: str) -> None:
    assert to_maps(expression) == rewritten


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("Object{a: [Object.a{b: object.x}], c: {'d': 1.5}}", {"a": [{"b": 7}], "c": {"d": 1.5}}),
        ("object.x == 7 ? Object{a: 1} : Object{b: 'x'}", {"a": 1}),
        ("Object{?a: optional.none(), ?b: optional.of(true)}", {"b": True}),
        ("Object{a: timestamp('2020-01-01T00:00:00Z'), b: b'abc', c: null}",
         {"a": "2020-01-01T00:00:00Z", "b": "YWJj", "c": None}),
    ],
)  # fmt: skip
def test_values_are_plain(expression: str, value: object) -> None:
    program = compile(to_maps(expression), ("object",))
    assert plain_object(program.evaluate_json({"object": {"x": 7}})) == value


def test_types_say_where_their_literals_stand() -> None:
    program = compile(to_maps("Object{a: Object.b{c: Object.a.x{}}}"), ("object",))
    with pytest.raises(TypeMismatch) as caught:
        plain_object(program.evaluate_json({"object": {}}))
    tail = "which matches field name path from root Object type"
    assert str(caught.value).splitlines() == [
        f'unexpected type name "Object.b", expected "Object.a", {tail}',
        f'unexpected type name "Object.a.x", expected "Object.a.c", {tail}',
    ]


def test_names_keep_their_length_while_checked() -> None:
    expression = "Object{a: Object.a.b{c: 'Object.a{'}}"
    flat, names = flatten(expression)
    assert flat == "Object{a: Object_a_b{c: 'Object.a{'}}"
    assert names == {"Object", "Object_a_b"}
    assert restore(flat, names) == expression
