"""An API server with the kinds, a gateway, a registry and a broker; no controllers."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from corral.api.kafkaml.kinds import KINDS
from tests.backends import Backend, own_backend, own_scope
from tests.cluster.broker.broker_servers import ApacheKafka, OwnBroker, Server
from tests.cluster.gateway.gateways import GatewayProcess, Somebody
from tests.cluster.objects import Objects
from tests.cluster.operators import install
from tests.registries import RunningRegistry, running_registry

REAL = os.environ.get("CORRAL_BACKEND", "embedded") == "real"


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with own_backend(tmp_path_factory.mktemp("kafkaml-rest")) as backend:
        install(Objects(backend), [kind.crd() for kind in KINDS])
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    return str(backend.kubeconfig)


@pytest.fixture(scope=own_scope)
def models_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope=own_scope)
def gateway(
    backend: Backend, models_registry: RunningRegistry, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    known = [word for pair in models_registry.pairs() for word in ("--registry-map", pair)]
    options = ("--rate", "100000", "--burst", "100000", *known)
    gateway = GatewayProcess(backend, tmp_path_factory.mktemp("served"), *options)
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.fixture
def admin(gateway: GatewayProcess, backend: Backend) -> Somebody:
    return Somebody(gateway, backend.token)


@pytest.fixture(scope=own_scope)
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = (ApacheKafka if REAL else OwnBroker)(tmp_path_factory.mktemp("broker"))
    server.start()
    yield server
    server.stop()
