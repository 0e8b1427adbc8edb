"""Names and types of schema properties in rules."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.cel.engine import CompileError, check, uses_variable
from corral.cluster.apiserver.cel.escape import escape
from corral.cluster.apiserver.cel.schema_types import SchemaTypes

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "ratio": {"type": "number"},
        "when": {"type": "string", "format": "date-time"},
        "span": {"type": "string", "format": "duration"},
        "data": {"type": "string", "format": "byte"},
        "port": {"x-kubernetes-int-or-string": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {
            "type": "array",
            "items": {"type": "object", "properties": {"x": {"type": "string"}}},
        },
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "a-b": {"type": "boolean"},
        "free": {"x-kubernetes-preserve-unknown-fields": True},
    },
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", "plain"),
        ("namespace", "__namespace__"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("1a", None),
        ("a b", None),
        ("", None),
    ],
)
def test_escape(name: str, expected: str | None) -> None:
    assert escape(name) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("self.n + 1", "int"),
        ("self.ratio * 2.0", "double"),
        ("self.when > timestamp('2020-01-01T00:00:00Z')", "bool"),
        ("self.span", "duration"),
        ("self.data", "bytes"),
        ("self.port == 1 || self.port == 'http'", "bool"),
        ("self.labels['a']", "string"),
        ("self.list[0].x", "string"),
        ("self.grid[0][0] == 1", "bool"),
        ("self.a__dash__b", "bool"),
        ("self.metadata.name", "string"),
        ("self.ratio > 1", "unknown"),
    ],
)
def test_result_types(expression: str, expected: str) -> None:
    assert _check(expression) == expected


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("self.nope", "undefined field 'nope'"),
        ("self.list[0].y", "undefined field 'y'"),
        ("self.n == 'x'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.free", "undefined field 'free'"),
    ],
)
def test_type_errors(expression: str, why: str) -> None:
    with pytest.raises(CompileError) as refused:
        _check(expression)
    assert str(refused.value).splitlines()[0].endswith(why)


def _check(expression: str) -> str:
    types = SchemaTypes()
    name = types.of(SCHEMA, root=True)
    assert name is not None
    return check(expression, {"self": name}, pool=types.finish())


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("self == oldSelf", True),
        ("self == 'oldSelf'", False),
        ("self.oldSelf", False),
        ("oldSelf.x == 1", True),
        ("self // oldSelf", False),
    ],
)
def test_uses_variable(expression: str, expected: bool) -> None:
    assert uses_variable(expression, "oldSelf") is expected
