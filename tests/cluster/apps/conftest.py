"""Nodes that are played, and shorthands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cluster.apps.builders import Apps
from tests.cluster.apps.player import Player, node_body, node_status
from tests.cluster.binaries import client_binary
from tests.cluster.kubectl.runner import Kubectl
from tests.cluster.objects import Obj, Objects

MakeNode = Callable[..., str]


@pytest.fixture
def make_node(cluster: Objects, unique: str) -> Iterator[MakeNode]:
    """Makes nodes that are there and ready, with a label of the case on them."""
    made: list[str] = []

    def make(name: str = "n", *, taints: list[Obj] | None = None, **labels: str) -> str:
        full = f"{name}-{unique}"
        cluster.create("nodes", node_body(full, {"case": unique, **labels}))
        made.append(full)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        cluster.patch("v1", "nodes", full, {"status": node_status(now)}, subresource="status")
        cluster.patch("v1", "nodes", full, {"spec": {"taints": taints or []}})
        return full

    yield make
    for name in made:
        cluster.delete("v1", "nodes", name)


@pytest.fixture
def player(kubeconfig: str, namespace: str, make_node: MakeNode) -> Iterator[Player]:
    """All pods of the case's namespace run on one node that is played."""
    playing = Player(kubeconfig, namespace, make_node("played"))
    playing.start()
    yield playing
    playing.stop()


@pytest.fixture
def apps(objects: Objects, player: Player) -> Apps:
    return Apps(objects, player)


@pytest.fixture
def kubectl(kubeconfig: str, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(client_binary("kubectl"), kubeconfig, tmp_path, namespace)
