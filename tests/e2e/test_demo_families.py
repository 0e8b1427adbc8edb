"""The jobs that ``corral demo`` runs: each does what the demo says of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from corral.cli.demo.federated import learn
from corral.cli.demo.mpi import launch
from corral.cli.demo.spot import survive
from corral.kube import KubeClient
from corral.kube.resources import NAMESPACES, SERVICEACCOUNTS
from tests.e2e.clusters import Up


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    cluster = Up(tmp_path_factory.mktemp("up") / "c")
    cluster.start()
    yield cluster
    cluster.stop()


async def in_namespace(client: KubeClient, name: str) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    watch = client.watch(SERVICEACCOUNTS, name, field_selector="metadata.name=default")
    async with asyncio.timeout(30), aclosing(watch) as events:
        async for _ in events:
            return


def said() -> tuple[list[str], Callable[[str], None]]:
    lines: list[str] = []
    return lines, lines.append


async def test_mpi(up: Up) -> None:
    lines, say = said()
    async with KubeClient.from_kubeconfig(str(up.kubeconfig), on_warning=say) as client:
        await in_namespace(client, "mpi")
        told = await launch(client, "mpi", say)
    assert told == "4 ranks on 2 workers, started by the launcher: pi is 3.141592654"
    assert any(line.startswith("MPI job: ") for line in lines)


async def test_federated(up: Up, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no module was built, too."""
    monkeypatch.setitem(os.environ, "CORRAL_CACHE", str(tmp_path))
    lines, say = said()
    async with KubeClient.from_kubeconfig(str(up.kubeconfig), on_warning=say) as client:
        await in_namespace(client, "federated")
        told = await learn(client, "federated", say)
    assert told.startswith("two processes, 3 rounds: accuracy 0.9")
    assert "federated: round 3 of 3" in lines


async def test_spot(up: Up) -> None:
    lines, say = said()
    async with KubeClient.from_kubeconfig(str(up.kubeconfig), on_warning=say) as client:
        await in_namespace(client, "spot")
        told = await survive(client, "spot", up.data / "machines", say)
    assert told.startswith("its machine was killed; ran on another after ")
    assert any(line.startswith("spot job: Restarting") for line in lines)
