"""What is served to everybody, without a token: health, metrics, the OpenAPI document, its page.

The page takes nothing from elsewhere, and its content policy forbids it to. Nothing here tells
anything about jobs, namespaces or people.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from corral import __version__
from corral.client.kinds import KINDS
from corral.gateway.problems import problem_of
from corral.gateway.rest.answers import json_answer
from corral.kube.connection.config import ConfigError
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError

if TYPE_CHECKING:
    from corral.gateway.metrics import GatewayMetrics
    from corral.gateway.reach import Readiness

__all__ = ["Pages"]

logger = logging.getLogger(__name__)

Page = Callable[[Request], Awaitable[Response]]
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_STATIC: Final = {
    "/docs": ("docs.html", "text/html"),
    "/docs.css": ("docs.css", "text/css"),
    "/docs.js": ("docs.js", "text/javascript"),
}


@cache
def _file(name: str) -> bytes:
    return resources.files("corral.gateway").joinpath("static", name).read_bytes()


class Pages:
    """Paths that need no token."""

    def __init__(self, reach: Readiness, metrics: GatewayMetrics) -> None:
        self.stopping = False
        self._reach, self._metrics = reach, metrics
        self._pages: dict[str, Page] = {
            "/": self._home,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._numbers,
            "/openapi.json": self._openapi,
            "/api/v1": self._kinds,
            **dict.fromkeys(_STATIC, self._static),
        }

    def get(self, request: Request) -> Page | None:
        """The page of a path; none where it needs a token."""
        found = self._pages.get(request.url.path)
        if found is None or request.method in ("GET", "HEAD"):
            return found
        return self._not_allowed

    async def _not_allowed(self, request: Request) -> Response:
        return Response("use GET\n", 405, headers={"Allow": "GET, HEAD"}, media_type="text/plain")

    async def _home(self, request: Request) -> Response:
        return RedirectResponse("/docs")

    async def _healthz(self, request: Request) -> Response:
        return Response("ok\n", media_type="text/plain")

    async def _readyz(self, request: Request) -> Response:
        if self.stopping:
            return Response("stopping\n", 503, media_type="text/plain")
        try:
            await self._reach.check()
        except (ApiError, KubeConnectionError, ConfigError, TimeoutError) as error:
            # where it is and why not is nothing for everybody
            logger.warning("not ready: %s", problem_of(error).detail)
            return Response("the Kubernetes API does not answer\n", 503, media_type="text/plain")
        return Response("ok\n", media_type="text/plain")

    async def _numbers(self, request: Request) -> Response:
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _openapi(self, request: Request) -> Response:
        from corral.gateway.rest.openapi import document_bytes

        return Response(document_bytes(), media_type="application/json")

    async def _kinds(self, request: Request) -> Response:
        kinds = [
            {
                "plural": kind.plural,
                "kind": kind.kind,
                "apiVersion": kind.api_version,
                "shortNames": list(kind.short_names),
                "family": kind.family,
                "phases": list(kind.phases),
                "logs": kind.pod_selector is not None,
                "suspendable": kind.suspendable,
                "restartable": kind.restartable,
                "scalable": kind.scalable,
            }
            for kind in KINDS
        ]
        return json_answer({"version": __version__, "kinds": kinds})

    async def _static(self, request: Request) -> Response:
        name, media = _STATIC[request.url.path]
        headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
        return Response(_file(name), headers=headers, media_type=media)
