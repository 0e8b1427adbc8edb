"""A scheduler beside every server: kube-scheduler beside the real one, ours beside ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.backends import Backend
from tests.cluster.objects import Objects, eventually
from tests.cluster.scheduling.arena import Arena, scheduler


@pytest.fixture(scope="session")
def scheduling(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Pods of the default scheduler are being scheduled."""
    if backend.name == "real":
        yield
        return
    log = tmp_path_factory.mktemp("scheduler") / "scheduler.log"
    with scheduler(backend, "default-scheduler", log):
        yield


@pytest.fixture
def arena(scheduling: None, cluster: Objects, objects: Objects, unique: str) -> Iterator[Arena]:
    """A cluster without nodes, for the case to fill."""
    for name in cluster.names("v1", "nodes"):
        cluster.delete("v1", "nodes", name)
    eventually(lambda: not cluster.names("v1", "nodes"))
    made = Arena(cluster, objects, unique)
    yield made
    made.end()
