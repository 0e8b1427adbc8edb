"""A cluster with two nodes and an operator, and what an undisturbed run of the example comes to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from corral.cluster.node.isolation import Capabilities
from tests.backends import Backend, Node, add_node, own_backend, own_scope
from tests.cluster.objects import Objects
from tests.cluster.training.training_stage import (
    EXAMPLES,
    STEPS,
    Jobs,
    Obj,
    OperatorRun,
    install,
)


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own, so that nodes of other cases are not among its nodes."""
    with own_backend(tmp_path_factory.mktemp("training")) as backend:
        install(backend)
        yield backend


@pytest.fixture(scope=own_scope)
def nodes(backend: Backend) -> Iterator[dict[str, Node]]:
    """Two nodes whose pods share the machine's network: the operator is at the loopback."""
    mode = Capabilities.detect("probe", highest="user").mode
    started: dict[str, Node] = {}
    try:
        for name in ("one", "two"):
            started[name] = add_node(backend, name, isolation=mode)
        yield started
    finally:
        for node in started.values():
            node.stop()


@pytest.fixture(scope=own_scope)
def operator(
    backend: Backend, nodes: dict[str, Node], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorRun]:
    running = OperatorRun(backend, tmp_path_factory.mktemp("operator"))
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture
def jobs(objects: Objects, operator: OperatorRun, nodes: dict[str, Node]) -> Jobs:
    """Jobs in the namespace of the case."""
    return Jobs(objects, operator, nodes)


@pytest.fixture(scope=own_scope)
def alone() -> Obj:
    """What one process comes to that knows nothing of a cluster; the weights are the measure."""
    program = str(EXAMPLES / "digits_jax.py")
    done = subprocess.run(
        [sys.executable, program, "--steps", str(STEPS)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: Obj = json.loads(done.stdout.splitlines()[-1])
    return result
