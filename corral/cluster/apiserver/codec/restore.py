"""What a real server says when a strategic merge patch leaves an object that fits no Go struct.

Such an object is not decoded from JSON but restored from maps and lists field by field in struct
order, and the refusals read differently: they name Go kinds, and no path.
"""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.codec.explain import explain_value
from corral.cluster.apiserver.codec.types import Message, Type, message
from corral.cluster.apiserver.codec.values import base64_text
from corral.kube.types import Obj

__all__ = ["restore_error", "whole_numbers"]

_KINDS: dict[type, str] = {
    dict: "map", list: "slice", str: "string", int: "int64", float: "float64", bool: "bool",
}  # fmt: skip
_CONVERTIBLE = {
    # What Go can convert at all; of these, JSON allows fewer.
    "int64": ("int", "float", "string"),
    "float64": ("int", "float"),
    "string": ("string",),
    "bool": ("bool",),
}
_INT64 = 1 << 63


class _Refused(Exception):
    """The first value that cannot be restored."""


def restore_error(msg: Message, obj: Obj) -> str | None:
    """The first problem of ``obj``; None when all of it can be restored."""
    try:
        _struct(msg, obj)
    except _Refused as refused:
        return str(refused)
    return None


def whole_numbers(value: Any) -> Any:
    """A copy in which floats without a fraction are integers, as restoring takes them.

    Those that no int64 holds stay floats, as Go's do.
    """
    if isinstance(value, dict):
        return {key: whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and -_INT64 <= value < _INT64:
        return int(value)
    return value


def _struct(msg: Message, value: Any) -> None:
    if type(value) is not dict:
        raise _Refused(f"cannot restore struct from: {_KINDS[type(value)]}")
    for field in msg.fields:
        item = value.get(field.name)
        if item is not None:
            _value(field.type, item)


def _value(kind: Type, value: Any) -> None:
    while kind.shape == "pointer" and kind.elem is not None:
        kind = kind.elem
    if value is None:
        return
    match kind.shape:
        case "struct":
            _struct(message(kind.text), value)
        case "map":
            if type(value) is not dict:
                raise _Refused(f"cannot restore map from {_KINDS[type(value)]}")
            for item in value.values():
                _value(kind.elem, item)  # type: ignore[arg-type]  # maps have elements
        case "list":
            _items(kind.elem, value)
        case "bytes":
            _bytes(value)
        case "string" | "bool" | "int" | "float":
            _scalar(kind, value)
        case _:
            # Such a type reads the value as Go prints it: 80.0 as 80.
            if error := explain_value(kind, whole_numbers(value)):
                raise _Refused(error)


def _items(elem: Type | None, value: Any) -> None:
    assert elem is not None
    if type(value) is not list:
        raise _Refused(f"cannot restore slice from {_KINDS[type(value)]}")
    for item in value:
        _value(elem, item)


def _bytes(value: Any) -> None:
    if type(value) is not str:
        _items(Type("uint8", "int", "uint8"), value)
        return
    try:
        base64_text(value)
    except ValueError as err:
        raise _Refused(f"error decoding from json: {err}") from None


def _scalar(kind: Type, value: Any) -> None:
    source = _KINDS[type(value)]
    if kind.shape not in _CONVERTIBLE.get(source, ()):
        raise _Refused(f"unrecognized type: {kind.base}")
    if source == "int64" and kind.shape != "string":
        return
    if source == "float64" and (kind.shape == "float" or value.is_integer()):
        return
    if source not in (kind.shape, kind.base):
        raise _Refused(f"cannot convert {source} to {kind.go}")
