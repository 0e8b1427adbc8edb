"""The service of one kind, made from the descriptor of the service for every kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    MethodDescriptorProto,
)

from tools.protos.messages import plural

_TYPES = {1: "double", 3: "int64", 5: "int32", 8: "bool", 9: "string", 12: "bytes"}
_MESSAGE, _ENUM = 11, 14
_REPEATED = 3


def method_name(generic: str, kind: str) -> str:
    """``Create`` → ``CreateMPIJob``, ``List`` → ``ListMPIJobs`` and so on."""
    verb, rest = re.fullmatch(r"([A-Z][a-z]+)(\w*)", generic).groups()  # type: ignore[union-attr]
    return f"{verb}{plural(kind) if generic == 'List' else kind}{rest}"


class Comments:
    """The leading comments of a file, by the path of what they are about."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._by_path = {
            tuple(at.path): at.leading_comments.strip("\n") for at in file.source_code_info.location
        }

    def at(self, *path: int, indent: str = "") -> Iterator[str]:
        for line in self._by_path[path].splitlines():
            yield f"{indent}//{line}"


def service(
    file: FileDescriptorProto, kind: str, *, offers: Callable[[str], bool]
) -> Iterator[str]:
    """The lines of the service of ``kind`` with the methods that it offers, and their messages."""
    comments = Comments(file)
    generic = file.service[0]
    messages = {message.name: at for at, message in enumerate(file.message_type)}
    methods = [(at, method) for at, method in enumerate(generic.method) if offers(method.name)]
    yield f"// What can be asked about objects of kind {kind}: JobService with its own messages."
    yield f"service {kind}Service {{"
    for at, method in methods:
        yield from comments.at(6, 0, 2, at, indent="  ")
        yield f"  {_rpc(method, kind)}"
    yield "}"
    for _, method in methods:
        for part in (method.input_type, method.output_type):
            at = messages[part.rpartition(".")[2]]
            yield ""
            yield from comments.at(4, at)
            name = f"{method_name(method.name, kind)}{part.rpartition(method.name)[2]}"
            yield from _message(file.message_type[at], name, kind, comments=comments, at=at)


def _rpc(method: MethodDescriptorProto, kind: str) -> str:
    name = method_name(method.name, kind)
    stream = "stream " if method.server_streaming else ""
    return f"rpc {name}({name}Request) returns ({stream}{name}Response);"


def _message(
    message: DescriptorProto, name: str, kind: str, *, comments: Comments, at: int
) -> Iterator[str]:
    yield f"message {name} {{"
    if any(entry.name == "kind" for entry in message.field):
        yield "  // The kind, which the service knows."
        yield "  reserved 1;"
        yield '  reserved "kind";'
    for index, entry in enumerate(message.field):
        if entry.name == "kind":
            continue
        yield from comments.at(4, at, 2, index, indent="  ")
        yield f"  {_field(entry, kind)}"
    yield "}"


def _field(entry: FieldDescriptorProto, kind: str) -> str:
    if entry.type in (_MESSAGE, _ENUM):
        type_name = entry.type_name.rpartition(".")[2]
        type_name = kind if entry.name in ("object", "objects") else type_name
    else:
        type_name = _TYPES[entry.type]
    label = "repeated " if entry.label == _REPEATED else ""
    label = "optional " if entry.proto3_optional else label
    return f"{label}{type_name} {entry.name} = {entry.number};"
