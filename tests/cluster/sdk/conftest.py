"""A cluster with a node that runs pods and an operator, and every way to reach it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from corral.client.access import Access
from corral.cluster.node.isolation import Capabilities
from corral.gateway.audit import Audit
from corral.gateway.clients import Upstream
from corral.gateway.limits import LimitSettings
from corral.gateway.process import serve
from corral.gateway.service import Gateway
from corral.gateway.shared import Shared
from corral.gateway.tls import ServerTls, own_certificate
from corral.kube import load_config
from corral.runtime.serving.listening import Listen, bind
from corral.sdk.clients import AsyncMPIJobClient, AsyncTrainingClient
from corral.sdk.connect import Connection, connect
from tests.backends import Backend, add_node, own_backend, own_scope
from tests.cluster.apps.loops import LoopThread
from tests.cluster.training.training_stage import OperatorRun, install

WAYS = ("cluster", "gateway")


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own, so that nodes of other cases are not among its nodes."""
    with own_backend(tmp_path_factory.mktemp("sdk")) as backend:
        install(backend)
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    """Of this cluster, not of the one that other cases share."""
    return str(backend.kubeconfig)


@pytest.fixture(scope=own_scope)
def operator(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorRun]:
    """An operator, and a node whose pods share the machine's network: it is at the loopback."""
    node = add_node(backend, "one", isolation=Capabilities.detect("probe", highest="user").mode)
    running = OperatorRun(backend, tmp_path_factory.mktemp("operator"))
    try:
        running.start()
        yield running
    finally:
        running.stop()
        node.stop()


class GatewayThread(LoopThread):
    """A gateway with a certificate of its own; `audited` is its audit log."""

    def __init__(self, kubeconfig: str, folder: Path) -> None:
        super().__init__("gateway")
        self._config = load_config(kubeconfig)
        self._folder = folder
        self._socket = bind(Listen())
        self.audited: list[bytes] = []
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"
        self.ca_file = folder / "ca.crt"

    async def work(self, ready: Callable[[], None]) -> None:
        audit = Audit(self.audited.append)
        cluster = Upstream.of(self._config)
        gateway = Gateway(cluster)
        shared = Shared.of(gateway, cluster, audit=audit, limits=LimitSettings())
        tls = ServerTls(own_certificate(self._folder, ["127.0.0.1"]))
        try:
            with self._socket:
                async with serve(gateway, shared, self._socket, tls=tls, grace=1.0):
                    ready()
                    await asyncio.get_running_loop().create_future()
        finally:
            await shared.reach.close()
            await gateway.close()


@pytest.fixture(scope=own_scope)
def gateway(kubeconfig: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    running = GatewayThread(kubeconfig, tmp_path_factory.mktemp("gateway"))
    running.start()
    yield running
    running.stop()


def connection(way: str, request: pytest.FixtureRequest, token: str = "") -> Connection:
    """How a cluster is reached one way or the other."""
    if way == "cluster":
        return Connection(kubeconfig=request.getfixturevalue("kubeconfig"))
    running: GatewayThread = request.getfixturevalue("gateway")
    backend: Backend = request.getfixturevalue("backend")
    return Connection(gateway=running.url, ca_file=running.ca_file, token=token or backend.token)


@pytest.fixture(params=WAYS)
async def access(request: pytest.FixtureRequest, operator: OperatorRun) -> AsyncIterator[Access]:
    """Both ways, one after the other."""
    found = connect(connection(request.param, request))
    yield found
    await found.close()


@pytest.fixture
async def cluster_access(kubeconfig: str, operator: OperatorRun) -> AsyncIterator[Access]:
    """Straight to the API."""
    found = connect(Connection(kubeconfig=kubeconfig))
    yield found
    await found.close()


@pytest.fixture
def client(access: Access, namespace: str) -> AsyncTrainingClient:
    """In the namespace of the case."""
    return AsyncTrainingClient(access=access, namespace=namespace)


@pytest.fixture
def mpi(access: Access, namespace: str) -> AsyncMPIJobClient:
    return AsyncMPIJobClient(access=access, namespace=namespace)
