"""A cluster that knows spot jobs, with a process node and a registry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from corral.kube.client import KubeClient
from tests.backends import Backend, Node, add_node, own_backend, own_scope
from tests.cluster.spot_checkpoints.spot_stage import SpotStage, staged
from tests.cluster.training.training_stage import install
from tests.registries import RunningRegistry, running_registry


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own, whose definitions are ours."""
    with own_backend(tmp_path_factory.mktemp("spot-checkpoints")) as backend:
        install(backend)
        yield backend


@pytest.fixture(scope=own_scope)
def node(backend: Backend) -> Iterator[Node]:
    """Its pods share the machine's network, where the registry is."""
    node = add_node(backend, "plain", isolation="plain")
    yield node
    node.stop()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path / "registry") as found:
        yield found


@pytest.fixture
async def client(backend: Backend) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
        yield client


@pytest.fixture
async def stage(
    client: KubeClient, namespace: str, registry: RunningRegistry
) -> AsyncIterator[SpotStage]:
    """An operator that looks after backups and reports, and nothing else."""
    async with staged(client, namespace, registry) as stage:
        yield stage
