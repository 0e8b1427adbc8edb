"""The report endpoint over HTTP: paths, bodies and statuses; what is asked is `service`'s."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, TypeVar

from aiohttp import web

from corral.kube.types import Obj
from corral.operator.reports.bodies import (
    Announcement,
    Body,
    Commit,
    Report,
    RestoreRequest,
    UploadRequest,
    parsed,
)
from corral.operator.reports.errors import ReportError, TooMany, TooSlow
from corral.operator.reports.limits import BodyLimits
from corral.operator.reports.service import ReportService

__all__ = ["report_app"]

logger = logging.getLogger(__name__)

SMALL = 1 << 20
"""Bytes of a report."""
LARGE = 16 << 20
"""Bytes of a call about checkpoints: lists of files, and manifests."""

BODY_SECONDS = 60.0
"""How long a pod may take to send a body."""

B = TypeVar("B", bound=Body)
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
C = TypeVar("C")


class Service(Protocol[C]):
    """Who asks, and what can be asked; one for each kind of job."""

    async def identify(self, authorization: str, namespace: str, name: str) -> C: ...

    async def report(self, caller: C, report: Report) -> Obj: ...

    async def announce(self, caller: C, announcement: Announcement) -> Obj: ...

    async def upload(self, caller: C, request: UploadRequest) -> Obj: ...

    async def commit(self, caller: C, identifier: str, commit: Commit) -> Obj: ...

    async def restore(self, caller: C, request: RestoreRequest) -> Obj: ...


def report_app(service: ReportService) -> web.Application:
    """The application to serve; run `service.run` beside it."""
    app = web.Application(middlewares=[_errors], client_max_size=LARGE)
    bodies = BodyLimits()
    app.add_routes(_routes("trainingjobs", service, bodies))
    if service.spot is not None:
        app.add_routes(_routes("spotinstancejobs", service.spot, bodies))
    return app


def _routes(kind: str, service: Service[C], bodies: BodyLimits) -> list[web.RouteDef]:
    def answering(
        model: type[B], call: Callable[[C, B, web.Request], Awaitable[Obj]], *, limit: int
    ) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            # Who asks is known before a byte of the body is read.
            where = request.match_info["namespace"], request.match_info["job"]
            authorization = request.headers.get("Authorization", "")
            caller = await service.identify(authorization, *where)
            with bodies.room(where[0], _size(request, limit)):
                body = parsed(model, await _content(request, limit))
                return web.json_response(await call(caller, body, request))

        return handle

    prefix = f"/v1/namespaces/{{namespace}}/{kind}/{{job}}"
    return [
        web.post(
            f"{prefix}/report",
            answering(Report, lambda c, b, _: service.report(c, b), limit=SMALL),
        ),
        web.post(
            f"{prefix}/checkpoints",
            answering(Announcement, lambda c, b, _: service.announce(c, b), limit=LARGE),
        ),
        web.post(
            f"{prefix}/uploads",
            answering(UploadRequest, lambda c, b, _: service.upload(c, b), limit=LARGE),
        ),
        web.post(
            f"{prefix}/uploads/{{id}}/commit",
            answering(
                Commit, lambda c, b, r: service.commit(c, r.match_info["id"], b), limit=LARGE
            ),
        ),
        web.post(
            f"{prefix}/restore",
            answering(RestoreRequest, lambda c, b, _: service.restore(c, b), limit=SMALL),
        ),
    ]


def _size(request: web.Request, limit: int) -> int:
    """The most that a body can be."""
    return limit if request.content_length is None else min(request.content_length, limit)


async def _content(request: web.Request, limit: int) -> bytes:
    if request.content_length is not None and request.content_length > limit:
        raise web.HTTPRequestEntityTooLarge(limit, request.content_length)
    content = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.content.iter_any():
                content += chunk
                if len(content) > limit:
                    raise web.HTTPRequestEntityTooLarge(limit, len(content))
    except TimeoutError:
        raise TooSlow(f"the body did not come within {BODY_SECONDS:g} s: send it again") from None
    return bytes(content)


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every answer is JSON, failures too."""
    try:
        return await handler(request)
    except ReportError as error:
        headers = {"Retry-After": "1"} if isinstance(error, TooMany) else None
        return web.json_response(error.body(), status=error.status, headers=headers)
    except web.HTTPException as error:
        text = {413: "the body is too large", 404: "no such path", 405: "use POST"}
        message = text.get(error.status, error.reason)
        return web.json_response({"error": message}, status=error.status)
    except Exception:
        logger.exception("a report could not be answered: %s", request.path)
        return web.json_response({"error": "internal error: see the operator's log"}, status=500)
