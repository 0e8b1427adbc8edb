"""A cluster that knows TrainingJobs, and the store servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from corral.kube.client import KubeClient
from tests.backends import Backend, own_backend, own_scope
from tests.cluster.objects import Objects
from tests.cluster.trainingjob.operating import install_definitions
from tests.cluster.trainingjob_checkpoints.checkpoint_stage import QUICK, Stage, staged
from tests.stores.servers import SERVERS, Served, remote_stores


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own, whose definitions are ours."""
    with own_backend(tmp_path_factory.mktemp("checkpoints")) as backend:
        install_definitions(Objects(backend))
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    return str(backend.kubeconfig)


@pytest.fixture(scope=own_scope, params=remote_stores())
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """One object store, running."""
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest.fixture
async def client(kubeconfig: str) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        yield client


@pytest.fixture
async def stage(client: KubeClient, namespace: str) -> AsyncIterator[Stage]:
    """An operator that looks after Checkpoints, and nothing else."""
    async with staged(client, namespace, checkpoints=QUICK) as stage:
        yield stage
