"""A kubelet that checkpoints: the one call of its API, as CRI-O and containerd let it answer."""

from __future__ import annotations

import asyncio
import base64
import io
import json
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
    account: str
    """``NAMESPACE/NAME`` of the ServiceAccount that may ask."""
    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    reason: str | None = None
    """The words of its status line; None: the usual ones."""
    hangs: bool = False
    asked: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    """What it was shown as who asks: the header of each request."""
    url: str = ""
    ca_file: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path_qs)
        self.shown.append(request.headers.get("Authorization", ""))
        if self.status != 200 or self.body:  # whoever asks
            return web.Response(
                status=self.status, text=self.body, reason=self.reason, headers=self.headers
            )
        if _subject(self.shown[-1]) != f"system:serviceaccount:{self.account.replace('/', ':')}":
            return web.Response(status=401, text="Unauthorized")
        if self.hangs:
            await asyncio.sleep(3600)
        _, namespace, pod, container = request.path.strip("/").split("/")
        name = f"checkpoint-{pod}_{namespace}-{container}-{len(self.asked)}.tar"
        await asyncio.to_thread(_write, self.folder / name)
        return web.json_response({"items": [str(self.folder / name)]})


def _subject(header: str) -> str:
    """Whose a ServiceAccount's token says that it is; empty for anything else."""
    try:
        claims = header.removeprefix("Bearer ").split(".")[1]
        return str(json.loads(base64.urlsafe_b64decode(claims + "=="))["sub"])
    except (IndexError, ValueError):
        return ""


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
async def fake_kubelet(folder: Path, account: str) -> AsyncIterator[FakeKubelet]:
    """Serve one, with a certificate of an authority of its own."""
    kubelet = FakeKubelet(folder / "checkpoints", account)
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
