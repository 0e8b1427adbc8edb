"""The HTTPS server that API servers ask: reviews on POST, ``/healthz`` and ``/readyz`` on GET.

Answers 200 with a review whenever the question was one, whatever the decision is. 400 means that it
was none, 413 that it was too large, 415 that it was no JSON, 500 that a handler failed, 504 that it
took longer than the API server waits; to all of those the failure policy applies.
New certificates are used for new connections without a restart.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import orjson
from aiohttp import web

from corral.kube.types import Obj
from corral.runtime.logcontext import ReconcileContext, reconciling
from corral.runtime.serving.connection_limits import LimitedRunner
from corral.runtime.webhooks.conversion import convert
from corral.runtime.webhooks.hooks import Hook, Hooks
from corral.runtime.webhooks.metrics import WebhookMetrics
from corral.runtime.webhooks.review import (
    ADMISSION,
    CONVERSION,
    AdmissionRequest,
    BadReview,
    reviewed,
)

__all__ = ["ServerSettings", "WebhookServer"]

logger = logging.getLogger(__name__)
_SECONDS = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s)?\Z")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where to listen and what to take."""

    host: str = "0.0.0.0"
    port: int = 9443
    """0 takes any free one."""
    max_body: int = 8 * 1024 * 1024
    """Bytes: a review holds an object twice."""
    timeout: float = 10.0
    """Seconds for one review, where the API server does not say."""
    grace: float = 10.0
    """Seconds for reviews that are going on at a stop."""


class WebhookServer:
    """Serves `Hooks` with the certificate of a context, which may be changed while it runs."""

    def __init__(
        self,
        hooks: Hooks,
        context: ssl.SSLContext,
        *,
        settings: ServerSettings | None = None,
        metrics: WebhookMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hooks = hooks
        self._context = context
        self._settings = settings or ServerSettings()
        self._metrics = metrics
        self._clock = clock
        self._runner: web.AppRunner | None = None
        self.port = 0
        """Where it listens; 0 while it does not."""

    @property
    def ready(self) -> bool:
        return self.port != 0

    async def start(self) -> None:
        """Listen; the context has a certificate by now.

        Raises:
            OSError: the address cannot be had.
        """
        settings = self._settings
        runner = LimitedRunner(self.application(), shutdown_timeout=settings.grace)
        await runner.setup()
        site = web.TCPSite(runner, settings.host, settings.port, ssl_context=self._context)
        try:
            await site.start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        self.port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Take no further connections; reviews going on have their grace."""
        runner, self._runner = self._runner, None
        self.port = 0
        if runner is not None:
            await runner.cleanup()

    def application(self) -> web.Application:
        app = web.Application(client_max_size=self._settings.max_body)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._healthz)
        app.router.add_post("/{path:.*}", self._post)
        return app

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _post(self, request: web.Request) -> web.Response:
        hook = self._hooks.admission.get(request.path)
        converter = self._hooks.conversion.get(request.path)
        if hook is not None:
            return await self._measured(hook.name, request, lambda body: self._admit(hook, body))
        if converter is not None:
            name = request.path.strip("/").replace("/", ".")

            async def answer(body: bytes) -> Obj:
                return await convert(reviewed(body, CONVERSION), converter)

            return await self._measured(name, request, answer)
        raise web.HTTPNotFound(text="no webhook has this path")

    async def _admit(self, hook: Hook, body: bytes) -> Obj:
        request = AdmissionRequest.parse(reviewed(body, ADMISSION))
        with reconciling(ReconcileContext(hook.name, request.key, request.uid)):
            answer = await hook.answer(request)
            response: Obj = answer["response"]
            if not response["allowed"]:
                if self._metrics:
                    self._metrics.refusals.labels(hook.name).inc()
                said = response["status"].get("message", "")
                logger.info("%s %s refused: %s", request.operation, request.key, said)
        return answer

    async def _measured(
        self, name: str, request: web.Request, answer: Callable[[bytes], Awaitable[Obj]]
    ) -> web.Response:
        started = self._clock()
        if self._metrics:
            self._metrics.in_flight.labels(name).inc()
        try:
            response = await self._answered(name, request, answer)
        finally:
            if self._metrics:
                self._metrics.in_flight.labels(name).dec()
        if self._metrics:
            self._metrics.requests.labels(name, str(response.status)).inc()
            self._metrics.latency.labels(name).observe(self._clock() - started)
        return response

    async def _answered(
        self, name: str, request: web.Request, answer: Callable[[bytes], Awaitable[Obj]]
    ) -> web.Response:
        if request.content_type != "application/json":
            return _refusal(415, f"{request.content_type} is not application/json")
        try:
            async with asyncio.timeout(self._limit(request)):
                content = orjson.dumps(await answer(await request.read()))
        except TimeoutError:
            logger.warning("%s: no answer within the time the API server waits", name)
            return _refusal(504, "the webhook took too long")
        except BadReview as error:
            return _refusal(400, str(error))
        except web.HTTPRequestEntityTooLarge:
            return _refusal(413, f"more than {self._settings.max_body} bytes")
        except Exception:
            # The border between handlers and the server: one bad handler must not end it.
            logger.exception("%s: the handler failed", name)
            return _refusal(500, "the webhook failed")
        return web.Response(body=content, content_type="application/json")

    def _limit(self, request: web.Request) -> float:
        """The API server says how long it waits; be done a little before."""
        said = _SECONDS.match(request.query.get("timeout", ""))
        if said is None:
            return self._settings.timeout
        seconds = float(said.group(1)) * (0.001 if said.group(2) == "ms" else 1.0)
        return min(seconds, 30.0) * 0.95


def _refusal(code: int, text: str) -> web.Response:
    return web.Response(status=code, text=text)
