"""Checks of what a CRD version says beside its schema: columns, scale, selectable fields."""

from __future__ import annotations

from collections.abc import Iterator

from corral.cluster.apiserver.crd.fieldpath import FieldPathError, locate
from corral.cluster.apiserver.errors import (
    FieldError,
    duplicate,
    invalid_value,
    required,
    too_many,
)
from corral.kube.types import Obj

__all__ = ["column_problems", "deprecation_problems", "scale_problems", "selectable_problems"]

MAX_SELECTABLE_FIELDS = 8
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")

Found = Iterator[FieldError]


def deprecation_problems(version: Obj, path: str) -> Found:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    where = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        yield invalid_value(where, warning, "can only be set for deprecated versions")
        return
    if len(warning.encode()) > 256:
        yield invalid_value(where, warning, "must be <= 256 characters long")
    if not warning:
        yield invalid_value(where, warning, "must not be an empty string")
    for i, char in enumerate(warning):
        if not char.isprintable():
            why = "must only contain printable UTF-8 characters; non-printable character found at"
            yield invalid_value(where, warning, f"{why} index {len(warning[:i].encode())}")
            break


def column_problems(column: Obj, path: str) -> Found:
    if not column.get("name"):
        yield required(f"{path}.name")
    kind, format_ = column.get("type") or "", column.get("format") or ""
    listed = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        yield required(f"{path}.type", listed)
    elif kind not in _COLUMN_TYPES:
        yield invalid_value(f"{path}.type", kind, listed)
    if format_ and format_ not in _COLUMN_FORMATS:
        why = f"must be one of {','.join(_COLUMN_FORMATS)}"
        yield invalid_value(f"{path}.format", format_, why)
    json_path = column.get("jsonPath") or ""
    if not json_path:
        yield required(f"{path}.JSONPath")
    elif json_path[0] != ".":
        why = "must be a simple json path starting with ."
        yield invalid_value(f"{path}.JSONPath", json_path, why)


def scale_problems(subresources: Obj, path: str) -> Found:
    scale = subresources.get("scale")
    if scale is None:
        return
    for field, roots, text in (
        ("specReplicasPath", (".spec.",), "should be a json path under .spec"),
        ("statusReplicasPath", (".status.",), "should be a json path under .status"),
        (
            "labelSelectorPath",
            (".spec.", ".status."),
            "should be a json path under either .spec or .status",
        ),
    ):
        value = scale.get(field) or ""
        where = f"{path}.scale.{field}"
        if not value:
            if field != "labelSelectorPath":
                yield required(where)
        elif value[0] != ".":
            yield invalid_value(where, value, "must be a simple json path starting with .")
        elif not value.startswith(roots):
            yield invalid_value(where, value, text)


def selectable_problems(fields: list[Obj], schema: Obj, path: str, kept: bool) -> Found:
    seen: set[str] = set()
    for i, field in enumerate(fields):
        where = f"{path}[{i}].jsonPath"
        text = field.get("jsonPath") or ""
        if not text:
            yield required(where)
            continue
        try:
            normal, found = locate(text, schema, arrays=False)
        except FieldPathError as why:
            yield invalid_value(where, text, f"is an invalid path: {why}")
            continue
        if normal.partition(".")[0] == "metadata":
            yield invalid_value(where, text, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            why_not = (
                "must point to a field of type string, boolean or integer. Enum string fields "
                "and strings with formats are allowed."
            )
            yield invalid_value(where, text, why_not)
        if normal in seen:
            yield duplicate(where, text)
        seen.add(normal)
    if len(seen) > MAX_SELECTABLE_FIELDS and not kept:
        yield too_many(path, len(seen), MAX_SELECTABLE_FIELDS)
