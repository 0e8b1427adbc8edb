"""Tenant A against tenant B over every method of every gRPC service of the gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from corral.gateway.grpc.messages import write_message
from corral.gateway.grpc.server import faces, generic_name
from corral.v1 import jobs_pb2 as pb
from tests.backends import Backend
from tests.cluster.gateway.gateways import token_of
from tests.cluster.gateway_grpc.both_views import GatewayThread, Views, views
from tests.cluster.gateway_grpc.conftest import backend, gateway, kubeconfig
from tests.cluster.jobs_api.manifests_of_jobs import training
from tests.cluster.objects import Objects, eventually

__all__ = ["backend", "gateway", "kubeconfig"]

EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
DENIED = grpc.StatusCode.PERMISSION_DENIED
NOT_OFFERED = {grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT}
"""What JobService says of a method that a kind does not have, whoever asks."""
STREAMS = ("WatchStatus", "GetLogs")


@pytest.fixture
def other(cluster: Objects, unique: str) -> Iterator[str]:
    """The namespace of tenant B, with a job in it."""
    name = f"tenant-b-{unique}"
    about = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    cluster.create("namespaces", about)
    Objects(cluster.backend, name).create("trainingjobs", training("theirs"))
    yield name
    cluster.delete("v1", "namespaces", name)


@pytest.fixture
def tenant(gateway: GatewayThread, backend: Backend, namespace: str) -> Iterator[Views]:
    """Tenant A: everything in its own namespace, nothing elsewhere."""
    token = token_of(backend, namespace, "tenant-a", rules=EVERYTHING)
    with views(gateway, token) as made:

        def may() -> bool:
            try:
                made.ask(made.any.List, pb.ListRequest(kind="trainingjobs", namespace=namespace))
            except grpc.RpcError:
                return False
            return True

        eventually(may)
        yield made


class Way:
    """One method of a service, about one kind."""

    def __init__(self, service: str, method: Any, name: str, kind: str, generic: bool) -> None:
        self.path = f"/{service}/{method.name}"
        self.method, self.name, self.kind, self.generic = method, name, kind, generic

    def __str__(self) -> str:
        return f"{self.path} {self.kind}"

    def request(self, namespace: str) -> Message:
        """A valid one about what is there."""
        made = GetMessageClass(self.method.input_type)()
        known = self.method.input_type.fields_by_name
        wanted = {"namespace": namespace, "name": "theirs", "kind": self.kind}
        for field, value in wanted.items():
            if field in known and not (field == "name" and self.name == "List"):
                setattr(made, field, value)
        if "object" in known:
            obj = {**training("theirs"), "metadata": {"name": "theirs"}}
            if self.generic:
                made.object.json = json.dumps(obj).encode()
            else:
                write_message(made.object, {"metadata": {"name": "theirs"}})
        return made

    def code(self, tenant: Views, request: Message) -> grpc.StatusCode:
        """What is answered, at a rate that the gateway takes of one caller."""

        def asked() -> grpc.StatusCode | None:
            code = self._code(tenant, request)
            return None if code is grpc.StatusCode.RESOURCE_EXHAUSTED else code

        return eventually(asked) or grpc.StatusCode.UNKNOWN

    def _code(self, tenant: Views, request: Message) -> grpc.StatusCode:
        """OK also where a stream only begins."""
        answer = GetMessageClass(self.method.output_type)
        streams = self.method.server_streaming
        make = tenant.channel.unary_stream if streams else tenant.channel.unary_unary
        call = make(
            self.path,
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        try:
            said = call(request, metadata=tenant.metadata, timeout=30)
            if streams:
                next(said, None)
                said.cancel()
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
        return grpc.StatusCode.OK


def ways() -> list[Way]:
    """Every method of every service; those of JobService for every kind."""
    shown = faces()
    kinds = [face.kind.plural for face in shown if face.kind is not None]
    return [
        Way(
            face.service.full_name,
            method,
            generic_name(face, method.name),
            kind,
            generic=face.kind is None,
        )
        for face in shown
        for method in face.service.methods
        for kind in ([face.kind.plural] if face.kind is not None else kinds)
    ]


@pytest.mark.attack(
    "tenant against tenant",
    "calls every method of every gRPC service for another's namespace, streams too",
    "each is denied, or not offered for the kind to anybody",
)
@pytest.mark.route("gateway gRPC")
def test_no_way_over_grpc(tenant: Views, other: str) -> None:
    tried, found = 0, []
    for way in ways():
        code = way.code(tenant, way.request(other))
        tried += 1
        if code is not DENIED and not (way.generic and code in NOT_OFFERED):
            found.append(f"{way}: {code.name}")
    assert found == []
    assert tried > 300


@pytest.mark.attack(
    "tenant against tenant",
    "asks JobService for another's job, with each of its methods",
    "each is denied, but for metrics, which no TrainingJob has",
)
@pytest.mark.route("gateway gRPC")
def test_no_way_to_a_job_that_is_there(tenant: Views, other: str) -> None:
    about = [way for way in ways() if way.generic and way.kind == "trainingjobs"]
    codes = {way.name: way.code(tenant, way.request(other)) for way in about}
    assert len(codes) > 10
    assert codes.pop("GetMetrics") is grpc.StatusCode.UNIMPLEMENTED
    assert {name: code for name, code in codes.items() if code is not DENIED} == {}


@pytest.mark.attack(
    "tenant against tenant",
    "lists and watches over all namespaces by gRPC",
    "each is denied",
)
@pytest.mark.route("gateway gRPC")
def test_no_list_of_everything(tenant: Views, other: str) -> None:
    lists = [way for way in ways() if way.name == "List"]
    assert len(lists) > 20
    found = {str(way): way.code(tenant, way.request("")) for way in lists}
    assert {way: code for way, code in found.items() if code is not DENIED} == {}


@pytest.mark.attack(
    "tenant against tenant",
    "has the log or the changes of another's job streamed to it",
    "the stream ends with the refusal before anything came",
)
@pytest.mark.route("gateway streams")
@pytest.mark.parametrize("name", STREAMS)
def test_no_stream_over_grpc(tenant: Views, other: str, name: str) -> None:
    asked = [way for way in ways() if way.name == name and way.method.server_streaming]
    assert asked
    about = [way for way in asked if way.kind == "trainingjobs"]
    assert {way.code(tenant, way.request(other)) for way in about} == {DENIED}
