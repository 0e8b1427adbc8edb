"""The proxy that makes things go wrong: it does what its plan says, and writes down the truth."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import aiohttp
import pytest

from corral.kube import KubeClient, KubeConnectionError, errors
from corral.kube.connection.transport import ClientSettings
from corral.kube.resources import CONFIGMAPS
from tests.backends import Backend
from tests.faults.audit import Audit, Entry, Target
from tests.faults.plan import Fault, FaultPlan
from tests.faults.proxy import FaultProxy


class Upstream(Backend):
    """A server that answers everything, and counts what it was asked."""

    token = "secret"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.asked: list[tuple[str, str, str]] = []
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(length)
                upstream.asked.append((self.command, self.path, self.headers["Authorization"]))
                if "watch=1" in self.path:
                    event = {"type": "ADDED", "object": {"metadata": {"name": "x"}}}
                    content = json.dumps(event).encode() + b"\n"
                    content *= 20
                else:
                    content = b'{"metadata": {"name": "x"}}'
                self.send_response(201 if self.command == "POST" else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PATCH = do_DELETE = answer

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server = f"http://127.0.0.1:{self._server.server_port}"
        self.ca_file = "none"
        self._server.daemon_threads = False  # closing waits for them
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def start(self) -> None:
        self._thread.start()
        self.write_kubeconfig()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Upstream]:
    server = Upstream(tmp_path)
    server.start()
    yield server
    server.stop()


def always(fault: Fault, **settings: float) -> FaultPlan:
    return FaultPlan(1, rate=1.0, mix={fault: 1}, **settings)  # type: ignore[arg-type]


def client_of(proxy: FaultProxy) -> KubeClient:
    settings = ClientSettings(max_retries=0)
    return KubeClient.from_kubeconfig(str(proxy.kubeconfig), settings=settings)


async def create(proxy: FaultProxy) -> None:
    async with client_of(proxy) as client:
        await client.create(CONFIGMAPS, {"metadata": {"name": "x"}}, namespace="n")


async def test_passes_requests_on_with_their_credentials(
    upstream: Upstream, tmp_path: Path
) -> None:
    with FaultProxy(upstream, tmp_path, FaultPlan(1), name="one") as proxy:
        await create(proxy)
    (method, path, authorization) = upstream.asked[0]
    assert (method, authorization) == ("POST", "Bearer secret")
    assert path.startswith("/api/v1/namespaces/n/configmaps")
    (entry,) = proxy.audit.creations("configmaps", "n")
    assert (entry.client, entry.answered, entry.object["metadata"]["name"]) == ("one", 201, "x")


@pytest.mark.parametrize(
    ("fault", "error", "reaches_server"),
    [
        (Fault.ERROR, errors.InternalError, False),
        (Fault.THROTTLE, errors.TooManyRequests, False),
        (Fault.DROP, KubeConnectionError, False),
        (Fault.HANG, KubeConnectionError, False),
        (Fault.LOST, KubeConnectionError, True),
    ],
)
async def test_faults(
    upstream: Upstream,
    tmp_path: Path,
    fault: Fault,
    error: type[Exception],
    reaches_server: bool,
) -> None:
    with FaultProxy(upstream, tmp_path, always(fault, hang_seconds=0.01)) as proxy:
        with pytest.raises(error):
            await create(proxy)
    assert bool(upstream.asked) == reaches_server
    (entry,) = proxy.audit.of("configmaps")
    assert entry.fault == fault
    assert entry.created == reaches_server
    assert proxy.audit.faults() == {fault: 1}


async def test_throttling_says_when_to_come_again(upstream: Upstream, tmp_path: Path) -> None:
    with FaultProxy(upstream, tmp_path, always(Fault.THROTTLE, retry_after=7)) as proxy:
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
            session.get(f"{proxy.url}/api/v1/pods") as answer,
        ):
            assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
            assert (await answer.json())["details"] == {"retryAfterSeconds": 7}


async def test_cuts_watches_inside_an_event(upstream: Upstream, tmp_path: Path) -> None:
    plan = FaultPlan(1, cut_rate=1.0)
    with FaultProxy(upstream, tmp_path, plan) as proxy:
        received = b""
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                async with session.get(f"{proxy.url}/api/v1/pods?watch=1") as answer:
                    async for chunk in answer.content.iter_any():
                        received += chunk
    assert received.count(b"\n") < 20
    assert not received.endswith(b"\n")
    (entry,) = proxy.audit
    assert (entry.fault, entry.answered, entry.verb) == (Fault.CUT, 200, "watch")


async def test_meddles_just_before_a_request(upstream: Upstream, tmp_path: Path) -> None:
    asked_before: list[int] = []

    async def meddler(entry: Entry) -> None:
        asked_before.append(len(upstream.asked))

    with FaultProxy(upstream, tmp_path, FaultPlan(1), meddler=meddler) as proxy:
        await create(proxy)
    assert asked_before == [0]


def test_stops_with_requests_going_on(upstream: Upstream, tmp_path: Path) -> None:
    with FaultProxy(upstream, tmp_path, always(Fault.HANG, hang_seconds=3600)) as proxy:
        port = int(proxy.url.rpartition(":")[2])
        context = ssl.create_default_context(cafile=str(proxy._pki.ca.cert_file))
        with socket.create_connection(("127.0.0.1", port)) as plain:
            tls = context.wrap_socket(plain, server_hostname="127.0.0.1")
            tls.sendall(b"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\n\r\n")
            while not proxy.audit.entries:
                threading.Event().wait(0.001)
            proxy.stop()
            assert not proxy._thread.is_alive()
            tls.close()


def test_a_seed_decides_whatever_the_order() -> None:
    paths = [f"/api/v1/namespaces/n/pods/p{n}" for n in range(50)]
    one, other = FaultPlan(7, rate=0.2), FaultPlan(7, rate=0.2)
    forwards = {path: [one.decide("GET", path) for _ in range(4)] for path in paths}
    backwards = {path: [other.decide("GET", path) for _ in range(4)] for path in reversed(paths)}
    assert forwards == backwards
    fates = Counter(fate for each in forwards.values() for fate in each)
    assert 20 < sum(fates.values()) - fates[None] < 60
    assert len(fates) == 6  # every kind of fault, and none


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/readyz", Target()),
        ("/api/v1/pods", Target("", "pods")),
        ("/api/v1/namespaces/n", Target("", "namespaces", "", "n")),
        ("/api/v1/namespaces/n/pods/p/status", Target("", "pods", "n", "p", "status")),
        ("/apis/g.io/v1/namespaces/n/things", Target("g.io", "things", "n")),
        ("/apis/g.io/v1/things/t/scale", Target("g.io", "things", "", "t", "scale")),
    ],
)
def test_paths(path: str, target: Target) -> None:
    assert Target.parse(path) == target


def test_the_audit_counts_calls() -> None:
    audit = Audit()
    for method, path, query in (
        ("GET", "/api/v1/pods", "watch=1"),
        ("GET", "/api/v1/pods", ""),
        ("GET", "/api/v1/namespaces/n/pods/p", ""),
        ("PATCH", "/api/v1/namespaces/n/pods/p", ""),
    ):
        audit.add(Entry("c", method, path, query, Target.parse(path)))
    assert audit.calls() == {"watch pods": 1, "list pods": 1, "get pods": 1, "patch pods": 1}
