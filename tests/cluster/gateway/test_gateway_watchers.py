"""Five hundred watchers of one job."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import aiohttp

from tests.cluster.gateway.gateways import GatewayProcess, Somebody, memory
from tests.cluster.jobs_api.manifests_of_jobs import training
from tests.cluster.objects import Objects

WATCHERS = 500
PHASES = ("Pending", "Running", "Pending", "Running", "Succeeded")


class Watchers:
    """Each remembers the phases that it was told of."""

    def __init__(self, gateway: GatewayProcess, token: str, path: str) -> None:
        self._url = gateway.url + path
        self._headers = {"Authorization": f"Bearer {token}"}
        self._tls = ssl.create_default_context(cafile=str(gateway.authority))
        self.seen: list[list[str]] = [[] for _ in range(WATCHERS)]
        self._news = asyncio.Condition()

    async def run(self, began: asyncio.Event) -> None:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        async with (
            aiohttp.ClientSession(connector=connector, headers=self._headers) as session,
            asyncio.TaskGroup() as group,
        ):
            began.set()
            for seen in self.seen:
                group.create_task(self._watch(session, seen))

    async def _watch(self, session: aiohttp.ClientSession, seen: list[str]) -> None:
        async with session.get(self._url, timeout=aiohttp.ClientTimeout(total=120)) as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                if line.startswith(b'data: {"type"'):
                    seen.append(line.decode().split('"phase":"')[1].split('"')[0])
                    async with self._news:
                        self._news.notify_all()
                    if len(seen) > len(PHASES):
                        return

    async def all_have(self, count: int) -> None:
        async with asyncio.timeout(90), self._news:
            await self._news.wait_for(lambda: all(len(seen) >= count for seen in self.seen))


async def test_each_of_500_watchers_sees_every_phase(
    admin: Somebody, gateway: GatewayProcess, objects: Objects, namespace: str
) -> None:
    objects.create("trainingjobs", training("watched", runPolicy={"suspend": True}))
    path = f"/api/v1/namespaces/{namespace}/trainingjobs/watched/watch?view=phase"
    next(iter(admin.events(path)))  # whatever is loaded at first is loaded
    before = memory(gateway.pid)
    watchers = Watchers(gateway, admin.token or "", path)
    began = asyncio.Event()
    running = asyncio.create_task(watchers.run(began))
    await watchers.all_have(1)
    for number, phase in enumerate(PHASES, start=2):
        await asyncio.to_thread(_become, objects, phase)
        await watchers.all_have(number)
    after = memory(gateway.pid)
    await running
    first = watchers.seen[0][0]
    assert {tuple(seen) for seen in watchers.seen} == {(first, *PHASES)}
    each = (after - before) / WATCHERS / 1024
    print(f"\n{WATCHERS} watchers: {each:.1f} KiB of the gateway's memory each, TLS included")
    assert each < 256, "a watcher must be cheap"


def _become(objects: Objects, phase: str) -> Any:
    path = objects.path("training.corral.dev/v1alpha1", "trainingjobs", "watched") + "/status"
    reply = objects.backend.request(
        "PATCH", path, {"status": {"phase": phase}}, content_type="application/merge-patch+json"
    )
    assert reply.code == 200, reply.json()["message"]
    return reply
