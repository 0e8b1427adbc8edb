"""Both servers, empty of controllers that would write in between, and a namespace on both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.backends import EmbeddedBackend, RealBackend
from tests.cluster.compare.kinds import BAD, LIMITED, NAMESPACE, READS, widget_definition
from tests.cluster.compare.pair import Pair, Request
from tests.cluster.objects import eventually


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both API servers alone, without controllers and schedulers."""
    ours = EmbeddedBackend(tmp_path_factory.mktemp("ours"), controllers=False)
    real = RealBackend(tmp_path_factory.mktemp("compare"), controllers=False)
    try:
        ours.start()
        real.start()
        made = Pair(ours, real)
        prepare(made)
        yield made
        made.close()
    finally:
        real.stop()
        ours.stop()


def prepare(pair: Pair) -> None:
    """The namespaces, the account that pods need (ours makes it by itself), and a custom kind."""
    for name in (NAMESPACE, LIMITED, BAD, READS):
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        pair.send(Request("POST", "/api/v1/namespaces", space))
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
        pair.theirs.send(Request("POST", accounts, account))
        wait_for(pair, f"{accounts}/default")
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    pair.send(Request("POST", definitions, widget_definition()))
    wait_for(pair, f"/apis/example.com/v1/namespaces/{NAMESPACE}/widgets")


def wait_for(pair: Pair, path: str) -> None:
    """Wait until both serve a path."""
    for side in (pair.ours, pair.theirs):
        eventually(lambda s=side: s.send(Request("GET", path)).code == 200)
