"""The frame around webhooks and controllers: logs, probes, signals."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import signal
from collections.abc import Iterator

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from corral.kube.resources import CONFIGMAPS
from corral.runtime import Manager, RuntimeMetrics
from corral.runtime.logcontext import (
    JsonFormatter,
    ReconcileContext,
    configure_logging,
    reconciling,
)
from corral.runtime.operator import Operator, OperatorSettings
from tests.unit.runtime.runtime_fakes import fake_cluster


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_of_json(stream: io.StringIO) -> None:
    configure_logging("json", stream=stream)
    log = logging.getLogger("corral.test")
    with reconciling(ReconcileContext("trainingjob", "ns/mnist", "id-1")):
        log.warning("made %d pods", 3, extra={"replicas": 3})
    log.debug("not said")
    log.info("outside")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "warning",
        "logger": "corral.test",
        "message": "made 3 pods",
        "controller": "trainingjob",
        "object": "ns/mnist",
        "reconcile_id": "id-1",
        "replicas": 3,
    }
    assert second.keys() == {"time", "level", "logger", "message"}


def test_exceptions_are_one_line(stream: io.StringIO) -> None:
    configure_logging("json", stream=stream)
    try:
        raise ValueError("no\nluck")
    except ValueError:
        logging.getLogger("x").exception("failed")
    (line,) = map(json.loads, stream.getvalue().splitlines())
    assert "ValueError: no\nluck" in line["exception"]


@pytest.mark.parametrize(
    "message,args,extra",
    [
        ("%d pods", ("three",), {}),
        ("text", (), {"odd": object()}),
        ("text \ud800", (), {}),
        ("text", (), {"number": 2**80}),
        ("text", (), {"keys": {1: 2, (1, 2): 3}}),
    ],
)
def test_a_line_is_always_written(message: str, args: tuple[str], extra: dict[str, object]) -> None:
    record = logging.LogRecord("x", logging.INFO, "p", 1, message, args, None)
    vars(record).update(extra)
    assert json.loads(JsonFormatter().format(record))["level"].strip("'") == "info"


def test_lines_for_people(stream: io.StringIO) -> None:
    configure_logging("text", level="DEBUG", stream=stream)
    with reconciling(ReconcileContext("job", "ns/a", "1")):
        logging.getLogger("x").debug("hello")
    assert stream.getvalue().endswith(
        "Z DEBUG x: hello [controller=job object=ns/a reconcile_id=1]\n"
    )


async def fetch(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, await answer.text()


async def test_an_operator_serves_stops_and_says_so() -> None:
    async with fake_cluster() as (_, client):
        manager = Manager(client, metrics=RuntimeMetrics(CollectorRegistry()))
        manager.informer(CONFIGMAPS, "ns")
        ready, stopping, released = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                stopping.set()
                await released.wait()

        manager.add_task("work", work)
        operator = Operator(
            manager,
            settings=OperatorSettings(health_host="127.0.0.1", health_port=0),
            on_ready=ready.set,
        )
        task = asyncio.create_task(operator.run())
        async with asyncio.timeout(30):
            await ready.wait()
            assert await fetch(operator.health_port, "/healthz") == (200, "ok")
            assert await fetch(operator.health_port, "/readyz") == (200, "ok")
            verbose = "[+]caches ok\n[+]stop ok"
            assert await fetch(operator.health_port, "/readyz?verbose") == (200, verbose)
            code, text = await fetch(operator.health_port, "/metrics")
            assert code == 200 and "corral_watch_age_seconds" in text
            os.kill(os.getpid(), signal.SIGTERM)
            await stopping.wait()
            assert (await fetch(operator.health_port, "/readyz"))[1] == "stopping"
            released.set()
            await task
        assert operator.health_port == 0


async def test_a_failure_of_a_part_ends_the_operator() -> None:
    async with fake_cluster() as (_, client):
        manager = Manager(client)

        async def fail() -> None:
            raise ValueError("oh")

        manager.add_task("bad", fail)
        settings = OperatorSettings(health_port=None, handle_signals=False)
        with pytest.raises(ValueError, match="oh"):
            async with asyncio.timeout(30):
                await Operator(manager, settings=settings).run()
