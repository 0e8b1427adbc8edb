"""The logs page: options, refusals, and following without looking all the time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from server_node import WAIT, HandPods, pod_object

from corral.cluster.node.access import AccessError, log_container
from corral.cluster.node.container.logs import LogOptions
from corral.cluster.node.container.processes import Engine
from corral.cluster.node.server import changes as changes_module
from corral.cluster.node.server.changes import Changes
from corral.cluster.node.server.logs import Logs, parse_options

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "expected", "previous"),
    [
        ({}, LogOptions(), False),
        ({"follow": "true", "previous": "1"}, LogOptions(follow=True), True),
        ({"follow": "false", "previous": "0"}, LogOptions(), False),
        (
            {"tailLines": "5", "timestamps": "true"},
            LogOptions(tail_lines=5, timestamps=True),
            False,
        ),
        ({"tail": "7"}, LogOptions(tail_lines=7), False),
        ({"tail": "all", "tailLines": "3"}, LogOptions(), False),
        ({"limitBytes": "9", "stream": "All"}, LogOptions(limit_bytes=9), False),
        ({"stream": "Stderr"}, LogOptions(stream="stderr"), False),
        ({"sinceSeconds": "5"}, LogOptions(since="2026-01-02T03:04:00.000000000Z"), False),
        (
            {"sinceTime": "2026-01-02T04:00:00+01:00"},
            LogOptions(since="2026-01-02T03:00:00.000000000Z"),
            False,
        ),
        (
            {
                "sinceTime": "2026-01-02T03:00:00Z",
                "corralSinceTime": "2026-01-02T03:00:00.000000007Z",
            },
            LogOptions(since="2026-01-02T03:00:00.000000007Z"),
            False,
        ),
    ],
)
def test_options(query: Mapping[str, str], expected: LogOptions, previous: bool) -> None:
    assert parse_options(query, now=NOW) == (expected, previous)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"tailLines": "x"}, 400),
        ({"tail": "x"}, 400),
        ({"sinceTime": "yesterday"}, 400),
        ({"tailLines": "-1"}, 422),
        ({"limitBytes": "0"}, 422),
        ({"sinceSeconds": "0"}, 422),
        ({"sinceSeconds": "1", "sinceTime": "2026-01-02T04:00:00Z"}, 422),
        ({"stream": "Both"}, 422),
        ({"stream": "Stdout", "tailLines": "1"}, 422),
    ],
)
def test_bad_options(query: Mapping[str, str], code: int) -> None:
    with pytest.raises(AccessError) as caught:
        parse_options(query, now=NOW)
    assert caught.value.code == code


# -- whose log -----------------------------------------------------------------------------------

ENDED = {"terminated": {"containerID": "x://old"}}
RUNNING = {"running": {}}


@pytest.mark.parametrize(
    ("status", "previous", "expected"),
    [
        ({"state": RUNNING, "containerID": "x://new"}, False, "x://new"),
        ({"state": RUNNING, "containerID": "x://new", "lastState": ENDED}, True, "x://old"),
        ({"state": ENDED, "containerID": "x://old"}, False, "x://old"),
        ({"state": {"terminated": {}}, "lastState": ENDED}, False, "x://old"),
        (
            {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ENDED},
            False,
            "x://old",
        ),
    ],
)
def test_whose_log(status: dict[str, Any], previous: bool, expected: str) -> None:
    pod = pod_object("p", "c", node="n")
    pod["status"] = {"containerStatuses": [{"name": "c", **status}]}
    assert log_container(pod, "c", previous=previous) == expected


@pytest.mark.parametrize(
    ("status", "previous", "words"),
    [
        ({"state": RUNNING}, True, 'previous terminated container "c" in pod "p" not found'),
        ({"state": {"terminated": {}}}, False, 'container "c" in pod "p" is terminated'),
        (
            {"state": {"waiting": {"reason": "ContainerCreating"}}},
            False,
            'container "c" in pod "p" is waiting to start: ContainerCreating',
        ),
        (
            {"state": {"waiting": {"reason": "ErrImagePull"}}},
            False,
            'container "c" in pod "p" is waiting to start: image can\'t be pulled',
        ),
        (
            {"state": {"waiting": {"reason": "ImagePullBackOff"}}},
            False,
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
        ),
        ({}, False, 'container "c" in pod "p" is waiting to start - no logs yet'),
        (None, False, 'container "c" in pod "p" is not available'),
    ],
)
def test_no_log(status: dict[str, Any] | None, previous: bool, words: str) -> None:
    pod = pod_object("p", "c", node="n")
    pod["status"] = {"containerStatuses": [{"name": "c", **status}] if status is not None else []}
    with pytest.raises(AccessError, match=words) as caught:
        log_container(pod, "c", previous=previous)
    assert caught.value.code == 400
    with pytest.raises(AccessError, match='container "d" not found in pod "p"') as caught:
        log_container(pod, "d", previous=False)
    assert caught.value.code == 404


# -- following -----------------------------------------------------------------------------------


@asynccontextmanager
async def serving(pods: HandPods) -> AsyncIterator[str]:
    changes = Changes()
    logs = Logs(pods, changes)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await logs.serve(request, *request.path.split("/")[1:])
        except AccessError as err:
            return web.Response(status=err.code, text=str(err))

    runner = web.ServerRunner(web.Server(handle, handler_cancellation=True), shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/default/p/main"
    finally:
        await runner.cleanup()
        changes.close()


LOOP = """
import sys
for line in sys.stdin:
    print('x' * 500, line.strip())
