"""An engine whose containers are all gone when the test is."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from agent_world import World

from corral.cluster.node.container.processes import Container, ContainerSpec, Engine, Mount
from corral.cluster.node.container.view import machine_view
from corral.cluster.node.shim.privileges import CAPABILITIES
from corral.kube.client import KubeClient
from corral.kube.errors import NotFound
from corral.kube.resources import CONFIGMAPS, NAMESPACES, SERVICEACCOUNTS
from tests.backends import Backend

ENV = {"PATH": os.environ.get("PATH", os.defpath)}


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    engine = Engine(tmp_path / "containers")
    yield engine
    for container in await engine.adopt():
        await container.kill()
    engine.close()


@pytest.fixture(
    params=[
        "own",
        pytest.param(
            "shared",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="others have no mounts to share by"),
        ),
    ]
)
def shim(request: pytest.FixtureRequest) -> str:
    """Whether a container has a shim of its own, or shares it with all others."""
    return str(request.param)


@pytest.fixture
def spec(tmp_path: Path, shim: str) -> Callable[..., ContainerSpec]:
    """A spec that runs Python code, or the given argv."""
    numbers = itertools.count()

    def make(code: str = "", **more: Any) -> ContainerSpec:
        argv = more.pop("argv", [sys.executable, "-S", "-E", "-c", code])
        name = more.pop("id", f"c{next(numbers)}")
        env = ENV | more.pop("env", {})
        if shim == "shared":
            # with the machine's processes and users, so that cases see the same numbers
            more["unshare"] = ["mount", "uts", "ipc"]
            view = machine_view(tmp_path / "view", expose=[tmp_path])
            more["view"] = {**view.to_dict(), "shown": [*view.shown, *more.pop("shown", ())]}
            more["mounts"] = [Mount(source=str(tmp_path), target=str(tmp_path))]
            more["privileges"] = {"capabilities": list(CAPABILITIES)}
        more.setdefault("log", str(tmp_path / "logs" / f"{name}.log"))
        return ContainerSpec(id=name, argv=argv, env=env, **more)

    return make


@pytest.fixture
def run(engine: Engine, spec: Callable[..., ContainerSpec]) -> Callable[..., Any]:
    async def start(code: str = "", **more: Any) -> Container:
        return await engine.start(spec(code, **more))

    return start


@pytest.fixture
async def world(backend: Backend, tmp_path: Path) -> AsyncIterator[World]:
    """A namespace for pods, and the name of a node; all is gone afterwards."""
    async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
        name = f"agent-{uuid.uuid4().hex[:8]}"
        await client.create(NAMESPACES, {"metadata": {"name": name}})
        await account(client, name)
        world = World(client, name, tmp_path / "node")
        yield world
        await world.close()
        await client.delete(NAMESPACES, name)


async def account(client: KubeClient, namespace: str) -> None:
    """Wait until pods can be made in a new namespace."""
    async with asyncio.timeout(30):
        while True:
            try:
                await client.get(SERVICEACCOUNTS, "default", namespace=namespace)
                await client.get(CONFIGMAPS, "kube-root-ca.crt", namespace=namespace)
                return
            except NotFound:
                await asyncio.sleep(0.02)
