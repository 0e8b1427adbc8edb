"""A cluster without nodes, the kinds of the group, a registry, and an operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from corral.api.propeller.kinds import KINDS
from tests.backends import Backend, own_backend, own_scope
from tests.cluster.federated_rounds.learning_operating import Learning, Operator
from tests.cluster.federated_rounds.registry_box import RegistryBox
from tests.cluster.objects import Objects
from tests.cluster.operators import install


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with own_backend(tmp_path_factory.mktemp("rounds")) as backend:
        install(Objects(backend), [kind.crd() for kind in KINDS])
        yield backend


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryBox]:
    with RegistryBox(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope="module")
def operator(backend: Backend, registry: RegistryBox) -> Iterator[Operator]:
    """For all cases of a module."""
    operator = Operator(str(backend.kubeconfig), registry.url).start()
    yield operator
    operator.kill()


@pytest.fixture
def learning(objects: Objects, registry: RegistryBox, operator: Operator) -> Learning:
    return Learning(objects, registry)
