"""Notices of GCP's metadata server, which also speaks for local VMs.

Both values are waited for, so a notice arrives within a round trip. When ``preempted`` turns TRUE
the VM has the notice that was asked for when it was made, plus the 30 s between the soft-off signal
and the end; without one, 30 s.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from corral.clouds.base import Notice, NoticeKind
from corral.clouds.notices.base import MAX_TEXT, Source, watch
from corral.egress.reading import read_body

if TYPE_CHECKING:
    import aiohttp

__all__ = ["ENDPOINT", "SOFT_OFF_S", "notices"]

ENDPOINT: Final = "http://metadata.google.internal"
SOFT_OFF_S: Final = 30.0
_MAINTENANCE_S: Final = 60.0
"""Between the event and the end of a VM that cannot be moved."""
_HEADERS: Final = {"Metadata-Flavor": "Google"}
_WAIT_S: Final = 60
_TERMINATE: Final = "TERMINATE_ON_HOST_MAINTENANCE"


class _Value:
    """One value, waited for by its ETag; asked for plainly first."""

    def __init__(self, endpoint: str, path: str) -> None:
        self._url = f"{endpoint.rstrip('/')}/computeMetadata/v1/instance/{path}"
        self._etag = ""

    async def read(self, session: aiohttp.ClientSession) -> str:
        params = {}
        if self._etag:
            params = {
                "wait_for_change": "true",
                "timeout_sec": str(_WAIT_S),
                "last_etag": self._etag,
            }
        async with session.get(self._url, params=params, headers=_HEADERS) as answer:
            text = (await read_body(answer, MAX_TEXT)).decode(errors="replace").strip()
            if answer.status != 200:
                self._etag = ""
                raise ValueError(f"HTTP {answer.status}")
            if answer.headers.get("Metadata-Flavor") != "Google":
                raise ValueError("whoever answers is not a metadata server")
            self._etag = answer.headers.get("ETag", "")
            return text


class _Preempted:
    what = "instance/preempted"

    def __init__(self, endpoint: str, vm: str, notice_s: float, clock: Callable[[], float]) -> None:
        self._value = _Value(endpoint, "preempted")
        # a deadline that somebody knows better than by counting; of local VMs only
        self._exact = _Value(endpoint, "attributes/preemption-deadline")
        self._vm = vm
        self._notice_s = notice_s
        self._clock = clock
        self._reported: Sequence[Notice] = ()

    async def ask(self, session: aiohttp.ClientSession) -> Iterable[Notice]:
        if await self._value.read(session) != "TRUE":
            return ()
        if not self._reported:  # the deadline does not move because one asks again
            now = self._clock()
            deadline = now + self._notice_s
            try:
                deadline = float(await self._exact.read(session))
            except ValueError:  # a real metadata server has no such attribute
                pass
            self._reported = (
                Notice(
                    kind=NoticeKind.PREEMPTION,
                    vm=self._vm,
                    deadline=deadline,
                    seen=now,
                    preempted=True,
                    text="the metadata server says: preempted",
                ),
            )
        return self._reported


class _Maintenance:
    what = "instance/maintenance-event"

    def __init__(self, endpoint: str, vm: str, clock: Callable[[], float]) -> None:
        self._value = _Value(endpoint, "maintenance-event")
        self._vm = vm
        self._clock = clock
        self._count = 0
        self._before = ""

    async def ask(self, session: aiohttp.ClientSession) -> Iterable[Notice]:
        event = await self._value.read(session)
        news = event != self._before
        self._before = event
        if not news or event in ("NONE", ""):
            return ()
        self._count += 1
        now = self._clock()
        return (
            Notice(
                kind=NoticeKind.MAINTENANCE,
                vm=self._vm,
                deadline=now + _MAINTENANCE_S if event == _TERMINATE else None,
                seen=now,
                id=f"{event}-{self._count}",
                text=f"maintenance: {event}",
            ),
        )


def notices(
    endpoint: str = ENDPOINT,
    *,
    vm: str = "",
    notice_s: float = 0.0,
    interval: float = 1.0,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[Notice]:
    """What the VM we run on is told. ``notice_s`` is what was asked for when it was made."""
    sources: list[Source] = [
        _Preempted(endpoint, vm, notice_s + SOFT_OFF_S, clock),
        _Maintenance(endpoint, vm, clock),
    ]
    return watch(sources, interval=interval, answer_s=_WAIT_S + 15.0)
