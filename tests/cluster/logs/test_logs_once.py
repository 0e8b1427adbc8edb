"""Every line of every pod once, whatever is cut between the pod and whoever reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from corral.client import Jobs, LogQuery, kind_of
from corral.client.gateway.jobs import GatewayJobs
from corral.kube import KubeClient, load_config
from tests.backends import Backend
from tests.cluster.gateway_grpc.both_views import GatewayThread
from tests.cluster.logs.writers import JOB, Door, Writers, lines, taken
from tests.cluster.pods.pods import python

FOLLOW = LogQuery(follow=True)
Doors = Callable[[int, int], Door]


@pytest.fixture
def doors() -> Iterator[Doors]:
    """Makes doors to a port, by a seed."""
    made: list[Door] = []

    def door(port: int, seed: int) -> Door:
        # more than pods write in two seconds: from a second on is all that a server can be asked
        made.append(Door(port, seed=seed, least=140_000, most=300_000))
        return made[-1]

    yield door
    for one in made:
        one.close()


@asynccontextmanager
async def jobs_at(kubeconfig: str, port: int | None = None) -> AsyncIterator[Jobs]:
    """The cluster, perhaps through a door."""
    config = load_config(kubeconfig)
    if port is not None:
        config = replace(config, server=f"https://127.0.0.1:{port}")
    async with KubeClient(config) as client, asyncio.timeout(100):
        yield Jobs(client)


async def test_pods_that_come_and_go(writers: Writers, kubeconfig: str) -> None:
    """New pods appear by themselves, and so does a container that is started again."""
    again = "import sys\nprint('first', flush=True)\nsys.exit(3)"
    code = f"""
import os
if not os.path.exists("/data/once"):
    open("/data/once", "w").close()
    exec({again!r})
print("second", flush=True)
"""
    volume = {"name": "data", "emptyDir": {}}
    failing = python(code, volumeMounts=[{"name": "data", "mountPath": "/data"}])
    writers.add("w-0", 2000)
    async with jobs_at(kubeconfig) as jobs:
        chunks = jobs.logs("trainingjobs", writers.namespace, JOB, FOLLOW)
        async with aclosing(chunks):
            first = await anext(chunks)
            assert first.pod == "w-0"
            writers.run("w-1", failing, volumes=[volume], restartPolicy="OnFailure")
            ending = writers.finish_with("w-0", "w-1")
            rest = await taken(chunks)
        ending.join()
    assert first.data.split(b"\n")[:-1] + rest["w-0"] == lines("w-0", 2000)
    assert rest["w-1"] == [b"first", b"second"]


@pytest.mark.parametrize("seed", [1, 2])
async def test_cuts_before_the_api_server(
    writers: Writers, kubeconfig: str, backend: Backend, doors: Doors, seed: int
) -> None:
    port = urlsplit(backend.server).port
    assert port is not None
    door = doors(port, seed)
    names = ("w-0", "w-1")
    for name in names:
        writers.add(name, 5000, pause=0.05)
    ending = writers.finish_with(*names)
    async with jobs_at(kubeconfig, door.port) as jobs:
        got = await taken(jobs.logs("trainingjobs", writers.namespace, JOB, FOLLOW))
    ending.join()
    assert got == {name: lines(name, 5000) for name in names}
    assert door.slammed > 1


async def test_a_node_agent_that_is_killed(writers: Writers, kubeconfig: str) -> None:
    """Its pods go on without it, and so does the log when it is back."""
    writers.add("w-0", 6000, pause=0.02)
    async with jobs_at(kubeconfig) as jobs:
        chunks = jobs.logs("trainingjobs", writers.namespace, JOB, FOLLOW)
        async with aclosing(chunks):
            first = await anext(chunks)
            await asyncio.to_thread(writers.node.kill)
            await asyncio.to_thread(writers.node.start)
            ending = writers.finish_with("w-0")
            rest = await taken(chunks)
        ending.join()
    assert first.data.split(b"\n")[:-1] + rest["w-0"] == lines("w-0", 6000)


async def test_another_reader_goes_on(writers: Writers, kubeconfig: str) -> None:
    """Each takes some lines and leaves its position to the next, who has another connection."""
    writers.add("w-0", 3000, pause=0.005)
    ending = writers.finish_with("w-0")
    got, position = b"", None
    while position is None or got.count(b"\n") < 3000:
        async with jobs_at(kubeconfig) as jobs:
            query = replace(FOLLOW, position=position)
            chunks = jobs.logs("trainingjobs", writers.namespace, JOB, query)
            async with aclosing(chunks):
                for _ in range(3):
                    chunk = await anext(chunks, None)
                    if chunk is None:
                        break
                    got, position = got + chunk.data, str(chunk.position)
    ending.join()
    assert got.split(b"\n")[:-1] == lines("w-0", 3000)


async def test_cuts_before_the_gateway(
    writers: Writers, gateway: GatewayThread, backend: Backend, doors: Doors
) -> None:
    door = doors(gateway.ports["rest"], 3)
    names = ("w-0", "w-1")
    for name in names:
        writers.add(name, 5000, pause=0.05)
    ending = writers.finish_with(*names)
    access = GatewayJobs(
        f"https://127.0.0.1:{door.port}", token=backend.token, ca_file=gateway.authority
    )
    kind = kind_of("trainingjobs")
    try:
        async with asyncio.timeout(100):
            got = await taken(access.logs(kind, writers.namespace, JOB, FOLLOW))
    finally:
        await access.close()
    ending.join()
    assert got == {name: lines(name, 5000) for name in names}
    assert door.slammed > 1


async def test_parts_of_a_log(writers: Writers, kubeconfig: str) -> None:
    """The same on every server: last lines, times, one replica, one container."""
    writers.add("w-0", 300)
    writers.add("w-1", 5)
    for name in ("w-0", "w-1"):
        writers.wait(name, "Succeeded")
    async with jobs_at(kubeconfig) as jobs:

        async def read(**options: object) -> dict[str, list[bytes]]:
            query = replace(LogQuery(), **options)  # type: ignore[arg-type]
            return await taken(jobs.logs("trainingjobs", writers.namespace, JOB, query))

        assert await read() == {"w-0": lines("w-0", 300), "w-1": lines("w-1", 5)}
        assert await read(tail_lines=7) == {
            "w-0": lines("w-0", 300)[-7:], "w-1": lines("w-1", 5),
        }  # fmt: skip
        assert await read(roles=("replica", 1)) == {"w-1": lines("w-1", 5)}
        assert await read(container="other") == {}
        stamped = (await read(timestamps=True, roles=("replica", 1)))["w-1"]
        assert [line.partition(b" ")[2] for line in stamped] == lines("w-1", 5)
        assert all(line[:2] == b"20" and line[29:31] == b"Z " for line in stamped)
        assert await read(since_time="2099-01-01T00:00:00Z") == {}
