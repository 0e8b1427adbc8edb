"""What a manager answers over HTTP: ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from corral.runtime.manager import Manager

__all__ = ["health_app"]


def health_app(manager: Manager) -> web.Application:
    """An application to serve beside a manager; the caller runs it where it wants."""

    async def healthz(_: web.Request) -> web.Response:
        problems = manager.problems()
        return web.Response(text="\n".join(problems) or "ok", status=500 if problems else 200)

    async def readyz(_: web.Request) -> web.Response:
        ready = manager.ready
        return web.Response(text="ok" if ready else "not ready", status=200 if ready else 503)

    async def metrics(_: web.Request) -> web.Response:
        if manager.metrics is None:
            raise web.HTTPNotFound
        body = generate_latest(manager.metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes(
        [
            web.get("/healthz", healthz),
            web.get("/readyz", readyz),
            web.get("/metrics", metrics),
        ]
    )
    return app