"""


@pytest.mark.parametrize("inotify", [True, False])
async def test_follow_to_the_end(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inotify: bool
) -> None:
    if not inotify:
        monkeypatch.setattr(Changes, "_watch", lambda *_: -1)
    else:
        # then only the kernel can wake it in time
        monkeypatch.setattr(changes_module, "QUIET", 3600.0)
    pods = HandPods(engine, tmp_path)
    pod = pod_object("p", node="n")
    container = await pods.run(
        pod, "main", LOOP, stdin=True, stdin_once=True, max_log_bytes=4000, max_log_files=3
    )
    streams = await container.attach(stdin=True)
    async with serving(pods) as url, aiohttp.ClientSession() as session, asyncio.timeout(60):
        async with session.get(url, params={"follow": "true"}) as answer:
            for number in range(40):
                await streams.write(b"%d\n" % number)
                line = await answer.content.readline()
                assert line.split()[1] == b"%d" % number
            await streams.close_stdin()
            assert await answer.content.read() == b""
    await streams.close()


async def test_followers_that_leave_are_forgotten(engine: Engine, tmp_path: Path) -> None:
    pods = HandPods(engine, tmp_path)
    await pods.run(pod_object("p", node="n"), "main", "print(1)\n" + WAIT)
    changes = Changes()
    path = pods.log_file("default", "p", "main", previous=False)
    with changes.following(path), changes.following(path):
        assert [len(f) for f in changes._followers.values()] == [2]
    assert changes._followers == {}
    changes.close()
    changes.close()


async def test_a_restart_ends_the_old_log(engine: Engine, tmp_path: Path) -> None:
    pods = HandPods(engine, tmp_path)
    pod = pod_object("p", node="n")
    first = await pods.run(pod, "main", "print('one')\n" + WAIT)
    async with serving(pods) as url, aiohttp.ClientSession() as session, asyncio.timeout(60):
        async with session.get(url, params={"follow": "true"}) as answer:
            assert await answer.content.readline() == b"one\n"
            await first.kill()
            await pods.run(pod, "main", "print('two')\n" + WAIT)
            assert await answer.content.read() == b""


async def test_a_pod_that_is_forgotten_ends_its_log(engine: Engine, tmp_path: Path) -> None:
    pods = HandPods(engine, tmp_path)
    await pods.run(pod_object("p", node="n"), "main", "print('one')\n" + WAIT)
    async with serving(pods) as url, aiohttp.ClientSession() as session, asyncio.timeout(60):
        async with session.get(url, params={"follow": "true"}) as answer:
            assert await answer.content.readline() == b"one\n"
            pods.forget("default", "p")
            assert await answer.content.read() == b""
        async with session.get(url) as answer:
            assert (answer.status, await answer.text()) == (404, 'pod "p" does not exist')


async def test_large_logs_and_lost_ones(engine: Engine, tmp_path: Path) -> None:
    pods = HandPods(engine, tmp_path)
    code = "import sys\nfor i in range(200): sys.stdout.write('y' * 9999 + '\\n' )\n"
    container = await pods.run(pod_object("p", node="n"), "main", code)
    await container.wait()
    async with serving(pods) as url, aiohttp.ClientSession() as session:
        async with session.get(url) as answer:
            assert len(await answer.content.read()) == 200 * 10_000
        async with session.get(url, params={"sinceTime": "2099-01-01T00:00:00Z"}) as answer:
            assert await answer.content.read() == b""
        async with session.get(url, params={"tailLines": "150"}) as answer:
            assert len(await answer.content.read()) == 150 * 10_000
        pods.log_file("default", "p", "main", previous=False).unlink()
        async with session.get(url) as answer:
            assert answer.status == 400
            assert (await answer.text()).startswith("unable to retrieve container logs for")
