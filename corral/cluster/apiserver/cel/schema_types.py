"""Types for checking rules against a structural schema.

Objects become message types of a descriptor pool made for the schema, so that the checker knows
their fields; what a message field cannot express (a list of lists, a map of lists) is dynamic.
The types serve checking only: evaluation works on plain values.
"""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.cel.escape import escape
from corral.kube.types import Obj

__all__ = ["SchemaTypes"]

_FILES = ("struct", "timestamp", "duration")
_SCALARS = {"boolean": "bool", "integer": "int", "number": "double"}
_STRING_FORMATS = {
    "byte": "bytes",
    "date": "timestamp",
    "date-time": "timestamp",
    "duration": "duration",
}
_MESSAGES = {
    "timestamp": ".google.protobuf.Timestamp",
    "duration": ".google.protobuf.Duration",
    "dyn": ".google.protobuf.Value",
}
META: Obj = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
}


def with_metadata(schema: Obj) -> Obj:
    """The schema of a resource: type and name are always visible to rules."""
    text = {"type": "string"}
    extra = {"apiVersion": text, "kind": text, "metadata": META}
    return {**schema, "properties": {**schema.get("properties", {}), **extra}}


class SchemaTypes:
    """The types of one schema, each named when first asked for; ``finish`` builds the pool."""

    def __init__(self, *, escaped: bool = True) -> None:
        """``escaped``: fields go by the identifiers that rules of CRDs use for them."""
        from google.protobuf import descriptor_pb2  # type: ignore[import-untyped]

        self._escaped = escaped

        self._pb = descriptor_pb2
        self._count = 0
        files = [f"google/protobuf/{name}.proto" for name in _FILES]
        self._file = descriptor_pb2.FileDescriptorProto(
            name="schema.proto", package="schema", syntax="proto3", dependency=files
        )

    def of(self, schema: Obj, *, root: bool = False) -> str | None:
        """The CEL type of a schema's values; None where rules cannot see them."""
        if schema.get("x-kubernetes-int-or-string"):
            return "dyn"
        if root or schema.get("x-kubernetes-embedded-resource"):
            schema = with_metadata(schema)
        kind = schema.get("type")
        if kind == "array":
            item = self.of(schema["items"]) if isinstance(schema.get("items"), dict) else None
            return item and f"list<{item}>"
        if kind == "object":
            more = schema.get("additionalProperties")
            if isinstance(more, dict):
                value = self.of(more)
                return value and f"map<string, {value}>"
            return self._message(schema)
        if kind == "string":
            return _STRING_FORMATS.get(schema.get("format", ""), "string")
        return _SCALARS.get(kind or "")

    def finish(self) -> Any:
        """The descriptor pool with every type asked for so far."""
        from google.protobuf import (
            descriptor_pool,
            duration_pb2,
            struct_pb2,
            timestamp_pb2,
        )

        pool = descriptor_pool.DescriptorPool()
        for module in (struct_pb2, timestamp_pb2, duration_pb2):
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        pool.AddSerializedFile(self._file.SerializeToString())
        return pool

    def _message(self, schema: Obj) -> str:
        self._count += 1
        message = self._pb.DescriptorProto(name=f"Object{self._count}")
        number = 0
        for name, prop in (schema.get("properties") or {}).items():
            field, inner = escape(name) if self._escaped else name, self.of(prop)
            if field is None or inner is None:
                continue
            number += 1
            self._add_field(message, field, number, inner)
        self._file.message_type.append(message)
        return f"schema.{message.name}"

    def _add_field(self, message: Any, name: str, number: int, inner: str) -> None:
        repeated = inner.startswith("list<")
        if inner.startswith("map<"):
            inner = self._map_entry(message, name, inner[12:-1])
            repeated = inner != "dyn"
        elif repeated:
            inner = inner[5:-1]
            if inner.startswith(("list<", "map<")):
                inner = "dyn"
        field = message.field.add(name=name, number=number, json_name=f"f{number}")
        field.label = 3 if repeated else 1
        self._set_type(field, inner)

    def _map_entry(self, message: Any, name: str, value: str) -> str:
        entry = "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"
        if value.startswith(("list<", "map<")):
            value = "dyn"
        if any(nested.name == entry for nested in message.nested_type):
            return "dyn"
        nested = message.nested_type.add(name=entry)
        nested.options.map_entry = True
        self._set_type(nested.field.add(name="key", number=1, label=1), "string")
        self._set_type(nested.field.add(name="value", number=2, label=1), value)
        return f"schema.Object{self._count_of(message)}.{entry}"

    @staticmethod
    def _count_of(message: Any) -> str:
        return str(message.name).removeprefix("Object")

    def _set_type(self, field: Any, inner: str) -> None:
        proto = self._pb.FieldDescriptorProto
        plain = {
            "bool": proto.TYPE_BOOL,
            "int": proto.TYPE_INT64,
            "double": proto.TYPE_DOUBLE,
            "string": proto.TYPE_STRING,
            "bytes": proto.TYPE_BYTES,
        }
        if inner in plain:
            field.type = plain[inner]
            return
        field.type = proto.TYPE_MESSAGE
        field.type_name = _MESSAGES.get(inner, f".{inner}")
