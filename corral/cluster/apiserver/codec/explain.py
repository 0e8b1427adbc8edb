"""What Go's JSON decoder says about a body: its first type error, or its strict problems.

The slow, exact counterpart of ``normal``: it goes through the body key by key in the order they
stand there, duplicates included, keeping the field paths as Go's decoder keeps them. It runs only
when the fast path has met something odd.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from corral.cluster.apiserver.codec.syntax import depth_error
from corral.cluster.apiserver.codec.types import Message, Type, message
from corral.cluster.apiserver.codec.values import (
    base64_text,
    duration_text,
    micro_time_text,
    time_text,
)
from corral.kube.quantity import canonical

__all__ = ["Finding", "explain", "explain_value"]

_MAX_PROBLEMS = 100
_INT_BITS = {"int": 63, "int32": 31, "int64": 63, "uint8": 8, "uint32": 32, "uint64": 64}


class Finding:
    """What was found: ``error`` is fatal, ``problems`` only matter to strict requests."""

    def __init__(self) -> None:
        self.error: str | None = None
        self.problems: dict[str, None] = {}

    def note(self, what: str, path: str) -> None:
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems[f"{what} field {json.dumps(path, ensure_ascii=False)}"] = None


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with all its keys, in order."""


class _Number(str):
    """A JSON number as it was written."""


_PYTHON: dict[str, type] = {"string": str, "bool": bool, "int": _Number, "float": _Number}
"""How each scalar shape comes out of the parser."""


class _Fatal(Exception):
    """An error that ends decoding at once, as those of types that read themselves do."""


class _Context:
    """Where the decoder is, for type errors: the struct, and the Go path to the field."""

    __slots__ = ("path", "struct")

    def __init__(self, struct: str = "", path: tuple[str, ...] = ()) -> None:
        self.struct, self.path = struct, path

    def error(self, value: str, go_type: str) -> str:
        if self.struct or self.path:
            where = f"Go struct field {self.struct}.{'.'.join(self.path)}"
        else:
            where = "Go value"
        return f"json: cannot unmarshal {value} into {where} of type {go_type}"


def explain(msg: Message, body: bytes) -> Finding:
    """Decode ``body`` (well-formed JSON) into ``msg`` as Go would, and tell what it would say."""
    finding = Finding()
    try:
        tree = json.loads(
            body.decode("utf-8", "replace"),
            object_pairs_hook=_Pairs,
            parse_int=_Number,
            parse_float=_Number,
        )
        _Walk(finding).value(Type(msg.name, "struct"), tree, _Context(), "")
    except _Fatal as fatal:
        finding.error = str(fatal)
    except RecursionError:
        finding.error = depth_error()
    return finding


def explain_value(kind: Type, value: Any) -> str | None:
    """The error of a type that reads itself, such as a time, given one parsed value."""
    finding = Finding()
    try:
        tree = json.loads(
            json.dumps(value), object_pairs_hook=_Pairs, parse_int=_Number, parse_float=_Number
        )
        _Walk(finding).value(kind, tree, _Context(), "")
    except _Fatal as fatal:
        return str(fatal)
    return finding.error


class _Walk:
    def __init__(self, finding: Finding) -> None:
        self._finding = finding

    def value(self, kind: Type, value: Any, at: _Context, path: str) -> None:
        while kind.shape == "pointer" and kind.elem is not None:
            kind = kind.elem
        if value is None:
            return
        reader = _READERS.get(kind.shape)
        if reader is not None:
            reader(self, value, at)
        elif kind.shape == "struct":
            self._struct(kind, value, at, path)
        elif kind.shape == "map":
            self._map(kind, value, at, path)
        elif kind.shape == "list":
            self._list(kind, value, at, path)
        elif kind.shape == "bytes":
            self._bytes(kind, value, at)
        else:
            self._scalar(kind, value, at)

    def save(self, text: str) -> None:
        """Keep the first error; decoding goes on."""
        if self._finding.error is None:
            self._finding.error = text

    def _struct(self, kind: Type, value: Any, at: _Context, path: str) -> None:
        if type(value) is not _Pairs:
            self.save(at.error(_word(value), kind.go))
            return
        msg = message(kind.text)
        seen: set[str] = set()
        for key, item in value:
            field = msg.field(key)
            if field is None:
                self._finding.note("unknown", _join(path, key))
                continue
            if key in seen:
                self._finding.note("duplicate", _join(path, key))
            seen.add(key)
            inner = _Context(msg.kind, (*at.path, *field.path, key))
            self.value(field.type, item, inner, _join(path, key))

    def _map(self, kind: Type, value: Any, at: _Context, path: str) -> None:
        if type(value) is not _Pairs:
            self.save(at.error(_word(value), kind.go))
            return
        assert kind.elem is not None
        seen: set[str] = set()
        for key, item in value:
            if key in seen:
                self._finding.note("duplicate", _join(path, key))
            seen.add(key)
            self.value(kind.elem, item, at, _join(path, key))

    def _list(self, kind: Type, value: Any, at: _Context, path: str) -> None:
        if type(value) is not list:
            self.save(at.error(_word(value), kind.go))
            return
        assert kind.elem is not None
        for index, item in enumerate(value):
            self.value(kind.elem, item, at, f"{path}[{index}]")

    def _bytes(self, kind: Type, value: Any, at: _Context) -> None:
        if type(value) is list:
            for item in value:
                self._scalar(Type("uint8", "int", "uint8"), item, at)
        elif type(value) is not str:
            self.save(at.error(_word(value), kind.go))
        else:
            try:
                base64_text(value)
            except ValueError as err:
                self.save(str(err))

    def _scalar(self, kind: Type, value: Any, at: _Context) -> None:
        if value is not None and type(value) is not _PYTHON[kind.shape]:
            self.save(at.error(_word(value), kind.go))
        elif kind.shape == "int" and value is not None and not _fits(str(value), kind.base):
            self.save(at.error(f"number {value}", kind.go))


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _word(value: Any) -> str:
    """What Go calls a JSON value of this type."""
    return {_Pairs: "object", list: "array", str: "string", bool: "bool"}.get(type(value), "number")


