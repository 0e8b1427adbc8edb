"""What a JSON object looks like after a trip through its Go struct.

``normaliser(message)`` compiles a message into a function once. The function builds a new dict in
struct order: unknown fields and nulls are gone, zero values are left out or filled in as the struct
tags say, leaf values are in canonical form. It raises ``Mismatch`` for a value of the wrong type
without saying which: ``explain`` finds that out, and only then is it worth the time.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache
from typing import Any

from corral.cluster.apiserver.codec.types import Field, Message, Type, message
from corral.cluster.apiserver.codec.values import (
    base64_text,
    duration_text,
    micro_time_text,
    time_text,
)
from corral.kube.quantity import canonical
from corral.kube.types import Obj

__all__ = ["Mismatch", "Normaliser", "normaliser"]

Normaliser = Callable[[Any, list[None]], Any]
"""Takes a value (never None) and a list that grows when a struct in it had keys left over."""

_INT_RANGES = {
    "int": (-(2**63), 2**63 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint8": (0, 2**8 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}


class Mismatch(Exception):
    """A value cannot be stored in its Go type."""


@cache
def normaliser(msg: Message) -> Normaliser:
    """The compiled function of ``msg``."""
    return _Compiler().struct(msg)


def _nothing() -> None:
    return None


class _Compiler:
    """Compiles one message and all below it; messages that contain themselves are bound late."""

    _done: dict[str, Normaliser] = {}  # noqa: RUF012 - shared on purpose: compiled once per process

    def __init__(self) -> None:
        self._open: set[str] = set()

    def struct(self, msg: Message) -> Normaliser:
        name = msg.name
        if name in self._done:
            return self._done[name]
        if name in self._open:
            return lambda value, rest: self._done[name](value, rest)
        self._open.add(name)
        fields = [self._field(msg, field) for field in msg.fields]
        self._done[name] = _struct(fields)
        return self._done[name]

    def _field(self, msg: Message, field: Field) -> _Row:
        shape = field.type.shape
        function = self.value(field.type)
        drop = field.omitzero or (field.omitempty and shape in _DROPPED_WHEN_EMPTY)
        zero: Callable[[], Any] | None = None
        if not (drop or (field.omitempty and shape == "pointer")):
            zero = self.zero(field.type)
        return field.name, shape == "string", function, drop, zero

    def value(self, kind: Type) -> Normaliser:
        """The function for values of one type."""
        shape = kind.shape
        if shape in _LEAVES:
            return _LEAVES[shape]
        if shape == "int":
            return _int(*_INT_RANGES[kind.base])
        if shape == "struct":
            return self.struct(message(kind.text))
        if shape.startswith("schema-or-"):
            schema = self.struct(message("apiextensions/v1.JSONSchemaProps"))
            return _SCHEMA_OR[shape](schema)
        assert kind.elem is not None
        if shape == "pointer":
            return self.value(kind.elem)
        if shape == "list":
            if kind.elem.shape == "string":
                return _strings
            return _list(self.value(kind.elem), self.element_zero(kind.elem))
        if kind.elem.shape == "string":
            return _string_map
        return _map(self.value(kind.elem), self.element_zero(kind.elem))

    def element_zero(self, kind: Type) -> Callable[[], Any]:
        """The same inside a list or map, where the store knows no missing bytes."""
        return str if kind.shape == "bytes" else self.zero(kind)

    def zero(self, kind: Type) -> Callable[[], Any]:
        """What Go prints for a value that was never set."""
        if kind.shape == "struct":
            function = self.struct(message(kind.text))
            return lambda: function({}, [])
        constant = _ZEROS.get(kind.shape)
        return _nothing if constant is None else lambda: constant


_Row = tuple[str, bool, Normaliser, bool, Callable[[], Any] | None]
"""Field name; is a string; its function; left out when empty; what stands there when not set."""

_DROPPED_WHEN_EMPTY = frozenset({"string", "bool", "int", "float", "list", "map", "bytes"})
_ZEROS: dict[str, Any] = {
    "string": "", "bool": False, "int": 0, "float": 0, "quantity": "0", "int-or-string": 0,
    "duration": "0s", "schema-or-bool": False,
}  # fmt: skip


def _struct(rows: list[_Row]) -> Normaliser:
    fields = tuple(rows)
    names = frozenset(row[0] for row in rows)

    def normalise(value: Any, rest: list[None]) -> Obj:
        if type(value) is not dict:
            raise Mismatch
        out: Obj = {}
        get = value.get
        seen = 0
        for name, is_text, function, drop, zero in fields:
            item = get(name)
            if item is None:
                if zero is not None:
                    out[name] = zero()
                continue
            seen += 1
            if is_text:
                if type(item) is not str:
                    raise Mismatch
            else:
                item = function(item, rest)
            if item or not drop:
                out[name] = item
        if seen != len(value) and not names.issuperset(value):
            rest.append(None)
        return out

    return normalise


def _list(function: Normaliser, zero: Callable[[], Any]) -> Normaliser:
    def normalise(value: Any, rest: list[None]) -> list[Any]:
        if type(value) is not list:
            raise Mismatch
        return [zero() if item is None else function(item, rest) for item in value]

    return normalise


def _strings(value: Any, rest: list[None]) -> list[str]:
    if type(value) is not list:
        raise Mismatch
    for item in value:
        if type(item) is not str:
            return [_text("" if item is None else item, rest) for item in value]
    return value


def _map(function: Normaliser, zero: Callable[[], Any]) -> Normaliser:
    def normalise(value: Any, rest: list[None]) -> Obj:
        if type(value) is not dict:
            raise Mismatch
        return {
            key: zero() if (item := value[key]) is None else function(item, rest)
            for key in sorted(value)
        }

    return normalise


def _string_map(value: Any, rest: list[None]) -> dict[str, str]:
    if type(value) is not dict:
        raise Mismatch
    for item in value.values():
        if type(item) is not str:
            return {
                key: _text("" if (item := value[key]) is None else item, rest)
                for key in sorted(value)
            }
    return {key: value[key] for key in sorted(value)} if len(value) > 1 else value


def _text(value: Any, rest: list[None]) -> str:
    if type(value) is not str:
        raise Mismatch
    return value


def _bool(value: Any, rest: list[None]) -> bool:
    if type(value) is not bool:
        raise Mismatch
    return value


def _int(low: int, high: int) -> Normaliser:
    def normalise(value: Any, rest: list[None]) -> int:
        if type(value) is int and low <= value <= high:
            return value
        raise Mismatch

    return normalise


def _float(value: Any, rest: list[None]) -> float:
    if type(value) is int:
        return value
    if type(value) is not float:
        raise Mismatch
    # Go prints a whole number without a point.
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def _raw(value: Any, rest: list[None]) -> Any:
    return value


def _from_text(function: Callable[[str], str | None]) -> Normaliser:
    def normalise(value: Any, rest: list[None]) -> str | None:
        if type(value) is not str:
            raise Mismatch
        try:
            return function(value)
        except ValueError:
            raise Mismatch from None

    return normalise


def _bytes(value: Any, rest: list[None]) -> str:
    if type(value) is list:
        return _byte_list(value)
    if type(value) is not str:
        raise Mismatch
    try:
        return base64_text(value)
    except ValueError:
        raise Mismatch from None


def _byte_list(value: list[Any]) -> str:
    items = [0 if item is None else item for item in value]
    if not all(type(item) is int and 0 <= item < 256 for item in items):
        raise Mismatch
    return base64.b64encode(bytes(items)).decode()


def _int_or_string(value: Any, rest: list[None]) -> int | str:
    if type(value) is str or (type(value) is int and -(2**31) <= value < 2**31):
        return value
    raise Mismatch


def _quantity(value: Any, rest: list[None]) -> str:
    if type(value) is not str:
        if type(value) not in (int, float):
            raise Mismatch
        value = str(value)
    try:
        return canonical(value)
    except ValueError:
        pass
    try:
        return canonical(value.strip())
    except ValueError:
        raise Mismatch from None


_LEAVES: dict[str, Normaliser] = {
    "string": _text,
    "bool": _bool,
    "float": _float,
    "bytes": _bytes,
    "raw": _raw,
    "time": _from_text(time_text),
    "microtime": _from_text(micro_time_text),
    "duration": _from_text(duration_text),
    "int-or-string": _int_or_string,
    "quantity": _quantity,
}


def _schema_or_bool(schema: Normaliser) -> Normaliser:
    def normalise(value: Any, rest: list[None]) -> Any:
        if type(value) is bool:
            return value
        return schema(value, [])

    return normalise


def _schema_or_list(schema: Normaliser) -> Normaliser:
    items = _list(schema, lambda: schema({}, []))

    def normalise(value: Any, rest: list[None]) -> Any:
        # These read themselves, so what is unknown inside them is never reported.
        if type(value) is dict:
            return schema(value, [])
        return items(value, []) or None if type(value) is list else None

    return normalise


def _schema_or_strings(schema: Normaliser) -> Normaliser:
    def normalise(value: Any, rest: list[None]) -> Any:
        if type(value) is dict:
            return schema(value, [])
        return _strings(value, []) or None if type(value) is list else None

    return normalise


_SCHEMA_OR: dict[str, Callable[[Normaliser], Normaliser]] = {
    "schema-or-bool": _schema_or_bool,
    "schema-or-list": _schema_or_list,
    "schema-or-strings": _schema_or_strings,
}
