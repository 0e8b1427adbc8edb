"""What an operator answers over HTTP: ``/healthz``, ``/readyz`` and ``/metrics``.

``/healthz`` names everything that only a restart can mend (500), ``/readyz`` everything that keeps
the process from being asked (503). More checks can be added by name; a check gives its problem, or
an empty text. With ``?verbose`` every check is listed, as API servers do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from corral.runtime.manager import Manager

__all__ = ["Probe", "health_app", "serving"]

Probe: TypeAlias = Callable[[], str]
"""Gives a problem, or an empty text."""


def health_app(
    manager: Manager,
    *,
    live: Mapping[str, Probe] | None = None,
    ready: Mapping[str, Probe] | None = None,
) -> web.Application:
    """An application to serve beside a manager; the caller runs it where it wants.

    ``live`` and ``ready`` are further checks of the two.
    """

    def watches() -> str:
        return "\n".join(manager.problems())

    def caches() -> str:
        return "" if manager.ready else "not ready"

    lively: dict[str, Probe] = {"manager": watches, **(live or {})}
    readily: dict[str, Probe] = {"caches": caches, **(ready or {})}

    async def healthz(request: web.Request) -> web.Response:
        return _probed(lively, "verbose" in request.query, 500)

    async def readyz(request: web.Request) -> web.Response:
        return _probed(readily, "verbose" in request.query, 503)

    async def metrics(_: web.Request) -> web.Response:
        if manager.metrics is None:
            raise web.HTTPNotFound
        body = generate_latest(manager.metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes(
        [
            web.get("/healthz", healthz),
            web.get("/livez", healthz),
            web.get("/readyz", readyz),
            web.get("/metrics", metrics),
        ]
    )
    return app


def _probed(probes: Mapping[str, Probe], verbose: bool, bad: int) -> web.Response:
    answers = {name: probe() for name, probe in probes.items()}
    failed = [answer for answer in answers.values() if answer]
    text = "\n".join(failed) or "ok"
    if verbose:
        text = "\n".join(
            f"[-]{name} failed: {answer}" if answer else f"[+]{name} ok"
            for name, answer in answers.items()
        )
    return web.Response(text=text, status=bad if failed else 200)


@asynccontextmanager
async def serving(app: web.Application, host: str, port: int) -> AsyncIterator[int]:
    """Serve an application within; gives the port, which was chosen if 0 was asked for.

    Raises:
        OSError: the address cannot be had.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
