from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from corral.cluster.node.container.hooks import Termination, run_hook, stop_signal
from corral.cluster.node.probes.probe import (
    Timing,
    Verdict,
    check_of,
    http_target,
    port_number,
    probe,
    run_http,
    run_tcp,
)

Run = Callable[..., Any]
WAIT = "import time; print('up', flush=True); time.sleep(600)"


@pytest.mark.parametrize(
    ("kind", "results", "changes"),
    [
        ("readiness", "ff+++", [None, None, None, True, None]),
        ("readiness", "++fff+", [None, True, None, None, False, None]),
        ("liveness", "++ff+fff", [None, None, None, None, None, None, None, False]),
        ("startup", "ff++", [None, None, None, True]),
        ("startup", "fff", [None, None, False]),
    ],
)
def test_verdicts(kind: str, results: str, changes: list[bool | None]) -> None:
    verdict = Verdict(kind, Timing(successes=2, failures=3))
    assert [verdict.record(result == "+") for result in results] == changes
    done = kind == "startup" or (kind == "liveness" and changes[-1] is False)
    assert verdict.final is done


def test_timing_defaults() -> None:
    assert Timing.of({}) == Timing(delay=0, period=10, timeout=1, successes=1, failures=3)
    assert Timing.of({"initialDelaySeconds": 4, "periodSeconds": 2}).delay == 4


async def test_prober_keeps_time() -> None:
    slept: list[float] = []
    results = iter([None, "bad", "bad", None])
    reports: list[bool] = []
    problems: list[str] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def check() -> str | None:
        return next(results)

    timing = Timing(delay=3, period=7, failures=2)
    await probe(
        "liveness", timing, check, report=reports.append, problem=problems.append, sleep=sleep
    )
    assert (slept, reports, problems) == ([3, 7, 7], [False], ["bad", "bad"])


async def test_a_check_that_hangs() -> None:
    async def hang() -> str | None:
        await asyncio.get_running_loop().create_future()
        return None

    problems: list[str] = []
    timing = Timing(timeout=0.001, failures=1)
    await probe("startup", timing, hang, report=lambda ok: None, problem=problems.append)
    assert problems == ["timed out after 0.001s"]


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/away":
            return web.Response(status=302, headers={"Location": "http://elsewhere.invalid/"})
        if request.path == "/back":
            return web.Response(status=302, headers={"Location": "/503"})
        if request.path == "/agent":
            right = request.headers["User-Agent"].startswith("kube-probe/")
            return web.Response(status=200 if right and request.headers["X"] == "y" else 400)
        return web.Response(status=int(request.path[1:]))

    runner = web.AppRunner(_app(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert runner.addresses
    yield runner.addresses[0][1]
    await runner.cleanup()


def _app(handler: Any) -> web.Application:
    app = web.Application()
    app.router.add_get("/{any:.*}", handler)
    return app


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/200", None), ("/399", None), ("/agent", None), ("/away", None),
        ("/404", "HTTP probe failed with statuscode: 404"),
        ("/back", "HTTP probe failed with statuscode: 503"),
    ],
)  # fmt: skip
async def test_http(port: int, path: str, problem: str | None) -> None:
    action = {"port": "web", "path": path, "httpHeaders": [{"name": "X", "value": "y"}]}
    spec = {"ports": [{"name": "web", "containerPort": port}]}
    url, headers = http_target(action, spec, "127.0.0.1")
    assert await run_http(url, headers) == problem


async def test_refused_connections() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))  # bound but not listening: nobody answers
        await _refused(holder.getsockname()[1])


async def _refused(unused_tcp_port: int) -> None:
    assert "Get" in str(await run_http(f"http://127.0.0.1:{unused_tcp_port}/", {}))
    found = await run_tcp("127.0.0.1", unused_tcp_port)
    assert found is not None and found.startswith(f"dial tcp 127.0.0.1:{unused_tcp_port}: ")


