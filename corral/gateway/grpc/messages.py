"""Objects as typed messages (``corral.v1.MPIJob``, …), and back, without losing anything.

A member of the JSON goes to the field that has its name where that field can give it back; all
else goes to ``other_fields``: members that no field is for, null, empty lists and maps, a string
where a number is expected, an integer too large for its field. So `read_message` of what
`write_message` wrote is equal to what it was given. The one liberty is taken with fields of type
``double``: 3 and 3.0 are the same number there, and come back as 3, as Kubernetes writes it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import (  # type: ignore[import-untyped]
    Descriptor,
    FieldDescriptor,
)
from google.protobuf.message import Message  # type: ignore[import-untyped]
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

from corral.gateway.grpc.values import Unreadable, finite, read_value, write_value
from corral.kube.types import Obj

__all__ = ["OTHER_FIELDS", "read_message", "write_message"]

OTHER_FIELDS: Final = "other_fields"
_VALUE: Final = "corral.v1.Value"
_INT32: Final = range(-(1 << 31), 1 << 31)
_INT64: Final = range(-(1 << 63), 1 << 63)
_EXACT: Final = 1 << 53
"""Integers below have a floating point number of their own."""


def write_message(out: Message, obj: Obj) -> None:
    """Make ``out``, a new message, hold an object."""
    fields = _by_json_name(out.DESCRIPTOR)
    out.SetInParent()
    for key, value in obj.items():
        field = fields.get(key)
        if field is None or not _fits(field, value):
            write_value(out.other_fields[key], value)
        else:
            _set(out, field, value)


def read_message(message: Message, path: str = "") -> Obj:
    """The object that a message holds; ``path`` is where it is, for errors.

    Raises:
        Unreadable: it stands for no JSON, or has fields that this version does not know.
    """
    _refuse_unknown(message, path)
    out: Obj = {}
    for field, value in message.ListFields():
        if field.name != OTHER_FIELDS:
            out[field.json_name] = _get(field, value, _below(path, field.json_name))
    for key, value in getattr(message, OTHER_FIELDS, {}).items():
        if key in out:
            raise Unreadable(_below(path, key), "is both in its field and in other_fields")
        out[key] = read_value(value, _below(path, key))
    return out


@cache
def _by_json_name(descriptor: Descriptor) -> dict[str, FieldDescriptor]:
    """The fields by the names that JSON has for them."""
    return {field.json_name: field for field in descriptor.fields if field.name != OTHER_FIELDS}


@cache
def _map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """The field of a map's values; none where the field is no map."""
    entry = field.message_type
    if entry is None or not entry.GetOptions().map_entry:
        return None
    return entry.fields_by_name["value"]


# --- writing -----------------------------------------------------------------------------------


def _fits(field: FieldDescriptor, value: Any) -> bool:
    """Whether the field gives back what it is given."""
    item = _map_value(field)
    if item is not None:
        return (
            isinstance(value, dict)
            and bool(value)
            and all(_fits_one(item, entry) for entry in value.values())
        )
    if field.is_repeated:
        return (
            isinstance(value, list)
            and bool(value)
            and all(_fits_one(field, entry) for entry in value)
        )
    return _fits_one(field, value)


def _fits_one(field: FieldDescriptor, value: Any) -> bool:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_MESSAGE:
            return field.message_type.full_name == _VALUE or isinstance(value, dict)
        case FieldDescriptor.CPPTYPE_STRING:
            return isinstance(value, str)
        case FieldDescriptor.CPPTYPE_BOOL:
            return isinstance(value, bool)
        case FieldDescriptor.CPPTYPE_DOUBLE:
            return isinstance(value, float) or (_is_int(value) and abs(value) < _EXACT)
        case FieldDescriptor.CPPTYPE_INT32:
            return _is_int(value) and value in _INT32
        case FieldDescriptor.CPPTYPE_INT64:
            return _is_int(value) and value in _INT64
    return False


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _set(message: Message, field: FieldDescriptor, value: Any) -> None:
    """Put a value that fits into its field."""
    item = _map_value(field)
    target: Any = getattr(message, field.name)
    if item is not None:
        for key, entry in value.items():
            if item.message_type is None:
                target[key] = entry
            else:
                _set_message(target[key], entry)
    elif field.is_repeated and field.message_type is None:
        target.extend(value)
    elif field.is_repeated:
        for entry in value:
            _set_message(target.add(), entry)
    elif field.message_type is not None:
        _set_message(target, value)
    else:
        setattr(message, field.name, value)


def _set_message(message: Message, value: Any) -> None:
    if message.DESCRIPTOR.full_name == _VALUE:
        write_value(message, value)
    else:
        write_message(message, value)


# --- reading -----------------------------------------------------------------------------------


def _get(field: FieldDescriptor, value: Any, path: str) -> Any:
    item = _map_value(field)
    if item is not None:
        return {key: _get_one(item, entry, _below(path, key)) for key, entry in value.items()}
    if field.is_repeated:
        return [_get_one(field, entry, f"{path}[{at}]") for at, entry in enumerate(value)]
    return _get_one(field, value, path)


def _get_one(field: FieldDescriptor, value: Any, path: str) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name == _VALUE:
            return read_value(value, path)
        return read_message(value, path)
    if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE:
        return _number(finite(value, path))
    return value


def _number(number: float) -> int | float:
    """As Kubernetes writes it: whole numbers without a point."""
    whole = number.is_integer() and abs(number) < _EXACT
    if whole and (number or math.copysign(1, number) > 0):
        return int(number)
    return number


def _refuse_unknown(message: Message, path: str) -> None:
    """A field that a newer client sent would be lost: its JSON name is not known here."""
    numbers = sorted({field.field_number for field in UnknownFieldSet(message)})
    if numbers:
        raise Unreadable(
            path,
            f"this server's {message.DESCRIPTOR.full_name} has no field {_listed(numbers)}: "
            "send such members in other_fields",
        )


def _listed(numbers: list[int]) -> str:
    return ", ".join(str(number) for number in numbers)


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
