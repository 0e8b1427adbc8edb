"""Both servers, empty of controllers that would write in between, and a namespace on both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.backends import Backend, RealBackend
from tests.cluster.compare.pair import Pair, Request
from tests.cluster.objects import eventually

NAMESPACE = "compare"


@pytest.fixture(scope="session")
def pair(embedded: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Ours, and a kube-apiserver without kube-controller-manager."""
    real = RealBackend(tmp_path_factory.mktemp("compare"), controllers=False)
    try:
        real.start()
        made = Pair(embedded, real)
        prepare(made)
        yield made
        made.close()
    finally:
        real.stop()


def prepare(pair: Pair) -> None:
    """The namespace and the account that pods need; ours makes the account by itself."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    pair.send(Request("POST", "/api/v1/namespaces", space))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    pair.theirs.send(Request("POST", accounts, account))
    for side in (pair.ours, pair.theirs):
        eventually(lambda s=side: s.send(Request("GET", f"{accounts}/default")).code == 200)
