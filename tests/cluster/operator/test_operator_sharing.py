"""One operator of several processes: each does its share, and none outlives the one that leads."""

from __future__ import annotations

import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends import Node
from tests.cluster.objects import Objects, eventually
from tests.cluster.operator.operators import GROUP, Replica, job
from tests.e2e.clusters import children

JOBS = 8


@pytest.fixture
def shared(operator_config: Path, tmp_path: Path) -> Iterator[Replica]:
    replica = Replica(operator_config, tmp_path, "shared", "--processes", "2")
    try:
        replica.wait()
        eventually(lambda: reconciles(replica.health + 1) is not None, seconds=30)
        yield replica
    finally:
        replica.stop()


def reconciles(port: int) -> float | None:
    """How many reconciles of TrainingJobs a process has done; None while it cannot be asked."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except OSError:
        return None
    found = re.findall(r'reconcile_total\{controller="trainingjob",[^}]*\} (\S+)', text)
    return sum(float(number) for number in found)


def phase(objects: Objects, name: str) -> str:
    status = objects.get(GROUP, "trainingjobs", name).get("status") or {}
    return str(status.get("phase"))


def test_each_does_a_part_of_the_work(objects: Objects, shared: Replica, node: Node) -> None:
    names = [f"shared-{number}" for number in range(JOBS)]
    for name in names:
        objects.create("trainingjobs", job(name))
    for name in names:
        eventually(lambda name=name: phase(objects, name) == "Succeeded", seconds=60)
    assert all(reconciles(shared.health + number) for number in range(2))
    assert shared.stop() == 0
    assert "PartnerLost" not in shared.log.read_text()


def test_a_partner_ends_with_its_leader(shared: Replica) -> None:
    (partner,) = children(shared.process.pid)
    shared.kill()
    eventually(lambda: not alive(partner), seconds=20)


def test_a_leader_does_not_go_on_without_its_partner(shared: Replica) -> None:
    (partner,) = children(shared.process.pid)
    os.kill(partner, signal.SIGKILL)
    assert shared.process.wait(60) == 1
    assert f"partner {partner} ended" in shared.log.read_text()


def alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"
