"""The Go types behind the built-in kinds, from ``types.json`` (see ``tools/gen_wire.py``).

The file is read on first use, and a message is put together when somebody asks for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import orjson

__all__ = ["Field", "Message", "Type", "message", "message_for", "type_of", "wrapped_lists"]

_OMITEMPTY, _OMITZERO, _EMBEDDED = 1, 2, 4
_PATH = re.compile(r"\w+/(\w+\.)")
_MAP = re.compile(r"map\[([^\]]+)\](.+)")
_SCALARS = {
    "string": "string", "bool": "bool", "float32": "float", "float64": "float",
    "int": "int", "int32": "int", "int64": "int", "uint8": "int", "uint32": "int", "uint64": "int",
}  # fmt: skip
_SPECIAL = {
    "meta/v1.Time": "time",
    "meta/v1.MicroTime": "microtime",
    "meta/v1.Duration": "duration",
    "meta/v1.FieldsV1": "raw",
    "runtime.RawExtension": "raw",
    "runtime.Object": "raw",
    "apiextensions/v1.JSON": "raw",
    "apiextensions/v1.JSONSchemaPropsOrBool": "schema-or-bool",
    "apiextensions/v1.JSONSchemaPropsOrArray": "schema-or-list",
    "apiextensions/v1.JSONSchemaPropsOrStringArray": "schema-or-strings",
    "intstr.IntOrString": "int-or-string",
    "resource.Quantity": "quantity",
}
# Registered by every Kubernetes API server under each of its group versions.
_EVERYWHERE = {
    "APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "CreateOptions", "DeleteOptions",
    "GetOptions", "ListOptions", "PatchOptions", "Status", "UpdateOptions", "WatchEvent",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Type:
    """One Go type. ``shape`` says how its values look on the wire."""

    text: str
    """As in Go, with packages in full."""
    shape: str
    """A scalar (string, bool, int, float), pointer, list, map, bytes, struct, or a special one."""
    base: str = ""
    """The Go base type of a scalar: int32, float64 …"""
    elem: Type | None = None

    @property
    def go(self) -> str:
        """The name as Go prints it in errors."""
        return _PATH.sub(r"\1", self.text)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct; those of embedded structs stand in the struct that embeds them."""

    name: str
    number: int
    type: Type
    omitempty: bool
    omitzero: bool
    embedded: bool = False
    path: tuple[str, ...] = ()
    """The Go names of the embedded structs it came through."""


@dataclass(frozen=True, eq=False)
class Message:
    """One Go struct: a kind, or a part of one."""

    name: str
    """``package.Name``, e.g. ``apps/v1.Deployment``."""
    group: str
    version: str
    kind: str
    """The Go name of the struct; for a kind that is the kind."""
    own: tuple[Field, ...]
    """The fields as protobuf sees them: embedded structs are fields."""
    fields: tuple[Field, ...]
    """The fields as JSON sees them: embedded structs are dissolved."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def field(self, name: str) -> Field | None:
        return _by_name(self).get(name)


@cache
def _by_name(msg: Message) -> dict[str, Field]:
    return {f.name: f for f in msg.fields}


@cache
def _data() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("types.json").read_bytes()
    data: dict[str, Any] = orjson.loads(text)
    data["groups"] = {name: key.rsplit("/", 2)[:2] for key, name in data["kinds"].items()}
    return data


@cache
def wrapped_lists() -> frozenset[str]:
    """Named lists that protobuf wraps into a message of their own."""
    return frozenset(_data()["wrapped"])


@cache
def type_of(text: str) -> Type:
    """The type written ``text`` in the data file."""
    if text in _SPECIAL:
        return Type(text, _SPECIAL[text])
    if text in _SCALARS:
        return Type(text, _SCALARS[text], text)
    if text.startswith("*"):
        return Type(text, "pointer", elem=type_of(text[1:]))
    if text == "[]uint8":
        return Type(text, "bytes")
    if text.startswith("[]"):
        return Type(text, "list", elem=type_of(text[2:]))
    if match := _MAP.fullmatch(text):
        return Type(text, "map", elem=type_of(match.group(2)))
    if target := _data()["named"].get(text):
        meant = type_of(target)
        return Type(
            text if meant.shape != "struct" else target, meant.shape, meant.base, meant.elem
        )
    return Type(text, "struct")


def _fields(name: str) -> tuple[Field, ...]:
    return tuple(
        Field(
            json_name,
            number,
            type_of(text),
            bool(flags & _OMITEMPTY),
            bool(flags & _OMITZERO),
            bool(flags & _EMBEDDED),
        )
        for json_name, number, flags, text in _data()["messages"][name]
    )


def _dissolve(own: tuple[Field, ...], path: tuple[str, ...] = ()) -> list[Field]:
    out: list[Field] = []
    for field in own:
        if field.embedded:
            out += _dissolve(_fields(field.type.text.lstrip("*")), (*path, field.name))
        else:
            out.append(
                Field(
                    field.name, field.number, field.type, field.omitempty, field.omitzero, path=path
                )
            )
    return out


@cache
def message(name: str) -> Message:
    """The struct called ``package.Name``, e.g. ``meta/v1.DeleteOptions``.

    Raises:
        KeyError: there is none.
    """
    own = _fields(name)
    package, _, kind = name.rpartition(".")
    group, version = _data()["groups"].get(name, ("", package.rsplit("/", 1)[-1]))
    return Message(name, group, version, kind, own, tuple(_dissolve(own)))


@cache
def message_for(group: str, version: str, kind: str) -> Message | None:
    """The struct of a built-in kind; None for what is not built in."""
    name = _data()["kinds"].get(f"{group}/{version}/{kind}")
    if name is None and kind in _EVERYWHERE:
        name = f"meta/v1.{kind}"
    return None if name is None else message(name)
