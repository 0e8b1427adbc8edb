"""What a new version of .proto files may not do to clients of the old one, on the wire and in JSON.

`breaks` gives one line for each thing that would break, with the name that buf has for the rule.
Fields may go where their number and name stay reserved; everything else that was there stays.
"""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)


def breaks(old: FileDescriptorSet, new: FileDescriptorSet) -> list[str]:
    now = {file.name: file for file in new.file}
    found: list[str] = []
    for file in old.file:
        if file.name not in now:
            found.append(f"FILE_NO_DELETE {file.name}")
        else:
            found += _file(file, now[file.name])
    return sorted(found)


def _file(old: FileDescriptorProto, new: FileDescriptorProto) -> Iterator[str]:
    if old.package != new.package:
        yield f"FILE_SAME_PACKAGE {old.name}"
    if old.syntax != new.syntax:
        yield f"FILE_SAME_SYNTAX {old.name}"
    messages = {message.name: message for message in new.message_type}
    for message in old.message_type:
        yield from _message_or_gone(message, messages.get(message.name), message.name)
    enums = {enum.name: enum for enum in new.enum_type}
    for enum in old.enum_type:
        yield from _enum_or_gone(enum, enums.get(enum.name), enum.name)
    services = {service.name: service for service in new.service}
    for service in old.service:
        if service.name in services:
            yield from _service(service, services[service.name])
        else:
            yield f"SERVICE_NO_DELETE {service.name}"


def _message_or_gone(old: DescriptorProto, new: DescriptorProto | None, path: str) -> Iterator[str]:
    if new is None:
        yield f"MESSAGE_NO_DELETE {path}"
        return
    fields = {field.number: field for field in new.field}
    for field in old.field:
        now = fields.get(field.number)
        if now is not None:
            yield from _field(old, field, new, now=now, path=f"{path}.{field.name}")
        elif not _reserved(new, field):
            yield f"FIELD_NO_DELETE_UNLESS_RESERVED {path}.{field.name}"
    for span in old.reserved_range:
        if not any(s.start <= span.start and span.end <= s.end for s in new.reserved_range):
            yield f"RESERVED_MESSAGE_NO_DELETE {path} {span.start}"
    nested = {message.name: message for message in new.nested_type}
    for message in old.nested_type:
        yield from _message_or_gone(message, nested.get(message.name), f"{path}.{message.name}")
    enums = {enum.name: enum for enum in new.enum_type}
    for enum in old.enum_type:
        yield from _enum_or_gone(enum, enums.get(enum.name), f"{path}.{enum.name}")


def _reserved(message: DescriptorProto, field: FieldDescriptorProto) -> bool:
    number = any(span.start <= field.number < span.end for span in message.reserved_range)
    return number and field.name in message.reserved_name


def _field(
    before: DescriptorProto,
    old: FieldDescriptorProto,
    after: DescriptorProto,
    *,
    now: FieldDescriptorProto,
    path: str,
) -> Iterator[str]:
    if old.name != now.name:
        yield f"FIELD_SAME_NAME {path}"
    if old.json_name != now.json_name:
        yield f"FIELD_SAME_JSON_NAME {path}"
    if (old.type, old.type_name) != (now.type, now.type_name):
        yield f"FIELD_SAME_TYPE {path}"
    if (old.label, old.proto3_optional) != (now.label, now.proto3_optional):
        yield f"FIELD_SAME_CARDINALITY {path}"
    if _oneof(before, old) != _oneof(after, now):
        yield f"FIELD_SAME_ONEOF {path}"


def _oneof(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    return message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else ""


def _enum_or_gone(
    old: EnumDescriptorProto, new: EnumDescriptorProto | None, path: str
) -> Iterator[str]:
    if new is None:
        yield f"ENUM_NO_DELETE {path}"
        return
    names = {value.number: value.name for value in new.value}
    for value in old.value:
        if value.number not in names:
            yield f"ENUM_VALUE_NO_DELETE {path}.{value.name}"
        elif names[value.number] != value.name:
            yield f"ENUM_VALUE_SAME_NAME {path}.{value.name}"


def _service(old: ServiceDescriptorProto, new: ServiceDescriptorProto) -> Iterator[str]:
    methods = {method.name: method for method in new.method}
    for method in old.method:
        path, now = f"{old.name}.{method.name}", methods.get(method.name)
        if now is None:
            yield f"RPC_NO_DELETE {path}"
            continue
        if method.input_type != now.input_type:
            yield f"RPC_SAME_REQUEST_TYPE {path}"
        if method.output_type != now.output_type:
            yield f"RPC_SAME_RESPONSE_TYPE {path}"
        if method.server_streaming != now.server_streaming:
            yield f"RPC_SAME_SERVER_STREAMING {path}"
        if method.client_streaming != now.client_streaming:
            yield f"RPC_SAME_CLIENT_STREAMING {path}"
