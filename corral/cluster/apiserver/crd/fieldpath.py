"""Simple field paths (``.spec.items['a']``) checked against a schema."""

from __future__ import annotations

import re

from corral.kube.types import Obj

__all__ = ["FieldPathError", "locate", "resolve"]

_TOKENS = re.compile(r"\.([^.\[\]]*)|\[('(?:\\.|[^'\\])*')\]|(.)", re.DOTALL)


class FieldPathError(ValueError):
    """The path is malformed or names no field."""


def locate(path: str, schema: Obj, *, arrays: bool = True) -> tuple[str, Obj]:
    """The normal form of the path and the schema it leads to.

    Raises:
        FieldPathError: with the reason kube-apiserver gives.
    """
    normal = ""
    for found in _TOKENS.finditer(path):
        name, quoted, stray = found.groups()
        if stray == "[" and not arrays:
            raise FieldPathError("array notation is not allowed")
        if stray is not None:
            raise FieldPathError(f"expected [ or . but got: {path[found.start() :]}")
        if quoted is not None:
            if not arrays:
                raise FieldPathError("array notation is not allowed")
            name = re.sub(r"\\(.)", r"\1", quoted[1:-1])
        normal, schema = _descend(normal, name, schema)
    return normal, schema


def _descend(path: str, name: str, schema: Obj) -> tuple[str, Obj]:
    if schema.get("properties"):
        if name not in schema["properties"]:
            raise FieldPathError("does not refer to a valid field")
        return f"{path}.{name}" if path else name, schema["properties"][name]
    more = schema.get("additionalProperties")
    if not isinstance(more, dict):
        raise FieldPathError("does not refer to a valid field")
    return f"{path}[{name}]", more


def resolve(path: str, schema: Obj) -> str | None:
    """The normal form, or None where the path does not fit the schema."""
    try:
        return locate(path, schema)[0]
    except FieldPathError:
        return None
