"""Clusters without nodes, for the cases to fill.

The real server has kube-scheduler beside it, ours has ours.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from corral.cluster.scheduler import crds
from tests.backends import Backend
from tests.cluster.objects import Objects, eventually
from tests.cluster.scheduling.arena import OURS, Arena, scheduler


@pytest.fixture
def arena(cluster: Objects, objects: Objects, unique: str) -> Iterator[Arena]:
    """A cluster without nodes, for the case to fill."""
    for name in cluster.names("v1", "nodes"):
        cluster.delete("v1", "nodes", name)
    eventually(lambda: not cluster.names("v1", "nodes"))
    made = Arena(cluster, objects, unique)
    yield made
    made.end()


@pytest.fixture(scope="session")
def pod_groups(backend: Backend) -> None:
    """The server has both kinds of PodGroup."""
    cluster = Objects(backend)
    for definition in crds():
        name, group = definition["metadata"]["name"], definition["spec"]["group"]
        if cluster.find("apiextensions.k8s.io/v1", "customresourcedefinitions", name) is None:
            cluster.create("customresourcedefinitions", definition)
        version = definition["spec"]["versions"][0]["name"]
        path = f"/apis/{group}/{version}/podgroups"
        eventually(lambda path=path: backend.request("GET", path).code == 200)


@pytest.fixture(scope="session")
def our_scheduler(
    backend: Backend, pod_groups: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Ours, under a name of its own, beside whatever else there is."""
    log = tmp_path_factory.mktemp("ours") / "scheduler.log"
    with scheduler(backend, OURS, log):
        yield


@pytest.fixture
def ring(arena: Arena, our_scheduler: None) -> Arena:
    """As the arena, with pods that our scheduler places."""
    arena.scheduler = OURS
    return arena
