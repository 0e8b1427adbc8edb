"""Two control planes, one after the other: the peer's story, and ours."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from corral.api import all_kinds
from tests.backends import RealBackend
from tests.cluster.mpijob_peer.programs import (
    Program,
    definition,
    our_argv,
    peer_argv,
    peer_folder,
)
from tests.cluster.mpijob_peer.story import Story
from tests.cluster.objects import eventually
from tests.support.components import skip


@pytest.fixture(scope="package")
def peer() -> Path:
    """The folder of the peer's program, definition and examples."""
    folder = peer_folder()
    if folder is None:
        skip("mpi-operator")
    return folder


@pytest.fixture(scope="package")
def theirs(peer: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The examples under Kubeflow's operator, with its own definition."""
    folder = tmp_path_factory.mktemp("theirs")
    config = folder / "test.kubeconfig"
    return told(
        folder, peer, [definition(peer)], peer_argv(peer, config, "-kube-api-qps=100"),
        "Started workers",
    )  # fmt: skip


@pytest.fixture(scope="package")
def ours(peer: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The examples under ours, with ours."""
    folder = tmp_path_factory.mktemp("ours")
    argv = our_argv(folder / "test.kubeconfig", "--health-port=0")
    return told(folder, peer, [kind.crd() for kind in all_kinds()], argv, "operator is ready")


def told(
    folder: Path, peer: Path, definitions: Iterable[dict[str, Any]], argv: list[str], ready: str
) -> Story:
    """Everything that happens on a control plane with this operator."""
    backend = RealBackend(folder)
    try:
        backend.start()
        for each in definitions:
            install(backend, each)
        program = Program(argv, backend.kubeconfig, folder / "operator.log", ready)
        try:
            story = Story(backend, peer)
            story.tell()
            return story
        finally:
            program.stop()
    finally:
        backend.stop()


def install(backend: RealBackend, definition: dict[str, Any]) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    reply = backend.request("POST", path, definition)
    assert reply.code == 201, reply.body
    spec = definition["spec"]
    group, version = spec["group"], spec["versions"][0]["name"]
    served = f"/apis/{group}/{version}/{spec['names']['plural']}"
    eventually(lambda: backend.request("GET", served).code == 200)
