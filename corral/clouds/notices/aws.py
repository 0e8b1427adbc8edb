"""Notices of EC2's instance metadata (version 2, with a session token).

An interruption comes two minutes ahead, best effort; a rebalance recommendation earlier or not at
all, and without a deadline.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from corral.clouds.base import Notice, NoticeKind
from corral.clouds.notices.base import MAX_TEXT, Source, watch
from corral.egress.reading import read_body

if TYPE_CHECKING:
    import aiohttp

__all__ = ["ENDPOINT", "notices"]

ENDPOINT: Final = "http://169.254.169.254"
_TOKEN_S: Final = 21600
_TOKEN_HEADER: Final = "X-aws-ec2-metadata-token"


class _Session:
    """The token that every question needs."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._token = ""

    async def get(self, session: aiohttp.ClientSession, path: str) -> str | None:
        """The text; None when there is none, which is the rule."""
        for _ in range(2):
            if not self._token:
                self._token = await self._fetch(session)
            headers = {_TOKEN_HEADER: self._token}
            url = f"{self._endpoint}/latest/meta-data/{path}"
            async with session.get(url, headers=headers) as answer:
                if answer.status == 401:  # the token's time is over
                    self._token = ""
                    continue
                if answer.status == 404:
                    return None
                text = (await read_body(answer, MAX_TEXT)).decode(errors="replace")
                if answer.status != 200:
                    raise ValueError(f"HTTP {answer.status}")
                return text
        raise ValueError("the metadata service refuses the token it has just given")

    async def _fetch(self, session: aiohttp.ClientSession) -> str:
        headers = {f"{_TOKEN_HEADER}-ttl-seconds": str(_TOKEN_S)}
        async with session.put(f"{self._endpoint}/latest/api/token", headers=headers) as answer:
            text = (await read_body(answer, MAX_TEXT)).decode(errors="replace")
            if answer.status != 200:
                raise ValueError(f"no metadata token: HTTP {answer.status}")
            return text


class _Path:
    """One document and what it means."""

    def __init__(
        self,
        metadata: _Session,
        path: str,
        meaning: Callable[[Any, str, float], Iterable[Notice]],
        vm: str,
        clock: Callable[[], float],
    ) -> None:
        self.what = path
        self._metadata = metadata
        self._meaning = meaning
        self._vm = vm
        self._clock = clock

    async def ask(self, session: aiohttp.ClientSession) -> Iterable[Notice]:
        text = await self._metadata.get(session, self.what)
        if not text:
            return ()
        return self._meaning(json.loads(text), self._vm, self._clock())


def _action(body: Mapping[str, Any], vm: str, now: float) -> Iterable[Notice]:
    yield Notice(
        kind=NoticeKind.PREEMPTION,
        vm=vm,
        deadline=datetime.fromisoformat(body["time"]).timestamp(),
        seen=now,
        preempted=True,
        text=f"instance-action: {body['action']}",
    )


def _rebalance(body: Mapping[str, Any], vm: str, now: float) -> Iterable[Notice]:
    yield Notice(
        kind=NoticeKind.REBALANCE,
        vm=vm,
        seen=now,
        id=str(body["noticeTime"]),
        text=f"rebalance recommended at {body['noticeTime']}",
    )


def _maintenance(events: Iterable[Mapping[str, Any]], vm: str, now: float) -> Iterable[Notice]:
    for event in events:
        if event.get("State") not in ("active", None):
            continue
        yield Notice(
            kind=NoticeKind.MAINTENANCE,
            vm=vm,
            deadline=_not_before(str(event.get("NotBefore", ""))),
            seen=now,
            id=str(event.get("EventId", "")),
            text=f"{event.get('Code', '')}: {event.get('Description', '')}",
        )


def _not_before(text: str) -> float | None:
    if not text:
        return None
    when = datetime.strptime(text, "%d %b %Y %H:%M:%S GMT")
    return when.replace(tzinfo=UTC).timestamp()


def notices(
    endpoint: str = ENDPOINT,
    *,
    vm: str = "",
    interval: float = 2.0,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[Notice]:
    """What the instance we run on is told; EC2 asks to look at least every five seconds."""
    metadata = _Session(endpoint)
    sources: list[Source] = [
        _Path(metadata, "spot/instance-action", _action, vm, clock),
        _Path(metadata, "events/recommendations/rebalance", _rebalance, vm, clock),
        _Path(metadata, "events/maintenance/scheduled", _maintenance, vm, clock),
    ]
    return watch(sources, interval=interval, answer_s=10.0)