def _fits(text: str, base: str) -> bool:
    if not text.lstrip("-").isdecimal() or len(text) > 20:
        return False
    limit: int = 2 ** _INT_BITS[base]
    return (0 if base.startswith("u") else -limit) <= int(text) < limit


# Types that read themselves. Their own errors end decoding; a type error among them gets the path.


def _text_reader(function: Callable[[str], object]) -> Callable[[_Walk, Any, _Context], None]:
    def read(walk: _Walk, value: Any, at: _Context) -> None:
        if type(value) is not str:
            raise _Fatal(at.error(_word(value), "string"))
        try:
            function(value)
        except ValueError as err:
            raise _Fatal(str(err)) from None

    return read


def _read_quantity(walk: _Walk, value: Any, at: _Context) -> None:
    # Whatever is no string or number cannot match the pattern, as Go parses the JSON text itself.
    text = str(value) if isinstance(value, str) else "{}"
    try:
        canonical(text.strip())
    except ValueError as err:
        raise _Fatal(str(err)) from None


def _read_int_or_string(walk: _Walk, value: Any, at: _Context) -> None:
    if type(value) is str:
        return
    if type(value) is not _Number:
        raise _Fatal(at.error(_word(value), "int32"))
    if not _fits(value, "int32"):
        raise _Fatal(at.error(f"number {value}", "int32"))


def _read_raw(walk: _Walk, value: Any, at: _Context) -> None:
    return None


_SCHEMA = Type("apiextensions/v1.JSONSchemaProps", "struct")


def _read_nested(value: Any, at: _Context, kind: Type) -> None:
    """A decoder of its own: no strictness, and its path is put behind ours."""
    inner = Finding()
    nested = _Walk(inner)
    nested.value(kind, value, _Context(), "")
    if inner.error is None:
        return
    raise _Fatal(_placed(inner.error, at))


def _placed(error: str, at: _Context) -> str:
    head, found, rest = error.partition(" into Go struct field ")
    if found:
        field, _, go_type = rest.partition(" of type ")
        inner = field.partition(".")[2]
        return f"{head}{found}{at.struct}.{'.'.join((*at.path, inner))} of type {go_type}"
    head, found, go_type = error.partition(" into Go value of type ")
    if found:
        return f"{head} into Go struct field {at.struct}.{'.'.join(at.path)} of type {go_type}"
    return error


def _read_schema_or_bool(walk: _Walk, value: Any, at: _Context) -> None:
    if type(value) is _Pairs:
        _read_nested(value, at, _SCHEMA)
    elif type(value) is not bool:
        raise _Fatal("boolean or JSON schema expected")


def _read_schema_or(many: Type) -> Callable[[_Walk, Any, _Context], None]:
    def read(walk: _Walk, value: Any, at: _Context) -> None:
        if type(value) is _Pairs:
            _read_nested(value, at, _SCHEMA)
        elif type(value) is list:
            _read_nested(value, at, many)

    return read


_STRING = Type("string", "string", "string")
_READERS: dict[str, Callable[[_Walk, Any, _Context], None]] = {
    "time": _text_reader(time_text),
    "microtime": _text_reader(micro_time_text),
    "duration": _text_reader(duration_text),
    "quantity": _read_quantity,
    "int-or-string": _read_int_or_string,
    "raw": _read_raw,
    "schema-or-bool": _read_schema_or_bool,
    "schema-or-list": _read_schema_or(
        Type("[]apiextensions/v1.JSONSchemaProps", "list", elem=_SCHEMA)
    ),
    "schema-or-strings": _read_schema_or(Type("[]string", "list", elem=_STRING)),
}
