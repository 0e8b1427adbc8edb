"""Models to schemas, defaults and messages, on a kind made for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

import pytest
from pydantic import ConfigDict, Field

from corral.api.fields import AnyObject, Int32, Model, QuantityText, Text, section
from corral.api.kind import Check, Column, Kind, Names
from corral.api.schema import structural_schema
from corral.api.structure import field_path, touches
from corral.kube.problems import FieldError, forbidden_field, invalid

Obj = dict[str, Any]


class Leaf(Model):
    model_config = ConfigDict(use_attribute_docstrings=True)

    size: QuantityText = "1Gi"
    only: Literal["this"] = "this"


class BoxSpec(Model):
    model_config = ConfigDict(use_attribute_docstrings=True)

    leaves: list[Leaf] | None = None
    """What is in it."""
    by_name: dict[str, Leaf] | None = None
    leaf: Leaf = section(Leaf)
    ratio: Annotated[float, Field(gt=0, lt=1)] | None = None
    words: Annotated[list[Text], Field(min_length=1, max_length=2)] | None = None
    count: Annotated[Int32, Field(ge=0, le=9)] | None = None
    open: AnyObject | None = None


class Box(Kind):
    """Box is for tests."""

    names: ClassVar[Names] = Names("example.test", "v1", "Box", "boxes", ("bx",), namespaced=False)
    columns: ClassVar[tuple[Column, ...]] = (
        Column("Count", ".spec.count", "integer", wide=True, description="How many."),
    )
    spec: BoxSpec

    def checks(self, old: Self | None) -> Iterator[Check]:
        yield Check(("spec.count", "spec.words"), self._seven())

    def _seven(self) -> Iterator[FieldError]:
        if self.spec.count == 7:
            yield forbidden_field("spec.count", "seven is taken")


def box(**spec: Any) -> Obj:
    return {"apiVersion": "example.test/v1", "kind": "Box", "metadata": {}, "spec": spec}


def problems(**spec: Any) -> list[str]:
    return [str(problem) for problem in Box.validate(box(**spec))]


def test_the_definition() -> None:
    crd = Box.crd()
    assert crd["spec"]["scope"] == "Cluster"
    assert crd["spec"]["names"]["shortNames"] == ["bx"]
    (version,) = crd["spec"]["versions"]
    assert version["subresources"] == {"status": {}}
    assert version["additionalPrinterColumns"] == [
        {
            "name": "Count",
            "type": "integer",
            "jsonPath": ".spec.count",
            "description": "How many.",
            "priority": 1,
        }
    ]
    schema = version["schema"]["openAPIV3Schema"]
    assert schema["required"] == ["spec"]
    spec = schema["properties"]["spec"]["properties"]
    assert spec["leaves"]["description"] == "What is in it."
    assert spec["leaves"]["items"]["properties"]["only"] == {
        "type": "string",
        "enum": ["this"],
        "default": "this",
    }
    assert spec["byName"]["additionalProperties"]["type"] == "object"
    assert spec["leaf"]["default"] == {}
    assert spec["ratio"] == {
        "type": "number",
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": 1,
        "exclusiveMaximum": True,
    }
    assert spec["count"] == {"type": "integer", "format": "int32", "minimum": 0, "maximum": 9}


def test_alternatives_have_no_structural_schema() -> None:
    class Either(Model):
        value: int | str

    with pytest.raises(ValueError, match="alternatives"):
        structural_schema(Either)


def test_defaults_reach_lists_and_maps() -> None:
    obj = box(leaves=[{}, {"size": 3}], byName={"a": {}}, count=None)
    Box.default(obj)
    filled = {"size": "1Gi", "only": "this"}
    assert obj["spec"] == {
        "leaves": [filled, {"size": 3, "only": "this"}],
        "byName": {"a": filled},
        "leaf": filled,
    }


MESSAGES: dict[str, tuple[Obj, str]] = {
    "path in a list": (
        {"leaves": [{}, {"size": "x"}]},
        'spec.leaves[1].size: Invalid value: "x": spec.leaves[1].size in body should match ',
    ),
    "path in a map": (
        {"byName": {"a": {"only": "that"}}},
        'spec.byName.a.only: Unsupported value: "that": supported values: "this"',
    ),
    "too small": ({"ratio": 0}, "spec.ratio: Invalid value: 0: spec.ratio in body should be gre"),
    "too few": (
        {"words": []},
        "spec.words: Invalid value: 0: spec.words in body should have at least 1 items",
    ),
    "too many": ({"words": ["a", "b", "c"]}, "spec.words: Too many: 3: must have at most 2 items"),
    "too big": (
        {"count": 10},
        "spec.count: Invalid value: 10: spec.count in body should be less than or equal to 9",
    ),
    "no object": (
        {"open": 1},
        'spec.open: Invalid value: "integer": spec.open in body must be of type object: "integer"',
    ),
    "no list": (
        {"words": "a"},
        'spec.words: Invalid value: "string": spec.words in body must be of type array: "string"',
    ),
    "rule": ({"count": 7}, "spec.count: Forbidden: seven is taken"),
}


@pytest.mark.parametrize("spec,text", MESSAGES.values(), ids=MESSAGES)
def test_messages(spec: Obj, text: str) -> None:
    (found,) = problems(**spec)
    assert found.startswith(text)


def test_a_rule_waits_until_what_it_reads_is_right() -> None:
    assert len(problems(count=7, words=[])) == 1
    assert len(problems(count=7, leaves=[1])) == 2


@pytest.mark.parametrize("obj", [{}, {"spec": None}, {"spec": 3}, {"spec": [], "metadata": 3}])
def test_garbage_is_judged_too(obj: Obj) -> None:
    assert Box.validate(obj)
    assert Box.warnings(obj) == []


def test_paths() -> None:
    assert field_path(("spec", "a", 0, "b", 1)) == "spec.a[0].b[1]"
    assert touches("spec.a", ["spec.a.b"]) and touches("spec.a[0]", ["spec.a"])
    assert not touches("spec.ab", ["spec.a"])


def test_one_error_of_all() -> None:
    found = Box.validate(box(count=7, leaves=[1]))
    error = invalid("example.test", "Box", "b", found)
    assert error.message.startswith('Box.example.test "b" is invalid: [spec.leaves[0]: Invalid')
    assert error.details["causes"][1] == {
        "reason": "FieldValueForbidden",
        "message": "Forbidden: seven is taken",
        "field": "spec.count",
    }
