"""Messages of a .proto file, made from JSON schemas of our kinds and from Kubernetes' own types.

Every message has a field for each property, named in snake case, whose JSON name is the property;
what a field cannot hold goes into ``other_fields``, which every message has. Scalars are
``optional``, so that an explicit zero is not lost. Quantities, integers-or-strings and whatever has
no schema are a ``Value``; times and enumerations are strings, as in the Kubernetes API.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

OTHER_FIELDS = 1000
"""The number of ``other_fields`` in every message."""

Schema = dict[str, Any]
Label = Literal["", "repeated", "map"]
SCALARS = {"string", "bool", "int32", "int64", "double", "bytes"}


@dataclass
class Field:
    """One field; ``json`` is its name in JSON."""

    json: str
    type: str
    label: Label = ""
    doc: str = ""


@dataclass
class Message:
    """A message and those that are declared inside it."""

    name: str
    fields: list[Field] = field(default_factory=list)
    nested: list[Message] = field(default_factory=list)
    doc: str = ""


class Numbers:
    """Field numbers, recorded: a field keeps its number for ever, even after it is gone."""

    def __init__(self, recorded: dict[str, dict[str, int]]) -> None:
        self.recorded = recorded
        self.added: list[str] = []
        """Fields that had no number, as ``Message.field``."""

    def of(self, message: str, names: list[str]) -> dict[str, int]:
        """The numbers of these fields; new ones get the next free number."""
        known = self.recorded.setdefault(message, {})
        for name in names:
            if name not in known:
                known[name] = max(known.values(), default=0) + 1
                self.added.append(f"{message}.{name}")
        return {name: known[name] for name in names}

    def gone(self, message: str, names: list[str]) -> dict[str, int]:
        """Fields that the message once had."""
        known = self.recorded.get(message, {})
        return {name: number for name, number in known.items() if name not in names}


# --- names -------------------------------------------------------------------------------------


def snake(name: str) -> str:
    """``mpiReplicaSpecs`` → ``mpi_replica_specs``; ``hostIPC`` → ``host_ipc``."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).replace("-", "_").lower()


def pascal(name: str) -> str:
    return name[:1].upper() + name[1:]


def singular(name: str) -> str:
    if name.endswith("uses"):
        return name[:-2]
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def plural(name: str) -> str:
    return f"{name}es" if name.endswith(("s", "x", "ch")) else f"{name}s"


def _default_json(name: str) -> str:
    """The JSON name that protoc gives a field by itself."""
    first, *rest = name.split("_")
    return first + "".join(pascal(word) for word in rest)


# --- text --------------------------------------------------------------------------------------


def comment(text: str, indent: str) -> Iterator[str]:
    """The text as comment lines; a declaration never goes without one."""
    for line in textwrap.wrap(" ".join(text.split()), 97 - len(indent)) if text else ():
        yield f"{indent}// {line}"


def emit(message: Message, numbers: Numbers, *, scope: str = "", indent: str = "") -> Iterator[str]:
    """The message as lines of a .proto file."""
    path = f"{scope}.{message.name}" if scope else message.name
    names = [entry.json for entry in message.fields]
    given = numbers.of(path, names)
    inner = indent + "  "
    yield from comment(message.doc or f"{message.name}.", indent)
    yield f"{indent}message {message.name} {{"
    if gone := numbers.gone(path, names):
        yield f"{inner}reserved {', '.join(str(number) for number in sorted(gone.values()))};"
        quoted = ", ".join(f'"{snake(name)}"' for name in sorted(gone))
        yield f"{inner}reserved {quoted};"
    for child in message.nested:
        yield from emit(child, numbers, scope=path, indent=inner)
    for entry in message.fields:
        yield from comment(entry.doc or f"{entry.json}.", inner)
        yield f"{inner}{_declaration(entry, given[entry.json])}"
    yield f"{inner}// What no field above can hold, by its name in JSON."
    yield f"{inner}map<string, Value> other_fields = {OTHER_FIELDS};"
    yield f"{indent}}}"


def _declaration(entry: Field, number: int) -> str:
    name = snake(entry.json)
    option = "" if _default_json(name) == entry.json else f' [json_name = "{entry.json}"]'
    kind = f"map<string, {entry.type}>" if entry.label == "map" else entry.type
    label: str = entry.label if entry.label == "repeated" else ""
    if not label and entry.label != "map" and entry.type in SCALARS:
        label = "optional"
    return f"{label} {kind} {name} = {number}{option};".lstrip()


# --- from the schema of a kind -----------------------------------------------------------------

