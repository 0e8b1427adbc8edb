"""Which tokens kubelets are shown, and for how long one is used."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from corral.families.spot.backups.engines import BackupError
from corral.families.spot.backups.kubelet_engine import Kubelets
from corral.families.spot.backups.kubelet_tokens import KubeletTokens
from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig

ACCOUNT = "corral-system/corral-kubelets"


class Server:
    """An API server that gives tokens of the account."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status = 201
        self.seconds = 600

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if self.status != 201:
            told = {"kind": "Status", "message": "no", "code": self.status}
            return web.json_response(told, status=self.status)
        body: dict[str, Any] = await request.json()
        assert body["spec"] == {"expirationSeconds": 600}
        given = {"spec": {"expirationSeconds": self.seconds}}
        return web.json_response({**given, "status": {"token": f"t{len(self.asked)}"}}, status=201)


class Case:
    """Tokens of a server, at a time that the case sets."""

    def __init__(self, server: Server, client: KubeClient) -> None:
        self.server = server
        self.client = client
        self.now = 0.0
        self.tokens = KubeletTokens(client, ACCOUNT, clock=lambda: self.now)


@pytest.fixture
async def case() -> Any:
    server = Server()
    app = web.Application()
    app.router.add_post("/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with KubeClient(ClusterConfig(server=url, token="own")) as client:
        yield Case(server, client)
    await runner.cleanup()


async def test_a_token_is_used_until_near_its_end(case: Case) -> None:
    assert await case.tokens.current() == "t1"
    case.now = 479.0
    assert await case.tokens.current() == "t1"
    case.now = 480.0
    assert await case.tokens.current() == "t2"
    path = "/api/v1/namespaces/corral-system/serviceaccounts/corral-kubelets/token"
    assert case.server.asked == [path, path]


async def test_the_server_says_how_long_it_is_good(case: Case) -> None:
    case.server.seconds = 100
    await case.tokens.current()
    case.now = 80.0
    assert await case.tokens.current() == "t2"


async def test_many_at_once_share_one(case: Case) -> None:
    found = await asyncio.gather(*(case.tokens.current() for _ in range(5)))
    assert found == ["t1"] * 5


@pytest.mark.parametrize("status", [403, 404])
async def test_what_is_missing_is_said(case: Case, status: int) -> None:
    case.server.status = status
    with pytest.raises(BackupError, match=r"corral-system/corral-kubelets .*corral install"):
        await case.tokens.current()
    case.server.status = 201
    assert await case.tokens.current() == "t2"


async def test_without_an_account_nothing_is_shown(case: Case) -> None:
    with pytest.raises(BackupError, match="no ServiceAccount"):
        await KubeletTokens(case.client, "").current()
    assert case.server.asked == []


async def test_a_certificate_is_enough() -> None:
    own = ClusterConfig(
        server="https://api", ca_file="ca", cert_file="c", key_file="k", token="own",
        username="u", password="p", token_file="f",
    )  # fmt: skip
    async with KubeClient(own) as client:
        kubelets = Kubelets(client, account=ACCOUNT, url_of=lambda _: "https://node:10250")
        shown = await kubelets._config({"metadata": {"name": "n"}})
    assert shown == ClusterConfig(
        server="https://node:10250", ca_file="ca", cert_file="c", key_file="k"
    )
