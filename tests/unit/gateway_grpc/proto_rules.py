"""What .proto files of ours must be like: rules that the buf linter calls STANDARD and COMMENTS.

`problems` gives one line for every breach, with the name that buf has for the rule.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)

SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
UPPER = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
PASCAL = re.compile(r"[A-Z][A-Za-z0-9]*")
VERSIONED = re.compile(r"[a-z][a-z0-9]*(\.[a-z][a-z0-9]*)*\.v[1-9][0-9]*")
MESSAGE_TYPE, REQUIRED = 11, 2


def problems(files: FileDescriptorSet) -> list[str]:
    ours = [file for file in files.file if not file.name.startswith("google/")]
    found: list[str] = []
    for file in ours:
        found += [f"{file.name}: {said}" for said in _file(file)]
    found += _unique_messages(ours)
    return sorted(found)


def _file(file: FileDescriptorProto) -> Iterator[str]:
    folder, _, name = file.name.rpartition("/")
    if not file.package:
        yield "PACKAGE_DEFINED"
    if file.package.replace(".", "/") != folder:
        yield "PACKAGE_DIRECTORY_MATCH"
    if not VERSIONED.fullmatch(file.package):
        yield "PACKAGE_VERSION_SUFFIX"
    if not SNAKE.fullmatch(name.removesuffix(".proto")):
        yield "FILE_LOWER_SNAKE_CASE"
    if file.syntax != "proto3":
        yield "SYNTAX_SPECIFIED"
    if file.public_dependency:
        yield "IMPORT_NO_PUBLIC"
    if file.weak_dependency:
        yield "IMPORT_NO_WEAK"
    for message in file.message_type:
        yield from _message(message, message.name)
    for enum in file.enum_type:
        yield from _enum(enum, enum.name)
    for service in file.service:
        yield from _service(service)
    yield from _uncommented(file)


def _message(message: DescriptorProto, path: str) -> Iterator[str]:
    if not PASCAL.fullmatch(message.name):
        yield f"MESSAGE_PASCAL_CASE {path}"
    for field in message.field:
        if not SNAKE.fullmatch(field.name):
            yield f"FIELD_LOWER_SNAKE_CASE {path}.{field.name}"
        if field.label == REQUIRED:
            yield f"FIELD_NOT_REQUIRED {path}.{field.name}"
    if len({field.json_name for field in message.field}) != len(message.field):
        yield f"FIELD_JSON_NAME_UNIQUE {path}"
    for oneof in message.oneof_decl:
        # protoc makes one with an underscore in front for every optional field
        if not SNAKE.fullmatch(oneof.name.removeprefix("_")):
            yield f"ONEOF_LOWER_SNAKE_CASE {path}.{oneof.name}"
    for nested in message.nested_type:
        if not nested.options.map_entry:
            yield from _message(nested, f"{path}.{nested.name}")
    for enum in message.enum_type:
        yield from _enum(enum, f"{path}.{enum.name}")


def _enum(enum: EnumDescriptorProto, path: str) -> Iterator[str]:
    if not PASCAL.fullmatch(enum.name):
        yield f"ENUM_PASCAL_CASE {path}"
    if enum.options.allow_alias:
        yield f"ENUM_NO_ALLOW_ALIAS {path}"
    prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", enum.name).upper()
    if enum.value[0].number != 0:
        yield f"ENUM_FIRST_VALUE_ZERO {path}"
    for value in enum.value:
        if not UPPER.fullmatch(value.name):
            yield f"ENUM_VALUE_UPPER_SNAKE_CASE {path}.{value.name}"
        if not value.name.startswith(f"{prefix}_"):
            yield f"ENUM_VALUE_PREFIX {path}.{value.name}"
        if value.number == 0 and not value.name.endswith("_UNSPECIFIED"):
            yield f"ENUM_ZERO_VALUE_SUFFIX {path}.{value.name}"


def _service(service: ServiceDescriptorProto) -> Iterator[str]:
    if not PASCAL.fullmatch(service.name):
        yield f"SERVICE_PASCAL_CASE {service.name}"
    if not service.name.endswith("Service"):
        yield f"SERVICE_SUFFIX {service.name}"
    for method in service.method:
        path = f"{service.name}.{method.name}"
        if not PASCAL.fullmatch(method.name):
            yield f"RPC_PASCAL_CASE {path}"
        if method.input_type.rpartition(".")[2] != f"{method.name}Request":
            yield f"RPC_REQUEST_STANDARD_NAME {path}"
        if method.output_type.rpartition(".")[2] != f"{method.name}Response":
            yield f"RPC_RESPONSE_STANDARD_NAME {path}"
        if method.client_streaming:
            yield f"RPC_NO_CLIENT_STREAMING {path}"


def _unique_messages(files: list[FileDescriptorProto]) -> Iterator[str]:
    """No message is the request or answer of two methods."""
    used: Counter[str] = Counter()
    for file in files:
        for service in file.service:
            for method in service.method:
                used.update((method.input_type, method.output_type))
    for name, times in used.items():
        if times > 1:
            yield f"RPC_REQUEST_RESPONSE_UNIQUE {name}"


def _uncommented(file: FileDescriptorProto) -> Iterator[str]:
    """Everything that has a name has a comment."""
    said = {tuple(at.path) for at in file.source_code_info.location if at.leading_comments.strip()}
    for path, name in _named(file):
        if path not in said:
            yield f"COMMENTS {name}"


def _named(file: FileDescriptorProto) -> Iterator[tuple[tuple[int, ...], str]]:
    for at, message in enumerate(file.message_type):
        yield from _named_message(message, (4, at), message.name)
    for at, enum in enumerate(file.enum_type):
        yield from _named_parts(enum, enum.value, (5, at), 2)
    for at, service in enumerate(file.service):
        yield from _named_parts(service, service.method, (6, at), 2)


def _named_message(
    message: DescriptorProto, path: tuple[int, ...], name: str
) -> Iterator[tuple[tuple[int, ...], str]]:
    yield path, name
    for at, field in enumerate(message.field):
        yield (*path, 2, at), f"{name}.{field.name}"
    for at, nested in enumerate(message.nested_type):
        if not nested.options.map_entry:
            yield from _named_message(nested, (*path, 3, at), f"{name}.{nested.name}")


def _named_parts(
    whole: Any, parts: Any, path: tuple[int, ...], number: int
) -> Iterator[tuple[tuple[int, ...], str]]:
    yield path, whole.name
    for at, part in enumerate(parts):
        yield (*path, number, at), f"{whole.name}.{part.name}"
