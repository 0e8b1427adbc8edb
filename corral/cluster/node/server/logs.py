"""``/containerLogs/{namespace}/{pod}/{container}``, with every option of ``kubectl logs``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from corral.cluster.node.access import AccessError, PodAccess
from corral.cluster.node.container import logs
from corral.cluster.node.container.logs import LogOptions
from corral.cluster.node.server.changes import Changes
from corral.kube.podstreams.logs import SINCE_EXACTLY

STREAMS = {"": "", "All": "", "Stdout": "stdout", "Stderr": "stderr"}


class Logs:
    """Answers for the logs of all containers of the node."""

    def __init__(
        self,
        access: PodAccess,
        changes: Changes,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._access = access
        self._changes = changes
        self._now = now

    async def serve(self, request: web.BaseRequest, *where: str) -> web.StreamResponse:
        """``where``: namespace, pod, container. Raises AccessError."""
        namespace, pod, container = where
        options, previous = parse_options(request.query, now=self._now())
        path = self._access.log_file(namespace, pod, container, previous=previous)

        def ended() -> bool:
            try:
                # a container that was started again writes elsewhere
                return (
                    previous
                    or not self._access.is_running(namespace, pod, container)
                    or self._access.log_file(namespace, pod, container, previous=False) != path
                )
            except AccessError:
                return True

        return await self._send(request, path, options, ended)

    async def _send(
        self,
        request: web.BaseRequest,
        path: Path,
        options: LogOptions,
        ended: Callable[[], bool],
    ) -> web.StreamResponse:
        if not logs.files_of(path):
            raise AccessError(f"unable to retrieve container logs for {path.stem}", code=400)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        following = self._changes.following(path, once=not options.follow)
        with following as log, suppress(FileNotFoundError):
            found = logs.follow(path, options, ended=ended, sleep=log.sleep, opened=log.opened)
            async with aclosing(found) as pieces:
                async for piece in pieces:
                    await response.write(piece)
        return response


def parse_options(query: Mapping[str, str], *, now: datetime) -> tuple[LogOptions, bool]:
    """The options, and whether the previous container is meant. Raises AccessError."""
    try:
        values = {
            name: _number(query, name) for name in ("tailLines", "limitBytes", "sinceSeconds")
        }
        if query.get("tail"):
            values["tailLines"] = None if query["tail"] == "all" else int(query["tail"])
        since = logs.since_time(query["sinceTime"]) if query.get("sinceTime") else ""
    except ValueError:
        raise AccessError('{"message": "Unable to decode query."}', code=400) from None
    tail, limit, seconds = values["tailLines"], values["limitBytes"], values["sinceSeconds"]
    stream = STREAMS.get(query.get("stream", ""))
    wrong = (
        (tail is not None and tail < 0)
        or (limit is not None and limit < 1)
        or (seconds is not None and (seconds < 1 or since != ""))
        or stream is None
        or (stream != "" and tail is not None)
    )
    if wrong or stream is None:
        raise AccessError('{"message": "Invalid request."}', code=422)
    if seconds is not None:
        since = logs.since_seconds(seconds, now=now)
    options = LogOptions(
        follow=_flag(query, "follow"),
        tail_lines=tail,
        since=max(since, query.get(SINCE_EXACTLY, "")),
        timestamps=_flag(query, "timestamps"),
        limit_bytes=limit,
        stream=stream,
    )
    return options, _flag(query, "previous")


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    return int(text) if text else None


def _flag(query: Mapping[str, str], name: str) -> bool:
    """As the API reads one: present and not false."""
    return name in query and query[name].lower() not in ("false", "0")