# Properties that Kubernetes has a type for, whatever little of it the schema spells out.
KNOWN = {
    "metadata": ("ObjectMeta", ""),
    "template": ("PodTemplateSpec", ""),
    "env": ("EnvVar", "repeated"),
    "resources": ("ResourceRequirements", ""),
    "labelSelector": ("LabelSelector", ""),
}
SPELLED_OUT = {
    "metadata": {"name", "generateName", "namespace", "labels", "annotations"},
    "template": {"metadata", "spec"},
    "resources": {"limits", "requests", "claims"},
    "labelSelector": {"matchLabels", "matchExpressions"},
}
"""What a schema may say of them: one that says something else means something else."""


def _known(key: str, schema: Schema) -> bool:
    if key not in KNOWN:
        return False
    if KNOWN[key][1] == "repeated":
        return bool(schema.get("type") == "array")
    plain = not isinstance(schema.get("additionalProperties"), dict)
    return plain and set(schema.get("properties", {})) <= SPELLED_OUT[key]


def from_schema(name: str, schema: Schema) -> Message:
    """The message of an object schema with properties."""
    out = Message(name, doc=str(schema.get("description", "")))
    for key, value in schema.get("properties", {}).items():
        doc = str(value.get("description", ""))
        if _known(key, value):
            kind, label = KNOWN[key]
            out.fields.append(Field(key, kind, label, doc))  # type: ignore[arg-type]
        else:
            out.fields.append(_field(out, key, value, doc=doc))
    return out


def _field(owner: Message, key: str, schema: Schema, *, doc: str) -> Field:
    extra = schema.get("additionalProperties")
    if schema.get("type") == "array":
        kind = _type(owner, singular(key), schema.get("items", {}))
        return Field(key, kind, "repeated", doc)
    if schema.get("type") == "object" and isinstance(extra, dict):
        return Field(key, _type(owner, singular(key), extra), "map", doc)
    return Field(key, _type(owner, key, schema), "", doc)


def _type(owner: Message, key: str, schema: Schema) -> str:
    """The type of one value; an object with properties becomes a message inside its owner."""
    kind = schema.get("type")
    if kind == "object" and schema.get("properties"):
        message = from_schema(pascal(key), schema)
        owner.nested.append(message)
        return message.name
    if kind == "integer":
        return "int32" if schema.get("format") == "int32" else "int64"
    return {"string": "string", "boolean": "bool", "number": "double"}.get(str(kind), "Value")


# --- from Kubernetes' types --------------------------------------------------------------------

_EMBEDDED = 4
_VALUES = {"intstr.IntOrString", "resource.Quantity", "meta/v1.FieldsV1"}
_STRINGS = {"meta/v1.Time", "meta/v1.MicroTime"}
_GO = {"string": "string", "bool": "bool", "int32": "int32", "int64": "int64", "int": "int64"}


class CoreTypes:
    """Kubernetes' types, by the file that `gen_wire.py` writes."""

    def __init__(self, wire: dict[str, Any]) -> None:
        self._messages, self._named = wire["messages"], wire["named"]
        self._made: dict[str, Message] = {}

    def closure(self, *roots: str) -> list[Message]:
        """The messages of these types and of all that they refer to, by name."""
        for root in roots:
            self._message(root)
        return [self._made[name] for name in sorted(self._made)]

    def _message(self, name: str) -> str:
        short = name.rpartition(".")[2]
        if short not in self._made:
            message = self._made[short] = Message(short, doc=f"{short} of Kubernetes ({name}).")
            message.fields = list(self._fields(name))
        return short

    def _fields(self, name: str) -> Iterator[Field]:
        for json, _, flags, kind in self._messages[name]:
            if flags & _EMBEDDED:
                yield from self._fields(kind.lstrip("*"))
            else:
                yield self._field(json, kind)

    def _field(self, json: str, kind: str) -> Field:
        kind = self._named.get(kind.lstrip("*"), kind.lstrip("*"))
        if kind.startswith("[]") and kind != "[]byte":
            return Field(json, self._type(kind[2:]), "repeated")
        if kind.startswith("map["):
            return Field(json, self._type(kind.partition("]")[2]), "map")
        return Field(json, self._type(kind))

    def _type(self, kind: str) -> str:
        kind = kind.lstrip("*")
        kind = self._named.get(kind, kind)
        if kind in _VALUES:
            return "Value"
        if kind in _STRINGS or kind == "[]byte":
            return "string"
        return _GO[kind] if kind in _GO else self._message(kind)
