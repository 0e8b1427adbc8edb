"""A kubelet that checkpoints: the one call of its API, as CRI-O and containerd let it answer."""

from __future__ import annotations

import asyncio
import io
import ssl
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from corral.runtime.webhooks.certificates import advance

HOST = "127.0.0.1"


@dataclass
class FakeKubelet:
    """What it answers, and what it was asked."""

    folder: Path
    """Where it leaves its files."""
    token: str
    status: int = 200
    body: str = ""
    hangs: bool = False
    asked: list[str] = field(default_factory=list)
    url: str = ""
    ca_file: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path_qs)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401, text="Unauthorized")
        if self.hangs:
            await asyncio.sleep(3600)
        if self.status != 200 or self.body:
            return web.Response(status=self.status, text=self.body)
        _, namespace, pod, container = request.path.strip("/").split("/")
        name = f"checkpoint-{pod}_{namespace}-{container}-{len(self.asked)}.tar"
        await asyncio.to_thread(_write, self.folder / name)
        return web.json_response({"items": [str(self.folder / name)]})


def _write(path: Path) -> None:
    """An archive of the kind that CRIU's tools make."""
    with tarfile.open(path, "w") as archive:
        for name, text in (("config.dump", '{"id": "1"}'), ("checkpoint/core-1.img", "x")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    path.chmod(0o600)


def _certified(folder: Path, kubelet: FakeKubelet) -> ssl.SSLContext:
    kubelet.folder.mkdir()
    made = advance(None, [HOST], datetime.now(UTC))
    (folder / "kubelet-ca.crt").write_bytes(made.bundle)
    (folder / "kubelet.pem").write_bytes(made.serving.cert + made.serving.key)
    kubelet.ca_file = str(folder / "kubelet-ca.crt")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "kubelet.pem")
    return context


@asynccontextmanager
async def fake_kubelet(folder: Path, token: str) -> AsyncIterator[FakeKubelet]:
    """Serve one, with a certificate of an authority of its own."""
    kubelet = FakeKubelet(folder / "checkpoints", token)
    context = await asyncio.to_thread(_certified, folder, kubelet)
    app = web.Application()
    app.router.add_post("/checkpoint/{namespace}/{pod}/{container}", kubelet.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0, ssl_context=context).start()
        kubelet.url = f"https://{HOST}:{runner.addresses[0][1]}"
        yield kubelet
    finally:
        await runner.cleanup()
