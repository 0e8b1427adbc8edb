"""The .proto files: their style, what is recorded about them, and the services of the stubs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from corral.api import all_kinds
from corral.client import KINDS
from corral.gateway.grpc.operations import STREAMS, UNARIES
from corral.gateway.grpc.server import faces, generic_name
from tests.unit.gateway_grpc.proto_breaking import breaks
from tests.unit.gateway_grpc.proto_rules import problems
from tools.protos.build import is_current

Change = Callable[[FileDescriptorSet], object]


def _file(files: FileDescriptorSet, name: str) -> FileDescriptorProto:
    return next(file for file in files.file if file.name == f"corral/v1/{name}.proto")


def _message(files: FileDescriptorSet, file: str, name: str) -> DescriptorProto:
    return next(m for m in _file(files, file).message_type if m.name == name)


def _field(files: FileDescriptorSet, file: str, path: str) -> FieldDescriptorProto:
    message, _, name = path.partition(".")
    return next(f for f in _message(files, file, message).field if f.name == name)


def _set(target: Callable[[FileDescriptorSet], Any], **values: Any) -> Change:
    def change(files: FileDescriptorSet) -> None:
        for name, value in values.items():
            setattr(target(files), name, value)

    return change


def _method(files: FileDescriptorSet, name: str) -> Any:
    return next(m for m in _file(files, "jobs").service[0].method if m.name == name)


def _without(parts: Any, name: str) -> None:
    del parts[next(at for at, part in enumerate(parts) if part.name == name)]


# --- style -------------------------------------------------------------------------------------


def test_the_protos_keep_every_rule(protos: FileDescriptorSet) -> None:
    assert problems(protos) == []


def _enum(files: FileDescriptorSet) -> Any:
    return _file(files, "jobs").enum_type[0]


SPOILED: dict[str, Change] = {
    "PACKAGE_DIRECTORY_MATCH": _set(lambda f: _file(f, "jobs"), package="corral.v2"),
    "PACKAGE_VERSION_SUFFIX": _set(lambda f: _file(f, "jobs"), package="corral"),
    "PACKAGE_DEFINED": _set(lambda f: _file(f, "jobs"), package=""),
    "FILE_LOWER_SNAKE_CASE": _set(lambda f: _file(f, "jobs"), name="corral/v1/Jobs.proto"),
    "SYNTAX_SPECIFIED": _set(lambda f: _file(f, "jobs"), syntax=""),
    "IMPORT_NO_PUBLIC": lambda f: _file(f, "jobs").public_dependency.append(0),
    "IMPORT_NO_WEAK": lambda f: _file(f, "jobs").weak_dependency.append(0),
    "MESSAGE_PASCAL_CASE": _set(lambda f: _message(f, "jobs", "GetRequest"), name="get_request"),
    "FIELD_LOWER_SNAKE_CASE": _set(lambda f: _field(f, "jobs", "GetRequest.name"), name="Name"),
    "FIELD_NOT_REQUIRED": _set(lambda f: _field(f, "jobs", "GetRequest.name"), label=2),
    "FIELD_JSON_NAME_UNIQUE": _set(
        lambda f: _field(f, "jobs", "GetRequest.name"), json_name="kind"
    ),
    "ONEOF_LOWER_SNAKE_CASE": _set(
        lambda f: _message(f, "value", "Value").oneof_decl[0], name="Kind"
    ),
    "ENUM_PASCAL_CASE": _set(_enum, name="delete_propagation"),
    "ENUM_NO_ALLOW_ALIAS": _set(lambda f: _enum(f).options, allow_alias=True),
    "ENUM_FIRST_VALUE_ZERO": _set(lambda f: _enum(f).value[0], number=9),
    "ENUM_VALUE_UPPER_SNAKE_CASE": _set(lambda f: _enum(f).value[1], name="background"),
    "ENUM_VALUE_PREFIX": _set(lambda f: _enum(f).value[1], name="BACKGROUND"),
    "ENUM_ZERO_VALUE_SUFFIX": _set(lambda f: _enum(f).value[0], name="DELETE_PROPAGATION_NONE"),
    "SERVICE_PASCAL_CASE": _set(lambda f: _file(f, "jobs").service[0], name="jobService"),
    "SERVICE_SUFFIX": _set(lambda f: _file(f, "jobs").service[0], name="Jobs"),
    "RPC_PASCAL_CASE": _set(lambda f: _method(f, "Get"), name="get"),
    "RPC_REQUEST_STANDARD_NAME": _set(lambda f: _method(f, "Get"), input_type=".corral.v1.Value"),
    "RPC_RESPONSE_STANDARD_NAME": _set(lambda f: _method(f, "Get"), output_type=".corral.v1.Value"),
    "RPC_NO_CLIENT_STREAMING": _set(lambda f: _method(f, "Get"), client_streaming=True),
    "RPC_REQUEST_RESPONSE_UNIQUE": _set(
        lambda f: _method(f, "Get"), input_type=".corral.v1.ListRequest"
    ),
    "COMMENTS": lambda f: _file(f, "jobs").ClearField("source_code_info"),
}


@pytest.mark.parametrize("rule", SPOILED)
def test_a_breach_of_a_rule_is_seen(protos: FileDescriptorSet, rule: str) -> None:
    SPOILED[rule](protos)
    assert any(rule in line for line in problems(protos))


# --- later versions ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(repository: Path) -> FileDescriptorSet:
    return FileDescriptorSet.FromString((repository / "proto/recorded.binpb").read_bytes())


def test_nothing_that_was_recorded_is_broken(
    protos: FileDescriptorSet, recorded: FileDescriptorSet
) -> None:
    assert breaks(recorded, protos) == []


def _reserved(files: FileDescriptorSet) -> None:
    message = _message(files, "jobs", "ListRequest")
    _without(message.field, "sort")
    message.reserved_range.add(start=7, end=8)
    message.reserved_name.append("sort")


def _grown(files: FileDescriptorSet) -> None:
    message = _message(files, "jobs", "GetRequest")
    message.field.add(name="more", number=9, type=9, label=1, json_name="more")
    _file(files, "jobs").message_type.add(name="NewRequest")
    _enum(files).value.add(name="DELETE_PROPAGATION_NEW", number=7)


HARMLESS: dict[str, Change] = {"a field that is reserved": _reserved, "additions": _grown}


@pytest.mark.parametrize("change", HARMLESS)
def test_what_old_clients_do_not_notice_is_allowed(
    protos: FileDescriptorSet, recorded: FileDescriptorSet, change: str
) -> None:
    HARMLESS[change](protos)
    assert breaks(recorded, protos) == []


BROKEN: dict[str, Change] = {
    "FILE_NO_DELETE": lambda f: _without(f.file, "corral/v1/jobs.proto"),
    "FILE_SAME_PACKAGE": _set(lambda f: _file(f, "jobs"), package="corral.v2"),
    "FILE_SAME_SYNTAX": _set(lambda f: _file(f, "jobs"), syntax="proto2"),
    "MESSAGE_NO_DELETE GetRequest": lambda f: _without(_file(f, "jobs").message_type, "GetRequest"),
    "MESSAGE_NO_DELETE MPIJobSpec.RunPolicy": lambda f: _without(
        _message(f, "mpi_job", "MPIJobSpec").nested_type, "RunPolicy"
    ),
    "FIELD_NO_DELETE_UNLESS_RESERVED": lambda f: _without(
        _message(f, "jobs", "ListRequest").field, "sort"
    ),
    "FIELD_SAME_NAME": _set(lambda f: _field(f, "jobs", "GetRequest.name"), name="title"),
    "FIELD_SAME_JSON_NAME": _set(lambda f: _field(f, "core", "PodSpec.host_ipc"), json_name="x"),
    "FIELD_SAME_TYPE": _set(lambda f: _field(f, "jobs", "GetRequest.name"), type=12),
    "FIELD_SAME_CARDINALITY": _set(lambda f: _field(f, "jobs", "GetRequest.name"), label=3),
    "FIELD_SAME_ONEOF": lambda f: _field(f, "value", "Value.int_value").ClearField("oneof_index"),
    "RESERVED_MESSAGE_NO_DELETE": lambda f: _message(f, "mpi_job", "GetMPIJobRequest").ClearField(
        "reserved_range"
    ),
    "ENUM_NO_DELETE": lambda f: _without(_file(f, "jobs").enum_type, "ChangeType"),
    "ENUM_VALUE_NO_DELETE": lambda f: _enum(f).value.pop(),
    "ENUM_VALUE_SAME_NAME": _set(lambda f: _enum(f).value[1], name="DELETE_PROPAGATION_X"),
    "SERVICE_NO_DELETE": lambda f: _file(f, "mpi_job").service.pop(),
    "RPC_NO_DELETE": lambda f: _without(_file(f, "jobs").service[0].method, "Get"),
    "RPC_SAME_REQUEST_TYPE": _set(lambda f: _method(f, "Get"), input_type=".corral.v1.Value"),
    "RPC_SAME_RESPONSE_TYPE": _set(lambda f: _method(f, "Get"), output_type=".corral.v1.Value"),
    "RPC_SAME_SERVER_STREAMING": _set(lambda f: _method(f, "Get"), server_streaming=True),
    "RPC_SAME_CLIENT_STREAMING": _set(lambda f: _method(f, "Get"), client_streaming=True),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_what_would_break_old_clients_is_seen(
    protos: FileDescriptorSet, recorded: FileDescriptorSet, rule: str
) -> None:
    BROKEN[rule](protos)
    assert any(line.startswith(rule) for line in breaks(recorded, protos))


# --- what is made of them ----------------------------------------------------------------------


def test_the_stubs_are_of_these_sources() -> None:
    assert is_current(), "corral/v1 is out of date: run make install"


def test_every_kind_with_a_schema_has_a_service_of_its_own() -> None:
    shown = {face.kind.kind for face in faces() if face.kind is not None}
    assert shown == {kind.names.kind for kind in all_kinds()} & {kind.kind for kind in KINDS}


def test_every_method_of_every_service_is_served() -> None:
    for face in faces():
        for method in face.service.methods:
            name = generic_name(face, method.name)
            assert name in (STREAMS if method.server_streaming else UNARIES), method.full_name
    assert {method.name for method in faces()[0].service.methods} == {*UNARIES, *STREAMS}
