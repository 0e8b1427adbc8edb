"""Notices of Azure's Scheduled Events.

The first question switches the service on for the VM and may take minutes, so it should be asked
at boot. A preemption comes at least 30 s ahead. Who has nothing left to save may `acknowledge` an
event, which then happens at once.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from corral.clouds.base import Notice, NoticeKind
from corral.clouds.notices.base import MAX_TEXT, watch
from corral.egress.reading import load_json, read_body

if TYPE_CHECKING:
    import aiohttp

__all__ = ["ENDPOINT", "acknowledge", "notices", "notices_of"]

ENDPOINT: Final = "http://169.254.169.254"
_PARAMS: Final = {"api-version": "2020-07-01"}
_HEADERS: Final = {"Metadata": "true"}
_FIRST_ANSWER_S: Final = 180.0


def notices_of(document: Mapping[str, Any], vm: str, now: float) -> list[Notice]:
    """The events that are about this VM; about all where the name is empty."""
    found = []
    for event in document.get("Events") or ():
        resources = list(event.get("Resources") or ())
        if vm and resources and vm not in resources:
            continue
        kind = str(event.get("EventType", ""))
        preempted = kind == "Preempt"
        found.append(
            Notice(
                kind=NoticeKind.PREEMPTION if preempted else NoticeKind.MAINTENANCE,
                vm=vm or (resources[0] if len(resources) == 1 else ""),
                deadline=_not_before(event, now),
                seen=now,
                id=str(event.get("EventId", "")),
                preempted=True if preempted else None,
                text=f"{kind} {event.get('EventStatus', '')}: {event.get('Description', '')}",
            )
        )
    return found


def _not_before(event: Mapping[str, Any], now: float) -> float:
    """An event without a time has begun."""
    text = str(event.get("NotBefore") or "")
    return parsedate_to_datetime(text).timestamp() if text else now


class _Events:
    what = "scheduled events"

    def __init__(self, endpoint: str, vm: str, clock: Callable[[], float]) -> None:
        self._url = f"{endpoint.rstrip('/')}/metadata/scheduledevents"
        self._vm = vm
        self._clock = clock

    async def ask(self, session: aiohttp.ClientSession) -> Iterable[Notice]:
        async with session.get(self._url, params=_PARAMS, headers=_HEADERS) as answer:
            if answer.status != 200:
                raise ValueError(f"HTTP {answer.status}")
            document = load_json(await read_body(answer, MAX_TEXT))
        return notices_of(document, self._vm, self._clock())


def notices(
    endpoint: str = ENDPOINT,
    *,
    vm: str = "",
    interval: float = 1.0,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[Notice]:
    """What the VM we run on is told; Azure asks to look every second."""
    return watch([_Events(endpoint, vm, clock)], interval=interval, answer_s=_FIRST_ANSWER_S)


async def acknowledge(event_id: str, *, endpoint: str = ENDPOINT) -> None:
    """Let an event happen now. Raises ValueError when the service does not know it."""
    import aiohttp

    body = {"StartRequests": [{"EventId": event_id}]}
    url = f"{endpoint.rstrip('/')}/metadata/scheduledevents"
    timeout = aiohttp.ClientTimeout(total=30)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(url, params=_PARAMS, headers=_HEADERS, json=body) as answer,
    ):
        if answer.status != 200:
            raise ValueError(f"event {event_id} was not accepted: HTTP {answer.status}")
