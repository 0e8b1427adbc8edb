"""Two operators: one works, the other takes over."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.operator.settings import LEASE, NAMESPACE
from tests.backends import Node
from tests.cluster.objects import Objects, eventually
from tests.cluster.operator.operators import GROUP, Replica, job

QUICK = ("--lease-duration", "4", "--renew-deadline", "2.5", "--retry-period", "0.5")
LEASE_SECONDS = 4


@pytest.fixture
def replicas(operator_config: Path, tmp_path: Path) -> Iterator[list[Replica]]:
    started = [Replica(operator_config, tmp_path, name, *QUICK) for name in ("one", "two")]
    try:
        for replica in started:
            replica.wait()
        yield started
    finally:
        for replica in started:
            replica.stop()


def holder(cluster: Objects) -> str:
    found = Objects(cluster.backend, NAMESPACE).find("coordination.k8s.io/v1", "leases", LEASE)
    return str((found or {}).get("spec", {}).get("holderIdentity") or "")


def leads(replica: Replica) -> bool:
    url = f"http://127.0.0.1:{replica.health}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    return f'leader_election_master_status{{name="{LEASE}"}} 1.0' in text


def succeeded(objects: Objects, name: str) -> bool:
    status = objects.get(GROUP, "trainingjobs", name).get("status") or {}
    return status.get("phase") == "Succeeded"


def test_a_killed_leader_is_replaced(
    cluster: Objects, objects: Objects, replicas: list[Replica], node: Node
) -> None:
    leader = eventually(lambda: next((r for r in replicas if leads(r)), None))
    (other,) = [r for r in replicas if r is not leader]
    assert not leads(other)
    objects.create("trainingjobs", job("before"))
    eventually(lambda: succeeded(objects, "before"), seconds=60)
    first = holder(cluster)
    began = time.monotonic()
    leader.kill()
    objects.create("trainingjobs", job("after"))
    eventually(lambda: leads(other), seconds=60)
    # within the lease, as the successor observes it, and one more try
    assert time.monotonic() - began < 2 * LEASE_SECONDS + 2
    assert holder(cluster) != first
    eventually(lambda: succeeded(objects, "after"), seconds=60)


def test_a_leader_that_stops_does_not_keep_others_waiting(
    cluster: Objects, replicas: list[Replica]
) -> None:
    leader = eventually(lambda: next((r for r in replicas if leads(r)), None))
    (other,) = [r for r in replicas if r is not leader]
    assert leader.stop() == 0
    eventually(lambda: leads(other), seconds=60)
    said = [line["message"] for line in leader.lines()]
    assert "SIGTERM: stopping" in said


def test_every_line_is_json_and_says_what_it_is_about(
    objects: Objects, replicas: list[Replica]
) -> None:
    eventually(lambda: any(leads(replica) for replica in replicas))
    lines = [line for replica in replicas for line in replica.lines()]
    assert lines
    for line in lines:
        assert {"time", "level", "logger", "message"} <= line.keys(), json.dumps(line)


def test_without_definitions_it_says_so(kubeconfig: str, tmp_path: Path) -> None:
    config = json.loads(Path(kubeconfig).read_text())
    config["clusters"][0]["cluster"]["server"] += "/nowhere"
    other = tmp_path / "nowhere.kubeconfig"
    other.write_text(json.dumps(config))
    replica = Replica(other, tmp_path, "none")
    assert replica.process.wait(60) == 1
    said = replica.log.read_text()
    assert "the API server does not know" in said
    for version in ("kubeflow.org/v2beta1", "training.corral.dev/v1alpha1"):
        assert version in said
    assert "Traceback" not in said
