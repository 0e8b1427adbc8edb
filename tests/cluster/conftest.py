"""A namespace for every case, and what is read and written in it beside the client at work."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.backends import Backend
from tests.cluster import manifests
from tests.cluster.objects import Objects, eventually


@pytest.fixture
def unique() -> str:
    """A word for names of cluster-scoped objects."""
    return uuid.uuid4().hex[:8]


@pytest.fixture
def cluster(backend: Backend) -> Objects:
    return Objects(backend)


@pytest.fixture
def namespace(cluster: Objects, unique: str) -> Iterator[str]:
    """A new namespace that already has what controllers put into it."""
    name = f"case-{unique}"
    cluster.create(
        "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    inside = Objects(cluster.backend, name)
    eventually(lambda: inside.find("v1", "serviceaccounts", "default"))
    eventually(lambda: inside.find("v1", "configmaps", "kube-root-ca.crt"))
    yield name
    cluster.delete("v1", "namespaces", name)


@pytest.fixture
def objects(cluster: Objects, namespace: str) -> Objects:
    """The objects of the case's namespace."""
    return Objects(cluster.backend, namespace)


@pytest.fixture
def group(cluster: Objects, unique: str) -> Iterator[str]:
    """A definition of widgets in a group of its own, served."""
    group = f"g{unique}.example.test"
    cluster.create("customresourcedefinitions", manifests.widget_definition(group))
    eventually(lambda: cluster.backend.request("GET", f"/apis/{group}/v1/widgets").code == 200)
    yield group
    cluster.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", f"widgets.{group}")
