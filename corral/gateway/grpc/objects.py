"""Objects in requests and answers: as ``corral.v1.Object``, or as the message of one kind.

A `Face` is how a service shows objects. The methods behind all faces are the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import orjson
from google.protobuf.descriptor import ServiceDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import Message  # type: ignore[import-untyped]

from corral.client.kinds import JobKind
from corral.gateway.grpc.messages import read_message, write_message
from corral.gateway.grpc.values import Unreadable
from corral.kube.types import Obj
from corral.v1.objects_pb2 import Object

__all__ = ["Face", "read_object", "write_object"]

_INT64: Final = range(-(1 << 63), 1 << 63)
_LONG: Final = {
    "namespace": "namespace",
    "name": "name",
    "uid": "uid",
    "resource_version": "resourceVersion",
    "creation_timestamp": "creationTimestamp",
}


@dataclass(frozen=True, slots=True)
class Face:
    """A service, and the kind that it is for."""

    service: ServiceDescriptor
    kind: JobKind | None
    """None: every request names one."""

    def write(self, out: Message, obj: Obj, kind: JobKind) -> None:
        """Put an object into an answer."""
        if self.kind is None:
            write_object(out, obj, kind)
        else:
            write_message(out, obj)

    def read(self, message: Message) -> Obj:
        """The object of a request. Raises Unreadable."""
        obj = read_object(message) if self.kind is None else read_message(message)
        _refuse_large(obj, "")
        return obj


def write_object(out: Object, obj: Obj, kind: JobKind | None = None) -> None:
    """The JSON of an object, and what most readers look for beside it."""
    out.json = orjson.dumps(obj)
    out.api_version, out.kind = _text(obj.get("apiVersion")), _text(obj.get("kind"))
    out.phase = kind.phase(obj) if kind is not None else ""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return
    for name, member in _LONG.items():
        setattr(out, name, _text(metadata.get(member)))
    generation = metadata.get("generation")
    if isinstance(generation, int) and generation in _INT64:
        out.generation = generation
    for target, member in ((out.labels, "labels"), (out.annotations, "annotations")):
        found = metadata.get(member)
        if isinstance(found, dict):
            target.update({key: _text(value) for key, value in found.items()})


def read_object(message: Object) -> Obj:
    """The object whose JSON this is.

    Raises:
        Unreadable: it is no JSON object.
    """
    try:
        # Not orjson: it makes floating point numbers of integers beyond 64 bits.
        obj = json.loads(message.json, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Unreadable("object.json", f"is no JSON: {error}") from error
    if not isinstance(obj, dict):
        raise Unreadable("object.json", "must be a JSON object")
    return obj


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number of JSON")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _refuse_large(value: Any, path: str) -> None:
    """The API server has integers of 64 bits: larger ones would come back as other numbers."""
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_large(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            _refuse_large(item, f"{path}[{at}]")
    elif isinstance(value, int) and value not in _INT64:
        raise Unreadable(path, "does not fit into 64 bits, which is all that Kubernetes has")
