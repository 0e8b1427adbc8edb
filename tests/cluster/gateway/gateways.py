"""`corral gateway` as people start it, and people with tokens who ask it."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.backends import Backend
from tests.backends.base import wait_for
from tests.cluster.objects import Objects, eventually

Obj = dict[str, Any]


class GatewayProcess:
    """A process of its own; standard output and error are in `log`."""

    def __init__(self, backend: Backend, folder: Path, *options: str) -> None:
        self.folder = folder
        self.audit = folder / "audit.log"
        self.log = folder / "gateway.log"
        self.authority = folder / "certs" / "ca.crt"
        self._backend, self._options = backend, options
        self.url = ""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = [
            sys.executable, "-m", "corral.cli.main", "gateway",
            "--kubeconfig", str(self._backend.kubeconfig), "--listen", "127.0.0.1:0",
            "--grpc-listen", "none", "--cert-dir", str(self.folder / "certs"),
            "--audit-file", str(self.audit), *self._options,
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log)
        line = wait_for(self.process, self.log, "corral gateway is ready", 60)
        self.url = line.split()[4]

    def stop(self) -> int:
        """In order; gives its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def lines(self) -> list[Obj]:
        """The audit log."""
        return [json.loads(line) for line in self.audit.read_text().splitlines()]


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    status: int
    body: bytes
    headers: dict[str, str]

    def json(self) -> Any:
        return json.loads(self.body)


class Somebody:
    """One caller."""

    def __init__(self, gateway: GatewayProcess, token: str | None) -> None:
        self.gateway, self.token = gateway, token
        self._tls = ssl.create_default_context(cafile=str(gateway.authority))

    def ask(self, method: str, path: str, body: Any = None, *, headers: Obj | None = None) -> Reply:
        with self.open(method, path, body, headers=headers) as answer:
            found = {name.lower(): value for name, value in answer.headers.items()}
            return Reply(answer.status, answer.read(), found)

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    @contextmanager
    def open(
        self, method: str, path: str, body: Any = None, *, headers: Obj | None = None
    ) -> Iterator[Any]:
        sent: Obj = {} if body is None else {"Content-Type": "application/json"}
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(
            self.gateway.url + path, data=data, method=method, headers={**sent, **(headers or {})}
        )
        try:
            answer = urllib.request.urlopen(request, context=self._tls, timeout=60)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            yield answer

    def events(self, path: str, **headers: str) -> Iterator[tuple[str, str, Obj]]:
        """Server-Sent Events as they come: id, name and data."""
        sent = {k.replace("_", "-"): v for k, v in headers.items()}
        with self.open("GET", path, headers=sent) as answer:
            assert answer.status == 200, answer.read()
            fields: Obj = {}
            for line in answer:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    fields[name] = value
                elif "event" in fields:
                    yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
                    fields = {}


def token_of(backend: Backend, namespace: str, name: str, *, rules: list[Obj]) -> str:
    """A service account of a namespace with rights in it, and a token of it."""
    objects = Objects(backend, namespace)
    objects.create(
        "serviceaccounts",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
    )
    group = "rbac.authorization.k8s.io"
    about = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
    objects.create("roles", {**about, "kind": "Role", "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": group, "kind": "Role", "name": name}
    objects.create(
        "rolebindings", {**about, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]}
    )
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}

    def made() -> str | None:
        reply = backend.request("POST", path, review)
        return reply.json()["status"]["token"] if reply.code == 201 else None

    return str(eventually(made))


def memory(pid: int) -> int:
    """Bytes that a process has in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")
