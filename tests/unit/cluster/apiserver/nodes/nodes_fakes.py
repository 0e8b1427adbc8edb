"""A kubelet and an API server for the tests: small, real servers on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from corral.cluster.apiserver import requests
from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.http.front import refuse
from corral.cluster.apiserver.nodes import NodeAccess
from corral.cluster.apiserver.resources import Catalog
from corral.cluster.streaming import commands, forwarding
from corral.cluster.streaming.wires import Departure, SocketWire, first_of
from corral.kube import errors

ALICE = UserInfo("alice")
METRICS = """# HELP node_cpu_usage_seconds_total Cumulative cpu time
node_cpu_usage_seconds_total {cpu} {at}
node_memory_working_set_bytes 2097152 {at}
container_cpu_usage_seconds_total{{container="a",namespace="default",pod="one"}} {cpu} {at}
container_memory_working_set_bytes{{container="a",namespace="default",pod="one"}} 1000 {at}
container_start_time_seconds{{container="a",namespace="default",pod="one"}} 1.0 {at}
container_cpu_usage_seconds_total{{container="x",namespace="default",pod="other"}} 5 {at}
"""
POD_IP = "127.88.0.1"


def make_certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "tls.crt", folder / "tls.key"
    cert_file.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert_file, key_file


class FakeKubelet:
    """Runs "commands": echo, cat, exit, resize, hang; forwards ports to loopback."""

    def __init__(self) -> None:
        self.port = 0
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        """Method, path with query, headers."""
        self.ended = asyncio.Event()
        """A hanging command or followed log has lost its client."""
        self.more_logs: asyncio.Queue[bytes] = asyncio.Queue()
        self.cpu, self.at = 10.0, 1_000_000
        self.tls: ssl.SSLContext

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append((request.method, request.raw_path, dict(request.headers)))
        _, kind, *rest = request.path.split("/")
        match kind:
            case "containerLogs":
                return await self._logs(request, rest)
            case "exec" | "attach":
                return await self._command(request, kind)
            case "portForward":
                return await forwarding.serve(request, self._connect, pod=rest[1])
            case "metrics":
                text = METRICS.format(cpu=self.cpu, at=self.at)
                self.cpu += 0.5
                self.at += 1000
                return web.Response(text=text)
            case "echo":
                body = await request.read()
                return web.Response(
                    body=body, headers={"X-Path": request.raw_path, "Connection": "close"}
                )
            case "moved":
                return web.Response(status=302, headers={"Location": "/echo"})
            case _:
                return web.Response(status=404, text="404 page not found\n")

    async def _logs(self, request: web.BaseRequest, rest: list[str]) -> web.StreamResponse:
        if rest[1] == "broken":
            return web.Response(status=int(rest[2]), text="container is waiting to start")
        if request.query.get("follow") != "true":
            return web.Response(text="one\ntwo\n")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(b"first\n")

        async def rest_of_it() -> None:
            while line := await self.more_logs.get():
                await response.write(line)

        response.force_close()
        await first_of(rest_of_it(), Departure(request).wait())
        self.ended.set()
        return response

    async def _command(self, request: web.BaseRequest, kind: str) -> web.StreamResponse:
        options = commands.Options.from_query(request.query)
        words = request.query.getall("command", ["cat"])
        if words[0] == "refuse":
            return web.Response(status=500, text="no such container")
        async with commands.serve(request, options) as (session, response):
            if session is not None:
                await self._run(session, words)
        return response

    async def _run(self, session: commands.Session, words: list[str]) -> None:
        out, code = commands.STDOUT, 0
        match words:
            case ["echo", *args]:
                await session.write(out, " ".join(args).encode() + b"\n")
                await session.write(commands.STDERR, b"err\n")
            case ["exit", number]:
                code = int(number)
            case ["cat"]:
                while data := await session.read(commands.STDIN):
                    await session.write(out, data)
            case ["count"]:
                size = 0
                while data := await session.read(commands.STDIN):
                    size += len(data)
                await session.write(out, str(size).encode())
            case ["flood", size]:
                for _ in range(int(size) // 65536):
                    await session.write(out, b"x" * 65536)
            case ["resize"]:
                await session.write(out, await session.read(commands.RESIZE))
            case ["hang"]:
                await session.write(out, b"hanging\n")
                await session.wait_gone()
                self.ended.set()
                return
        await session.finish(commands.exited(code))

    async def _connect(self, port: int) -> SocketWire:
        return SocketWire(*await asyncio.open_connection("127.0.0.1", port))


class FakeEntry:
    def __init__(self, value: dict[str, Any]) -> None:
        self._value = orjson.dumps(value)

    def decode(self) -> dict[str, Any]:
        return orjson.loads(self._value)


class FakeObjects:
    def __init__(self) -> None:
        self.tables: dict[str, dict[str, FakeEntry]] = {}

    def put(self, table: str, obj: dict[str, Any]) -> None:
        meta = obj["metadata"]
        key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
        self.tables.setdefault(table, {})[key] = FakeEntry(obj)

    def get(self, resource: str, key: str) -> FakeEntry | None:
        return self.tables.get(resource, {}).get(key)

    def scan(self, resource: str, prefix: str = "") -> Iterator[FakeEntry]:
        found = sorted(self.tables.get(resource, {}).items())
        yield from (entry for key, entry in found if key.startswith(prefix))


def node(name: str, port: int, *, websockets: bool = False, ready: bool = True) -> dict[str, Any]:
    status: dict[str, Any] = {
        "addresses": [
            {"type": "Hostname", "address": "not-resolvable"},
            {"type": "InternalIP", "address": "127.0.0.1"},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    if websockets:
        status["declaredFeatures"] = ["ExtendWebSocketsToKubelet"]
    return {"metadata": {"name": name, "labels": {"zone": name}}, "status": status}


def pod(name: str, node_name: str = "", *, containers: tuple[str, ...] = ("a",)) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": c, "image": "i"} for c in containers]}
    if node_name:
        spec["nodeName"] = node_name
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": spec,
        "status": {"phase": "Running", "podIP": POD_IP, "podIPs": [{"ip": POD_IP}]},
    }


@dataclass
class Cluster:
    """Everything a test needs."""

    objects: FakeObjects
    kubelet: FakeKubelet
    access: NodeAccess
    url: str = ""
    port: int = 0
    cert: Path = field(default_factory=Path)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        info = requests.parse(request.method, request.raw_path.partition("?")[0])
        try:
            found = self.catalog.find(info.group, info.version, info.resource)
            if found is not None and (info.subresource or info.group):
                handler = self.access.find(found, info)
                if handler is not None:
                    return await handler(request, info, ALICE)
            return self._plain(info)
        except errors.ApiError as err:
            return refuse(request, err)

    catalog = Catalog()

    def _plain(self, info: requests.RequestInfo) -> web.StreamResponse:
        """Just enough of an API for kubectl to find a pod."""
        if info.path == "/api":
            return web.json_response({"kind": "APIVersions", "versions": ["v1"]})
        if info.path == "/apis":
            return web.json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})
        if info.path == "/api/v1":
            verbs = ["get", "list", "create"]
            pods = {"name": "pods", "namespaced": True, "kind": "Pod", "verbs": verbs}
            body = {"kind": "APIResourceList", "groupVersion": "v1", "resources": [pods]}
            return web.json_response(body)
        entry = self.objects.get("/pods", f"{info.namespace}/{info.name}")
        if entry is None or info.resource != "pods":
            raise errors.NotFound("the server could not find the requested resource")
        return web.json_response(entry.decode())

    def kubeconfig(self, folder: Path) -> Path:
        path = folder / "kubeconfig"
        cluster = {"server": f"https://127.0.0.1:{self.port}", "insecure-skip-tls-verify": True}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(content))
        return path


@contextlib.asynccontextmanager
async def serving(handler: Any, tls: ssl.SSLContext | None) -> AsyncIterator[int]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    # pods have addresses of their own, also where they are on the loopback
    port = runner.addresses[0][1]
    await web.TCPSite(runner, POD_IP, port, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def running_cluster(folder: Path, *, websockets: bool = False) -> AsyncIterator[Cluster]:
    cert, key = make_certificate(folder)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(cert, key)
    kubelet, objects = FakeKubelet(), FakeObjects()
    access = NodeAccess(objects, cert_file=cert, key_file=key, first_window=0.0)
    cluster = Cluster(objects, kubelet, access, cert=cert)
    await access.start()
    async with serving(kubelet.handle, tls) as kubelet.port:
        objects.put("/nodes", node("n1", kubelet.port, websockets=websockets))
        objects.put("/pods", pod("one", "n1"))
        async with serving(cluster.handle, tls) as cluster.port:
            cluster.url = f"https://127.0.0.1:{cluster.port}"
            try:
                yield cluster
            finally:
                await access.stop()