async def test_tcp(port: int) -> None:
    assert await run_tcp("127.0.0.1", port) is None


def test_ports() -> None:
    assert [port_number(value, {}) for value in (80, "81")] == [80, 81]
    with pytest.raises(ValueError, match="couldn't find port: web in c"):
        port_number("web", {"name": "c"})


async def test_exec_probe(run: Run) -> None:
    container = await run(WAIT)
    good = check_of({"exec": {"command": ["true"]}}, {}, container, "")
    bad = check_of({"exec": {"command": ["sh", "-c", "echo no; exit 1"]}}, {}, container, "")
    none = check_of({"exec": {"command": ["no-such"]}}, {}, container, "")
    assert (await good(), await bad()) == (None, "no\n")
    assert "executable file not found" in str(await none())
    with pytest.raises(ValueError, match="missing probe handler"):
        check_of({}, {}, container, "")


# -- hooks and the end -----------------------------------------------------------------------------


async def test_hooks(run: Run, port: int) -> None:
    container = await run(WAIT)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def hook(handler: dict[str, Any]) -> str | None:
        return await run_hook(handler, {}, container, "127.0.0.1", sleep=sleep)

    assert await hook({"exec": {"command": ["true"]}}) is None
    assert await hook({"exec": {"command": ["false"]}}) == ""
    assert await hook({"httpGet": {"port": port, "path": "200"}}) is None
    assert "500" in str(await hook({"httpGet": {"port": port, "path": "500"}}))
    assert "couldn't find port" in str(await hook({"httpGet": {"port": "x"}}))
    assert await hook({"sleep": {"seconds": 5}}) is None and slept == [5.0]


def test_stop_signal() -> None:
    assert stop_signal({}) == signal.SIGTERM
    assert stop_signal({"lifecycle": {"stopSignal": "SIGUSR1"}}) == signal.SIGUSR1
    assert stop_signal({"lifecycle": {"stopSignal": "SIG_DFL"}}) == signal.SIGTERM


async def up(container: Any) -> None:
    streams = await container.attach()
    await asyncio.wait_for(streams.read(), 20)
    await streams.close()


TRAP = (
    "import signal, sys, time\n"
    "signal.signal(15, lambda *_: sys.exit(3))\n"
    "while True: print('up', flush=True); time.sleep(0.01)"
)
DEAF = (
    "import signal, time\nsignal.signal(15, signal.SIG_IGN)\n"
    "while True: print('up', flush=True); time.sleep(0.01)"
)


async def test_pre_stop_then_the_signal(run: Run, tmp_path: Any) -> None:
    container = await run(TRAP)
    await up(container)
    done = tmp_path / "done"
    spec = {"lifecycle": {"preStop": {"exec": {"command": ["touch", str(done)]}}}}
    state = await Termination(container, spec, "").run(30)
    assert state.exit_code == 3 and done.exists()


async def test_a_hook_that_takes_too_long(run: Run) -> None:
    container = await run(TRAP)
    await up(container)
    spec = {"lifecycle": {"preStop": {"exec": {"command": ["sleep", "600"]}}}}
    state = await Termination(container, spec, "").run(0.05)
    assert state.exit_code == 3  # there is still time for the signal


async def test_deaf_container_is_killed(run: Run) -> None:
    container = await run(DEAF)
    await up(container)
    assert (await Termination(container, {}, "").run(0.05)).exit_code == 137


async def test_no_grace(run: Run) -> None:
    container = await run(TRAP)
    await up(container)
    assert (await Termination(container, {}, "").run(0)).exit_code == 137


async def test_shortened(run: Run) -> None:
    container = await run(DEAF)
    await up(container)
    termination = Termination(container, {}, "")
    ending = asyncio.create_task(termination.run(3600))
    await up(container)
    termination.shorten(0)
    async with asyncio.timeout(30):
        assert (await ending).exit_code == 137
