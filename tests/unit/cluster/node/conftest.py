"""An engine whose containers are all gone when the test is."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.containers import Container, ContainerSpec, Engine

ENV = {"PATH": os.environ.get("PATH", os.defpath)}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    engine = Engine(tmp_path / "containers")
    yield engine
    for container in await engine.adopt():
        await container.kill()
    engine.close()


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., ContainerSpec]:
    """A spec that runs Python code, or the given argv."""
    numbers = itertools.count()

    def make(code: str = "", **more: Any) -> ContainerSpec:
        argv = more.pop("argv", [sys.executable, "-S", "-E", "-c", code])
        name = more.pop("id", f"c{next(numbers)}")
        env = ENV | more.pop("env", {})
        more.setdefault("log", str(tmp_path / "logs" / f"{name}.log"))
        return ContainerSpec(id=name, argv=argv, env=env, **more)

    return make


@pytest.fixture
def run(engine: Engine, spec: Callable[..., ContainerSpec]) -> Callable[..., Any]:
    async def start(code: str = "", **more: Any) -> Container:
        return await engine.start(spec(code, **more))

    return start
