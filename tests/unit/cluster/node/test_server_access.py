"""Who may ask the node's server what; against a real API, and one that does what a test says."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from server_node import HandNode, HandPods, hand_node, unverified

from corral.cluster.node.container.processes import Engine
from corral.cluster.node.server import NodeServer
from corral.cluster.node.server.authority import subresources_of
from corral.cluster.node.server.identity import User, user_of_certificate
from corral.cluster.node.server.memory import Memory
from corral.cluster.streaming.upgrade import BEARER_PREFIX
from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig
from corral.kube.resources import CLUSTERROLEBINDINGS, CLUSTERROLES
from tests.backends import Backend

Answer = tuple[int, str]


@pytest.fixture
async def node(backend: Backend, engine: Engine, tmp_path: Path) -> AsyncIterator[HandNode]:
    async with hand_node(backend, engine, tmp_path) as made:
        yield made


async def ask(
    port: int,
    path: str,
    *,
    token: str = "",
    tls: ssl.SSLContext | None = None,
    method: str = "GET",
    headers: dict[str, str] | None = None,
) -> Answer:
    sent = dict(headers or {})
    if token:
        sent["Authorization"] = f"Bearer {token}"
    connector = aiohttp.TCPConnector(ssl=tls or unverified())
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.request(method, f"https://127.0.0.1:{port}{path}", headers=sent) as answer,
    ):
        return answer.status, await answer.text()


# -- against a real API --------------------------------------------------------------------------


async def test_tokens(node: HandNode) -> None:
    assert await ask(node.port, "/healthz") == (401, "Unauthorized")
    assert await ask(node.port, "/healthz", token="made-up") == (401, "Unauthorized")
    assert await ask(node.port, "/healthz", token="admin-token") == (200, "ok")
    words = "Forbidden (user=nobody, verb=get, resource=nodes, subresource(s)=[healthz proxy])\n"
    assert await ask(node.port, "/healthz", token="nobody-token") == (403, words)


async def test_token_as_a_websocket_protocol(node: HandNode) -> None:
    token = base64.urlsafe_b64encode(b"admin-token").decode().rstrip("=")
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Protocol": f"v4.channel.k8s.io, {BEARER_PREFIX}{token}",
    }
    assert (await ask(node.port, "/healthz", headers=headers))[0] == 200
    broken = headers | {
        "Sec-WebSocket-Protocol": f"{BEARER_PREFIX}%%%",
    }
    assert (await ask(node.port, "/healthz", headers=broken))[0] == 401


async def test_the_api_servers_certificate(node: HandNode, backend: Backend) -> None:
    folder = Path(backend.ca_file).parent
    trusted = unverified()
    name = "kube-apiserver-kubelet-client"
    trusted.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
    assert await ask(node.port, "/healthz", tls=trusted) == (200, "ok")


async def test_a_certificate_of_somebody_else(node: HandNode, tmp_path: Path) -> None:
    foreign = unverified()
    foreign.load_cert_chain(tmp_path / "server" / "node.crt", tmp_path / "server" / "node.key")
    with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
        await ask(node.port, "/healthz", tls=foreign)


async def test_fine_grained_rights(node: HandNode) -> None:
    name = f"metrics-of-{node.name}"
    rule = {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}
    await node.client.create(CLUSTERROLES, {"metadata": {"name": name}, "rules": [rule]})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}],
    }
    await node.client.create(CLUSTERROLEBINDINGS, binding)
    try:
        async with asyncio.timeout(30):
            # a real API server takes a moment to learn of a new role
            while True:
                probe = NodeServer(
                    node.pods, client=node.client, folder=node.backend.folder / name, node=node.name
                )
                port = await probe.start("127.0.0.1", 0)
                try:
                    if (await ask(port, "/metrics", token="nobody-token"))[0] == 200:
                        for path in ("/metrics/resource", "/metrics/cadvisor", "/metrics/probes"):
                            assert (await ask(port, path, token="nobody-token"))[0] == 200
                        break
                finally:
                    await probe.stop()
        paths = ("/pods", "/exec/a/b/c", "/stats/summary", "/metrics/../pods", "//metrics")
        for path in paths:
            assert (await ask(node.port, path, token="nobody-token"))[0] == 403, path
        code, _ = await ask(node.port, "/metrics", token="nobody-token", method="POST")
        assert code == 403
    finally:
        await node.client.delete(CLUSTERROLEBINDINGS, name)
        await node.client.delete(CLUSTERROLES, name)


async def test_pages_that_are_not_there(node: HandNode) -> None:
    token = "admin-token"
    assert await ask(node.port, "/", token=token) == (404, "404 page not found\n")
    assert await ask(node.port, "/run/a/b/c", token=token) == (404, "404 page not found\n")
    assert (await ask(node.port, "/exec/a/b", token=token))[0] == 404
    assert (await ask(node.port, "/exec//b/c", token=token))[0] == 404
    assert (await ask(node.port, "/logs/messages", token=token)) == (
        405,
        "logs endpoint is disabled.\n",
    )
    assert (await ask(node.port, "/pods", token=token, method="DELETE"))[0] == 405
    code, said = await ask(node.port, "/checkpoint/a/b/c", token=token, method="POST")
    assert (code, said) == (404, 'pod "b" does not exist')
    pod = await node.start("one")
    where = f"{pod['metadata']['namespace']}/one/main"
    code, said = await ask(node.port, f"/checkpoint/{where}", token=token, method="POST")
    assert code == 500 and said.startswith(f"checkpointing of {where} failed")


async def test_reports(node: HandNode) -> None:
    pod = await node.start("one")
    await node.pod("two")
    token = "admin-token"
    for path in ("/livez", "/healthz?verbose", "/configz", "/spec", "/metrics"):
        assert (await ask(node.port, path, token=token))[0] == 200, path
    _, running = await ask(node.port, "/runningpods/", token=token)
    assert '"one"' in running and '"two"' not in running
    _, pods = await ask(node.port, "/pods/", token=token)
    assert '"one"' in pods and '"two"' in pods
    _, text = await ask(node.port, "/metrics/cadvisor", token=token)
    assert f'pod="{pod["metadata"]["name"]}"' in text


async def test_the_nodes_own_credentials_suffice(
    backend: Backend, engine: Engine, tmp_path: Path
) -> None:
    config = ClusterConfig(backend.server, ca_file=backend.ca_file, token="node-token")
    async with KubeClient(config) as client:
        server = NodeServer(
            HandPods(engine, tmp_path), client=client, folder=tmp_path, node="n1", anonymous=True
        )
        port = await server.start("127.0.0.1", 0)
        try:
            assert await ask(port, "/healthz", token="admin-token") == (200, "ok")
            code, said = await ask(port, "/healthz")
            assert code == 403 and "user=system:anonymous" in said
        finally:
            await server.stop()
            await server.stop()


# -- against an API that does as it is told ------------------------------------------------------


class Reviews:
    """Counts what it is asked."""

    def __init__(self) -> None:
        self.code = 200
        self.allowed = True
        self.authenticated = True
        self.asked: list[dict[str, Any]] = []

    async def handle(self, request: web.BaseRequest) -> web.Response:
        if request.method == "GET":
            return web.Response(status=404)
        review = await request.json()
        self.asked.append(review)
        if self.code != 200:
            return web.Response(status=self.code, text="no")
        user = {"username": "ann", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}}
        status: dict[str, Any] = {"authenticated": self.authenticated, "user": user}
        if review["kind"] == "SubjectAccessReview":
            status = {"allowed": self.allowed}
        return web.json_response(review | {"status": status}, status=201)


@asynccontextmanager
async def reviewed(engine: Engine, folder: Path, **options: Any) -> AsyncIterator[Any]:
    reviews = Reviews()
    runner = web.ServerRunner(web.Server(reviews.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    config = ClusterConfig(f"http://127.0.0.1:{runner.addresses[0][1]}")
    async with KubeClient(config) as client:
        server = NodeServer(
            HandPods(engine, folder), client=client, folder=folder, node="n1", **options
        )
        port = await server.start("127.0.0.1", 0)
        try:
            yield reviews, port
        finally:
            await server.stop()
            await runner.cleanup()


async def test_reviews_are_remembered(engine: Engine, tmp_path: Path) -> None:
    async with reviewed(engine, tmp_path) as (reviews, port):
        answers = await asyncio.gather(*(ask(port, "/pods", token="t") for _ in range(5)))
        assert {code for code, _ in answers} == {200}
        assert [r["kind"] for r in reviews.asked] == ["TokenReview", "SubjectAccessReview"]
        assert reviews.asked[1]["spec"] == {
            "user": "ann",
            "uid": "7",
            "groups": ["g", "system:authenticated"],
            "extra": {"k": ["v"]},
            "resourceAttributes": {
                "verb": "get",
                "version": "v1",
                "resource": "nodes",
                "subresource": "pods",
                "name": "n1",
            },
        }


async def test_denials_are_remembered(engine: Engine, tmp_path: Path) -> None:
    async with reviewed(engine, tmp_path) as (reviews, port):
        reviews.allowed = False
        for _ in range(3):
            assert (await ask(port, "/pods", token="t"))[0] == 403
        assert len(reviews.asked) == 3  # one token, pods, proxy
        reviews.authenticated = False
        for _ in range(3):
            assert (await ask(port, "/pods", token="other"))[0] == 401
        assert len(reviews.asked) == 4


async def test_an_api_that_cannot_be_asked(engine: Engine, tmp_path: Path) -> None:
    async with reviewed(engine, tmp_path) as (reviews, port):
        reviews.code = 403
        assert await ask(port, "/pods", token="t") == (401, "Unauthorized")
        reviews.code = 200
        assert (await ask(port, "/pods", token="t"))[0] == 200
        reviews.code = 403
        words = "Authorization error (user=ann, verb=create, resource=nodes, subresource=proxy)"
        assert await ask(port, "/exec/a/b/c", token="t", method="POST") == (500, words)
        assert (await ask(port, "/pods", token="t" * 70_000))[0] == 401


# -- the pieces ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("metrics", ("metrics",)),
        ("stats", ("stats",)),
        ("logs", ("log",)),
        ("checkpoint", ("checkpoint",)),
        ("pods", ("pods", "proxy")),
        ("runningpods", ("pods", "proxy")),
        ("healthz", ("healthz", "proxy")),
        ("configz", ("configz", "proxy")),
        ("exec", ("proxy",)),
        ("containerLogs", ("proxy",)),
        ("", ("proxy",)),
    ],
)
def test_subresources(root: str, expected: tuple[str, ...]) -> None:
    assert subresources_of(root) == expected


def test_users_of_certificates() -> None:
    subject = ((("organizationName", "a"),), (("organizationName", "b"),), (("commonName", "u"),))
    found = user_of_certificate({"subject": subject})
    assert found == User("u", groups=("a", "b", "system:authenticated"))
    assert user_of_certificate({"subject": subject[:2]}) is None


async def test_memory_forgets() -> None:
    now = 0.0
    memory: Memory[str, int] = Memory(size=2, clock=lambda: now)
    asked = 0

    async def question() -> tuple[int, float]:
        nonlocal asked
        asked += 1
        return asked, 10.0

    assert await memory.get("a", question) == 1
    now = 9.0
    assert await memory.get("a", question) == 1
    now = 10.0
    assert await memory.get("a", question) == 2
    assert [await memory.get(key, question) for key in ("b", "c")] == [3, 4]
    assert await memory.get("a", question) == 5  # the oldest of three had to go


async def test_memory_survives_who_gives_up() -> None:
    memory: Memory[str, int] = Memory()
    gate = asyncio.Event()

    async def question() -> tuple[int, float]:
        await gate.wait()
        return 1, 10.0

    async def failing() -> tuple[int, float]:
        raise ValueError

    first = asyncio.create_task(memory.get("a", question))
    second = asyncio.create_task(memory.get("a", question))
    await asyncio.sleep(0)
    first.cancel()
    gate.set()
    assert await second == 1
    with pytest.raises(ValueError):
        await memory.get("b", failing)
    gate.clear()
    third = asyncio.create_task(memory.get("c", question))
    await asyncio.sleep(0)
    await memory.close()
    with pytest.raises(asyncio.CancelledError):
        await third
