"""How each field of the built-in kinds is merged: strategy, merge key and the type below it.

The facts come from the OpenAPI definitions. A type resolves its fields when they are first asked
for and keeps them, so a patch costs one dict lookup per field from its second use on.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import orjson

from corral.cluster.apiserver.schema import definitions
from corral.kube.errors import ApiError

__all__ = ["PatchField", "PatchType", "patch_type"]

_SCALAR_KINDS = {"string": "string", "boolean": "bool", "number": "float64"}


class PatchField(NamedTuple):
    """One field of a struct."""

    strategy: str
    """"merge", "replace" or "": what to do with a value both sides have."""
    merge_key: str
    """The member that identifies the items of a merged list of objects, or ""."""
    value: PatchType
    item: PatchType | None
    """The type of the items where the field is a list."""


class PatchType:
    """A type as patches see it: a struct with known fields, or anything else."""

    __slots__ = ("_fields", "_properties", "kind", "name")

    def __init__(self, kind: str, name: str = "", properties: dict[str, Any] | None = None) -> None:
        self.kind = kind
        """The Go kind: struct, map, slice or a scalar; part of error messages."""
        self.name = name
        self._properties = properties or {}
        self._fields: dict[str, PatchField] = {}

    def field(self, key: str) -> PatchField:
        """The field that holds an object.

        Raises:
            ApiError: 500, the type has no such field.
        """
        return self._fields.get(key) or self._resolve(key)

    def list_field(self, key: str) -> tuple[PatchField, PatchType]:
        """The field that holds a list, and the type of its items.

        Raises:
            ApiError: 500, the type has no such field or it is not a list of single values.
        """
        field = self._fields.get(key) or self._resolve(key)
        if field.item is None:
            raise ApiError(f"expected slice or array type, but got: {self.kind}")
        if field.item.kind == "slice":
            raise ApiError("unexpected slice of slice")
        return field, field.item

    def _resolve(self, key: str) -> PatchField:
        if self.kind != "struct":
            raise ApiError(
                f"merging an object in json but data type is not struct, instead is: {self.kind}"
            )
        schema = self._properties.get(key)
        if schema is not None:
            field = self._fields[key] = _field(schema)
            return field
        # Go matches JSON names without case. Not cached: clients must not set the cache's size.
        folded = key.casefold()
        for name, schema in self._properties.items():
            if name.casefold() == folded:
                return _field(schema)
        quoted = orjson.dumps(key).decode()
        raise ApiError(
            f"unable to find api field in struct {self.name} for the json field {quoted}"
        )


def _field(schema: dict[str, Any]) -> PatchField:
    strategies = schema.get("x-kubernetes-patch-strategy", "").split(",")
    strategy = next((s for s in strategies if s != "retainKeys"), "")
    items = schema.get("items") if schema.get("type") == "array" else None
    return PatchField(
        strategy=strategy,
        merge_key=schema.get("x-kubernetes-patch-merge-key", ""),
        value=_type(schema),
        item=None if items is None else _type(items),
    )


def _type(schema: dict[str, Any]) -> PatchType:
    reference = schema.get("$ref")
    if reference is not None:
        return patch_type(reference.rpartition("/")[2])
    match schema.get("type"):
        case "array":
            return PatchType("slice")
        case "integer":
            return PatchType(schema.get("format", "int64"))
        case kind:
            return PatchType(_SCALAR_KINDS.get(kind or "", "map"))


@cache
def patch_type(definition: str) -> PatchType:
    """The type of a definition; every definition is a struct to patches."""
    schema = definitions()[definition]
    return PatchType("struct", definition.rpartition(".")[2], schema.get("properties"))
