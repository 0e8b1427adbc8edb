"""A gateway in a thread, and one caller of it who asks over REST and gRPC alike."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from corral.gateway.grpc.messages import read_message
from corral.gateway.process import ProcessSettings, run_gateway
from corral.kube import load_config
from corral.runtime.serving.listening import Listen, bind
from corral.v1 import errors_pb2
from corral.v1.jobs_pb2_grpc import JobServiceStub
from corral.v1.mpi_job_pb2_grpc import MPIJobServiceStub
from corral.v1.training_job_pb2_grpc import TrainingJobServiceStub
from tests.cluster.apps.loops import LoopThread

Obj = dict[str, Any]


class GatewayThread(LoopThread):
    """`corral gateway` inside the test's process, with TLS."""

    def __init__(self, kubeconfig: str, folder: Path) -> None:
        super().__init__("gateway")
        self._kubeconfig = kubeconfig
        self.folder = folder
        self.ports: dict[str, int] = {}

    @property
    def authority(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def audit(self) -> Path:
        return self.folder / "audit.log"

    async def work(self, ready: Callable[[], None]) -> None:
        settings = ProcessSettings(
            grpc=Listen(), cert_dir=self.folder, audit_file=self.audit, grace=1.0
        )
        stop = asyncio.Event()

        def serving(facts: Obj) -> None:
            self.ports = facts
            ready()

        await run_gateway(
            load_config(self._kubeconfig),
            settings,
            sock=bind(settings.rest),
            stop=stop,
            ready=serving,
        )


@dataclass(frozen=True)
class Reply:
    """An answer of REST."""

    status: int
    body: Any
    headers: dict[str, str]


class Views:
    """One caller."""

    def __init__(self, gateway: GatewayThread, token: str, channel: grpc.Channel) -> None:
        self.gateway, self.token, self.channel = gateway, token, channel
        self.metadata = (("authorization", f"Bearer {token}"),)
        self.any, self.mpi = JobServiceStub(channel), MPIJobServiceStub(channel)
        self.training = TrainingJobServiceStub(channel)
        self._tls = ssl.create_default_context(cafile=str(gateway.authority))

    def rest(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """A request below /api/v1; headers with underscores for hyphens."""
        with self._opened(method, path, body, headers) as answer:
            content = answer.read()
            parsed = json.loads(content) if content.startswith((b"{", b"[")) else content
            return Reply(answer.status, parsed, {k.lower(): v for k, v in answer.headers.items()})

    def events(self, path: str) -> Generator[Obj, None, None]:
        """The data of Server-Sent Events, as they come."""
        with self._opened("GET", path, None, {}) as answer:
            for line in answer:
                if line.startswith(b"data: {") and line != b"data: {}\n":
                    yield json.loads(line[6:])

    def _opened(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"https://127.0.0.1:{self.gateway.ports['rest']}/api/v1{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method, headers=sent)
        try:
            return urllib.request.urlopen(request, context=self._tls, timeout=60)
        except urllib.error.HTTPError as error:
            return error

    def ask(self, method: Callable[..., Any], request: Message) -> Any:
        """One call of gRPC."""
        return method(request, metadata=self.metadata, timeout=60)

    def refused(self, method: Callable[..., Any], request: Message) -> grpc.RpcError:
        try:
            answer = self.ask(method, request)
            said = list(answer) if hasattr(answer, "cancel") else answer
        except grpc.RpcError as error:
            return error
        raise AssertionError(f"not refused: {said}")


@contextmanager
def views(gateway: GatewayThread, token: str) -> Iterator[Views]:
    credentials = grpc.ssl_channel_credentials(gateway.authority.read_bytes())
    address = f"127.0.0.1:{gateway.ports['grpc']}"
    with grpc.secure_channel(address, credentials) as channel:
        yield Views(gateway, token, channel)


def as_rest(error: Any) -> tuple[int, Obj]:
    """The problem that a failed call carries, as REST would have said it."""
    trailer = dict(error.trailing_metadata())["grpc-status-details-bin"]
    problem: Obj = {}
    for detail in errors_pb2.RpcStatus.FromString(trailer).details:
        name = detail.type_url.rpartition(".")[2]
        if name == "Problem":
            problem |= read_message(errors_pb2.Problem.FromString(detail.value))
        elif name == "BadRequest":
            wrong = errors_pb2.BadRequest.FromString(detail.value).field_violations
            problem["errors"] = [{"field": v.field, "detail": v.description} for v in wrong]
    return problem["status"], without(problem, "requestId", "instance")


def without(obj: Obj, *names: str) -> Obj:
    return {key: value for key, value in obj.items() if key not in names}
