"""A real HTTPS server between a client and its API server that makes things go wrong.

It has a certificate of its own and passes requests on with the credentials of the client, except
those for which its plan says otherwise. Every request is in the audit. It runs in a thread with an
event loop of its own, so that cases may block. Upgrades (exec, attach, port-forward) are not passed
on.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
from aiohttp import web

from corral.cluster.apiserver.auth.pki import ensure_pki
from tests.backends import Backend
from tests.faults.audit import Audit, Entry, Target
from tests.faults.plan import Fault, FaultPlan

__all__ = ["FaultProxy", "Meddler"]

Meddler = Callable[[Entry], Awaitable[None]]
"""Is called before a request is passed on; a case may change the world just then."""

HOP = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "upgrade", "host", "content-length", "te")
)
ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""What aiohttp would add to requests that have none."""
START_SECONDS = 30


class FaultProxy:
    """``with FaultProxy(…) as proxy:``, then give clients ``proxy.kubeconfig``."""

    def __init__(
        self,
        backend: Backend,
        folder: Path,
        plan: FaultPlan,
        *,
        name: str = "proxy",
        audit: Audit | None = None,
        meddler: Meddler | None = None,
    ) -> None:
        """``name`` is the client's in the audit."""
        self.plan = plan
        self.name = name
        self.audit = audit if audit is not None else Audit()
        self.meddler = meddler
        self.url = ""
        self.kubeconfig = folder / f"{name}.kubeconfig"
        self._backend = backend
        self._pki = ensure_pki(folder / f"{name}-pki")
        self._upstream: aiohttp.ClientSession | None = None
        self._connections: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()
        self._started: Future[int] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._main, name=f"proxy {name}", daemon=True)

    # --- life ------------------------------------------------------------------------------------

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        self.url = f"https://127.0.0.1:{self._started.result(START_SECONDS)}"
        self._write_kubeconfig()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it with whatever goes on; again does nothing."""
        if self._thread.is_alive() and self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=2**28)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        connector = aiohttp.TCPConnector(ssl=self._backend.tls(), limit=0)
        async with aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as self._upstream:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls())
            await site.start()
            self._started.set_result(runner.addresses[0][1])
            try:
                await self._stop.wait()
            finally:
                for transport in list(self._connections):
                    transport.abort()  # a farewell would outlast us
                await runner.cleanup()
                await connector.close(abort_ssl=True)

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._pki.serving.cert_file, self._pki.serving.key_file)
        return context

    def _write_kubeconfig(self) -> None:
        text = self._backend.kubeconfig.read_text().replace(self._backend.server, self.url)
        self.kubeconfig.write_text(text.replace(self._backend.ca_file, str(self._pki.ca.cert_file)))

    # --- requests --------------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        entry = Entry(
            client=self.name,
            method=request.method,
            path=request.path,
            query=request.query_string,
            target=Target.parse(request.path),
            body=await request.read(),
        )
        self.audit.add(entry)
        if request.transport is not None:
            self._connections.add(request.transport)
        # ... of watches, those that are refused; those that were opened are cut.
        fault = self.plan.decide(request.method, request.path)
        if fault is not None:
            entry.fault = fault
        if fault in (Fault.ERROR, Fault.THROTTLE):
            return self._refuse(entry, fault)
        if fault is Fault.HANG:
            await asyncio.sleep(self.plan.hang_seconds)
        if fault in (Fault.HANG, Fault.DROP):
            return self._break(request)
        if self.meddler is not None:
            await self.meddler(entry)
        passing = self._pass_stream if entry.is_watch else self._pass
        try:
            return await passing(request, entry, fault)
        except (ConnectionError, aiohttp.ClientError):
            return self._break(request)  # one end is gone, so the other has nobody to talk to

    async def _pass(
        self, request: web.Request, entry: Entry, fault: Fault | None
    ) -> web.StreamResponse:
        async with self._send(request, entry) as answer:
            content = await answer.read()
        entry.upstream = answer.status
        if fault is Fault.LOST:
            return self._break(request)
        entry.answered = answer.status
        return web.Response(status=answer.status, headers=_headers(answer.headers), body=content)

    async def _pass_stream(
        self, request: web.Request, entry: Entry, fault: Fault | None
    ) -> web.StreamResponse:
        watch = self.plan.watch(request.path)
        async with self._send(request, entry) as answer:
            entry.upstream = answer.status
            if fault is Fault.LOST:
                return self._break(request)
            entry.answered = answer.status
            passed = web.StreamResponse(status=answer.status, headers=_headers(answer.headers))
            await passed.prepare(request)
            async for chunk in answer.content.iter_any():
                if watch.cuts(chunk.count(b"\n")):
                    entry.fault = Fault.CUT
                    await passed.write(_torn(chunk))
                    self._break(request)
                    return passed
                await passed.write(chunk)
            await passed.write_eof()
            return passed

    def _send(self, request: web.Request, entry: Entry) -> Any:
        assert self._upstream is not None
        return self._upstream.request(
            request.method,
            self._backend.server + request.raw_path,
            data=entry.body or None,
            headers=_headers(request.headers),
            skip_auto_headers=ADDED,
            allow_redirects=False,
        )

    def _refuse(self, entry: Entry, fault: Fault) -> web.Response:
        code, reason = (500, "InternalError") if fault is Fault.ERROR else (429, "TooManyRequests")
        entry.answered = code
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": reason,
            "message": f"injected: {entry.method} {entry.path}",
            "code": code,
        }
        headers = {}
        if fault is Fault.THROTTLE:
            headers["Retry-After"] = str(self.plan.retry_after)
            status["details"] = {"retryAfterSeconds": self.plan.retry_after}
        return web.Response(
            status=code,
            headers=headers,
            body=json.dumps(status).encode(),
            content_type="application/json",
        )

    @staticmethod
    def _break(request: web.Request) -> web.Response:
        """Reset the connection; what is returned reaches nobody."""
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=499)


def _headers(headers: Any) -> list[tuple[str, str]]:
    """Those that are for the other end, not for this connection."""
    return [(name, value) for name, value in headers.items() if name.lower() not in HOP]


def _torn(chunk: bytes) -> bytes:
    """A part of it that ends inside a line."""
    half = chunk[: max(1, len(chunk) // 2)]
    return half[:-2] if half.endswith(b"\n") else half
