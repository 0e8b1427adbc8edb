"""A client that knows nothing but an address: it learns services and messages by reflection.

What grpcurl does: list, describe, and call with JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha import reflection_pb2 as pb

VERSIONS = ("grpc.reflection.v1alpha.ServerReflection", "grpc.reflection.v1.ServerReflection")


class Reflecting:
    """Calls methods of a server by their names."""

    def __init__(self, channel: grpc.Channel, version: str = VERSIONS[0]) -> None:
        self._channel, self._pool = channel, DescriptorPool()
        self._ask = channel.stream_stream(
            f"/{version}/ServerReflectionInfo",
            request_serializer=pb.ServerReflectionRequest.SerializeToString,
            response_deserializer=pb.ServerReflectionResponse.FromString,
        )
        self._files: set[str] = set()

    def services(self) -> list[str]:
        answer = self._one(pb.ServerReflectionRequest(list_services="*"))
        return [service.name for service in answer.list_services_response.service]

    def methods(self, service: str) -> list[str]:
        return [method.name for method in self._service(service).methods]

    def call(self, path: str, request: Any, *, token: str = "") -> Any:
        """The answer of ``corral.v1.JobService/Get`` to a request in JSON; a list of a stream's."""
        method = self._method(path)
        asked = GetMessageClass(method.input_type)
        answered = GetMessageClass(method.output_type)
        kind = self._channel.unary_stream if method.server_streaming else self._channel.unary_unary
        send = kind(
            f"/{path}",
            request_serializer=asked.SerializeToString,
            response_deserializer=answered.FromString,
        )
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        answer = send(ParseDict(request, asked(), descriptor_pool=self._pool), metadata=metadata,
                      timeout=60)  # fmt: skip
        if method.server_streaming:
            return [self._json(message) for message in answer]
        return self._json(answer)

    def _json(self, message: Any) -> Any:
        return MessageToDict(message, descriptor_pool=self._pool)

    def _method(self, path: str) -> MethodDescriptor:
        service, _, name = path.partition("/")
        return self._service(service).methods_by_name[name]

    def _service(self, name: str) -> Any:
        for content in self._described(pb.ServerReflectionRequest(file_containing_symbol=name)):
            self._add(content)
        return self._pool.FindServiceByName(name)

    def _add(self, content: bytes) -> None:
        """A file, after those that it imports."""
        file = FileDescriptorProto.FromString(content)
        if file.name in self._files:
            return
        self._files.add(file.name)
        for name in file.dependency:
            if name not in self._files:
                request = pb.ServerReflectionRequest(file_by_filename=name)
                for inner in self._described(request):
                    self._add(inner)
        self._pool.Add(file)

    def _described(self, request: pb.ServerReflectionRequest) -> Iterator[bytes]:
        answer = self._one(request)
        assert not answer.HasField("error_response"), answer.error_response
        yield from answer.file_descriptor_response.file_descriptor_proto

    def _one(self, request: pb.ServerReflectionRequest) -> pb.ServerReflectionResponse:
        (answer,) = list(self._ask(iter([request]), timeout=60))
        return answer
