"""Structural mistakes: pydantic's errors said as the API server says them, and what is left.

`salvage` takes what is wrong out of an object, so that rules about the rest can still be checked
and all mistakes are reported at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, TypeVar

from pydantic import ValidationError

from corral.api.fields import Model, kind_name
from corral.api.schema import node_at
from corral.kube.problems import (
    FieldError,
    invalid_value,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from corral.kube.types import Obj

__all__ = ["field_path", "salvage", "structural_problems", "touches"]

Location = tuple[int | str, ...]
K = TypeVar("K", bound=Model)


def field_path(location: Location) -> str:
    """``("spec", "items", 0, "name")`` → ``spec.items[0].name``."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path


def structural_problems(error: ValidationError, schema: Obj) -> list[FieldError]:
    """Everything pydantic found, worded as by the validator of the schema."""
    return [
        problem
        for found in error.errors(include_url=False)
        for problem in _translated(found, schema)
    ]


def _translated(found: Any, schema: Obj) -> Iterator[FieldError]:
    location, kind, value = found["loc"], found["type"], found["input"]
    context: Obj = found.get("ctx") or {}
    path, node = field_path(location), node_at(schema, location)
    if kind == "missing":
        yield required(path)
    elif kind == "literal_error":
        if not isinstance(value, str):
            yield _wrong_type(path, node.get("type", "string"), value)
        yield not_supported(path, value, [str(choice) for choice in node.get("enum") or ()])
    elif kind == "string_too_long":
        yield too_long(path, context["max_length"])
    elif kind == "too_long":
        yield too_many(path, context["actual_length"], context["max_length"])
    elif kind in _BREACHES:
        subject = len(value) if kind == "too_short" else value
        text = _BREACHES[kind].format(**context)
        yield invalid_value(path, subject, f"{path} in body {text}")
    else:
        yield _wrong_type(path, context.get("expected") or node.get("type", "object"), value)


_BREACHES = {
    "greater_than_equal": "should be greater than or equal to {ge}",
    "less_than_equal": "should be less than or equal to {le}",
    "greater_than": "should be greater than {gt}",
    "less_than": "should be less than {lt}",
    "string_too_short": "should be at least {min_length} chars long",
    "string_pattern_mismatch": "should match '{pattern}'",
    "too_short": "should have at least {min_length} items",
}


def _wrong_type(path: str, expected: str, value: Any) -> FieldError:
    found = kind_name(value)
    return type_invalid(path, found, f'{path} in body must be of type {expected}: "{found}"')


def salvage(model: type[K], obj: Obj) -> tuple[K | None, list[str]]:
    """Read what can be read of a wrong object; and the paths of what was left out."""
    copy = deepcopy(obj)
    left_out: list[str] = []
    # Each round takes out at least one part; an object is not deeper than this.
    for _ in range(32):
        try:
            return model.model_validate(copy), left_out
        except ValidationError as error:
            places = {_removable(e["loc"], e["type"]) for e in error.errors(include_url=False)}
        if () in places:
            return None, left_out
        for place in places:
            _remove(copy, place)
            left_out.append(field_path(place))
    return None, left_out


def _removable(location: Location, kind: str) -> Location:
    """The part to take out: an object that lacks something goes whole, and so does a list."""
    place = location[:-1] if kind == "missing" else location
    for depth, step in enumerate(place):
        if isinstance(step, int):
            return place[:depth]
    return place


def _remove(value: Any, place: Location) -> None:
    for step in place[:-1]:
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, dict):
        value.pop(place[-1], None)


def touches(path: str, others: list[str]) -> bool:
    """Whether a path is, holds, or lies within one of the others."""
    return any(_within(path, other) or _within(other, path) for other in others)


def _within(path: str, outer: str) -> bool:
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))
