"""What metadata services tell, on loopback servers that speak as they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime

import pytest
from aiohttp import web

from corral.clouds import BadRequest, Notice, NoticeKind
from corral.clouds.notices import aws, azure, gcp, notices
from corral.clouds.notices.base import NewNotices

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
NOW = datetime(2026, 11, 16, 2, 0, tzinfo=UTC).timestamp()


class Metadata:
    """One handler for every question."""

    def __init__(self) -> None:
        self.answer: Handler | None = None
        self.asked: list[str] = []
        self._runner: web.AppRunner | None = None
        self.endpoint = ""

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, shutdown_timeout=0.1).start()
        self.endpoint = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        assert self.answer is not None
        return await self.answer(request)


@pytest.fixture
async def metadata() -> AsyncIterator[Metadata]:
    made = Metadata()
    await made.start()
    yield made
    await made.stop()


async def take(stream: AsyncIterator[Notice], count: int) -> list[Notice]:
    found = []
    async with asyncio.timeout(20), aclosing(stream) as open_stream:  # type: ignore[type-var]
        async for notice in open_stream:
            found.append(notice)
            if len(found) == count:
                return found
    raise AssertionError("the stream ended")


# -- GCP -------------------------------------------------------------------------------------------


class Google:
    """Values that change when they are told to; questions wait for that."""

    def __init__(self) -> None:
        self.values = {"preempted": "FALSE", "maintenance-event": "NONE"}
        self.changed = asyncio.Condition()
        self.waiting = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        assert request.headers["Metadata-Flavor"] == "Google"
        key = request.path.removeprefix("/computeMetadata/v1/instance/")
        if key not in self.values:
            return web.Response(status=404)
        if request.query.get("wait_for_change") == "true":
            self.waiting.set()
            async with self.changed:
                await self.changed.wait_for(lambda: self.values[key] != request.query["last_etag"])
        value = self.values[key]
        return web.Response(text=value, headers={"ETag": value, "Metadata-Flavor": "Google"})

    async def set(self, key: str, value: str) -> None:
        async with self.changed:
            self.values[key] = value
            self.changed.notify_all()


async def test_gcp_preemption_is_told_at_once_with_its_deadline(metadata: Metadata) -> None:
    google = Google()
    metadata.answer = google.answer
    stream = gcp.notices(metadata.endpoint, vm="v", notice_s=90.0, interval=0.01, clock=lambda: NOW)
    first = asyncio.ensure_future(take(stream, 1))
    await google.waiting.wait()
    await google.set("preempted", "TRUE")
    (notice,) = await first
    assert notice == Notice(
        kind=NoticeKind.PREEMPTION,
        vm="v",
        deadline=NOW + 90 + 30,
        seen=NOW,
        preempted=True,
        text="the metadata server says: preempted",
    )


async def test_gcp_maintenance(metadata: Metadata) -> None:
    google = Google()
    google.values["maintenance-event"] = "TERMINATE_ON_HOST_MAINTENANCE"
    metadata.answer = google.answer
    stream = gcp.notices(metadata.endpoint, interval=0.01, clock=lambda: NOW)
    (notice,) = await take(stream, 1)
    assert (notice.kind, notice.deadline) == (NoticeKind.MAINTENANCE, NOW + 60)


async def test_gcp_silence_and_strangers_are_survived(metadata: Metadata) -> None:
    google = Google()
    google.values["preempted"] = "TRUE"
    answers = iter([503, 200])

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("preempted"):
            status = next(answers, None)
            if status is not None:  # first a fault, then a page that is no metadata server's
                return web.Response(status=status, text="TRUE")
        return await google.answer(request)

    metadata.answer = answer
    stream = gcp.notices(metadata.endpoint, interval=0.01, clock=lambda: NOW)
    (notice,) = await take(stream, 1)
    assert notice.kind is NoticeKind.PREEMPTION
    assert sum("preempted" in path for path in metadata.asked) == 3


# -- AWS -------------------------------------------------------------------------------------------


class Amazon:
    """Documents that may be there, for those with a token."""

    def __init__(self) -> None:
        self.documents: dict[str, object] = {}
        self.tokens = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method == "PUT":
            assert request.path == "/latest/api/token"
            assert request.headers["X-aws-ec2-metadata-token-ttl-seconds"] == "21600"
            self.tokens += 1
            return web.Response(text=f"token-{self.tokens}")
        if request.headers.get("X-aws-ec2-metadata-token") != f"token-{self.tokens}":
            return web.Response(status=401)
        document = self.documents.get(request.path.removeprefix("/latest/meta-data/"))
        return web.Response(status=404) if document is None else web.json_response(document)


async def test_aws_notices(metadata: Metadata) -> None:
    amazon = Amazon()
    amazon.documents = {
        "spot/instance-action": {"action": "terminate", "time": "2026-11-16T02:02:00Z"},
        "events/recommendations/rebalance": {"noticeTime": "2026-11-16T01:59:00Z"},
        "events/maintenance/scheduled": [
            {
                "Code": "instance-retirement",
                "Description": "hardware",
                "EventId": "e-1",
                "NotBefore": "17 Nov 2026 09:00:43 GMT",
                "State": "active",
            },
            {"Code": "system-reboot", "EventId": "e-0", "State": "completed"},
        ],
    }
    metadata.answer = amazon.answer
    stream = aws.notices(metadata.endpoint, vm="v", interval=0.01, clock=lambda: NOW)
    found = {notice.kind: notice for notice in await take(stream, 3)}
    assert found[NoticeKind.PREEMPTION].deadline == NOW + 120
    assert found[NoticeKind.PREEMPTION].preempted is True
    assert found[NoticeKind.REBALANCE].deadline is None
    maintenance = found[NoticeKind.MAINTENANCE]
    assert maintenance.id == "e-1"
    expected = datetime(2026, 11, 17, 9, 0, 43, tzinfo=UTC).timestamp()
    assert maintenance.deadline == expected


async def test_aws_token_is_renewed(metadata: Metadata) -> None:
    amazon = Amazon()
    metadata.answer = amazon.answer
    stream = aws.notices(metadata.endpoint, interval=0.01, clock=lambda: NOW)
    pending = asyncio.ensure_future(take(stream, 1))
    async with asyncio.timeout(20):
        while not amazon.tokens:  # noqa: ASYNC110  # what the watcher does sets no event
            await asyncio.sleep(0.01)
    amazon.tokens += 10  # the one it has is good no more
    amazon.documents["spot/instance-action"] = {
        "action": "stop",
        "time": "2026-11-16T02:00:30Z",
    }
    (notice,) = await pending
    assert notice.deadline == NOW + 30


# -- Azure -----------------------------------------------------------------------------------------

EVENTS = {
    "DocumentIncarnation": 2,
    "Events": [
        {
            "EventId": "p-1",
            "EventType": "Preempt",
            "Resources": ["v"],
            "EventStatus": "Scheduled",
            "NotBefore": "Mon, 16 Nov 2026 02:00:30 GMT",
            "Description": "evicted",
        },
        {"EventId": "x-1", "EventType": "Preempt", "Resources": ["another"], "NotBefore": ""},
        {"EventId": "r-1", "EventType": "Reboot", "Resources": ["v"], "NotBefore": ""},
    ],
}


async def test_azure_notices_and_acknowledgement(metadata: Metadata) -> None:
    started = []

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.path == "/metadata/scheduledevents"
        assert request.query["api-version"] == "2020-07-01"
        assert request.headers["Metadata"] == "true"
        if request.method == "POST":
            body = await request.json()
            started.append(body)
            known = body["StartRequests"][0]["EventId"] == "p-1"
            return web.Response(status=200 if known else 400)
        return web.json_response(EVENTS)

    metadata.answer = answer
    stream = azure.notices(metadata.endpoint, vm="v", interval=0.01, clock=lambda: NOW)
    preempt, reboot = await take(stream, 2)
    assert (preempt.kind, preempt.id, preempt.deadline) == (
        NoticeKind.PREEMPTION,
        "p-1",
        NOW + 30,
    )
    assert (reboot.kind, reboot.deadline) == (NoticeKind.MAINTENANCE, NOW)
    await azure.acknowledge("p-1", endpoint=metadata.endpoint)
    assert started == [{"StartRequests": [{"EventId": "p-1"}]}]
    with pytest.raises(ValueError, match="p-2"):
        await azure.acknowledge("p-2", endpoint=metadata.endpoint)


def test_azure_names_the_vm_where_nobody_else_does() -> None:
    found = azure.notices_of(EVENTS, "", NOW)
    assert [notice.vm for notice in found] == ["v", "another", "v"]


# -- all -------------------------------------------------------------------------------------------


def test_news_are_told_once_and_again_when_the_deadline_is_nearer() -> None:
    def notice(deadline: float | None) -> Notice:
        return Notice(kind=NoticeKind.PREEMPTION, vm="v", deadline=deadline, seen=0.0)

    news = NewNotices()
    told = [news.is_new(notice(d)) for d in (None, None, 30.0, 40.0, 20.0, 20.0)]
    assert told == [True, False, True, False, True, False]


def test_clouds_that_are_none() -> None:
    with pytest.raises(BadRequest, match="no cloud"):
        notices("moon")
    with pytest.raises(BadRequest, match="no address"):
        notices("local")
