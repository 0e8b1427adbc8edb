"""Our scheduler is killed at any moment, and comes again."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.cluster.scheduler import crds
from tests.backends import Backend
from tests.cluster.objects import eventually
from tests.cluster.scheduling.arena import COSCHEDULING, VOLCANO, Arena, scheduler, start

NAME = "fragile-scheduler"
ONE = {"cpu": "1"}


@pytest.fixture
def fragile(arena: Arena, pod_groups: None) -> Arena:
    """Pods for a scheduler that the case starts and kills itself."""
    arena.scheduler = NAME
    return arena


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "scheduler.log"
    yield path
    assert "Traceback" not in path.read_text(), path.read_text()


def test_what_is_placed_is_read_again(fragile: Arena, backend: Backend, log: Path) -> None:
    fragile.node("a", cpu="2")
    with scheduler(backend, NAME, log):
        fragile.pod("first", ONE)
        fragile.where("first")
    fragile.pod("second", ONE)
    fragile.pod("third", ONE)
    with scheduler(backend, NAME, log):
        eventually(lambda: fragile.placed("second", "third") == 1)
        waiting = "second" if fragile.placed("third") else "third"
        fragile.told(
            waiting,
            "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod.",
        )


@pytest.mark.parametrize("family", [VOLCANO, COSCHEDULING])
def test_a_half_bound_group_is_completed(
    fragile: Arena, backend: Backend, log: Path, family: str
) -> None:
    node = fragile.node("a", cpu="3")
    fragile.group("trio", family, 3)
    names = [fragile.member(f"trio-{n}", "trio", family, ONE) for n in range(3)]
    bind(fragile, names[0], node)
    # An older and smaller rival, that fits where the other two must go.
    fragile.group("rival", family, 2)
    rivals = [fragile.member(f"rival-{n}", "rival", family, ONE) for n in range(2)]
    with scheduler(backend, NAME, log):
        for name in names:
            fragile.where(name)
        assert fragile.placed(*rivals) == 0


def test_a_half_bound_group_that_cannot_be_completed_is_reported(
    fragile: Arena, backend: Backend, log: Path
) -> None:
    node = fragile.node("a", cpu="2")
    fragile.group("trio", VOLCANO, 3)
    names = [fragile.member(f"trio-{n}", "trio", VOLCANO, ONE) for n in range(3)]
    bind(fragile, names[0], node)
    with scheduler(backend, NAME, log):
        eventually(lambda: fragile.group_status("trio", VOLCANO).get("phase") == "Unknown")
        message = eventually(lambda: fragile.events("trio", "Unschedulable"))[0]
        assert "1/3 tasks in gang unschedulable" in message
        assert "Insufficient cpu" in message


def test_kinds_of_groups_come_and_go(fragile: Arena, backend: Backend, log: Path) -> None:
    fragile.node("a")
    kinds = {crd["spec"]["group"]: crd for crd in crds()}
    place, name = "apiextensions.k8s.io/v1", f"podgroups.{VOLCANO}"
    fragile.cluster.delete(place, "customresourcedefinitions", name)
    eventually(lambda: not fragile.cluster.find(place, "customresourcedefinitions", name))
    with scheduler(backend, NAME, log):
        fragile.member("early", "pair", VOLCANO, ONE)
        eventually(lambda: "not found" in fragile.condition("early").get("message", ""))
        path = f"/apis/{VOLCANO}/v1beta1/podgroups"
        for _ in range(2):
            fragile.cluster.create("customresourcedefinitions", kinds[VOLCANO])
            eventually(lambda: backend.request("GET", path).code == 200)
            fragile.group("pair", VOLCANO, 1)
            fragile.where("early")
            fragile.delete("early")
            fragile.cluster.delete(place, "customresourcedefinitions", name)
            eventually(lambda: not fragile.cluster.find(place, "customresourcedefinitions", name))
            fragile.member("early", "pair", VOLCANO, ONE)
            eventually(lambda: "not found" in fragile.condition("early").get("message", ""))
    fragile.cluster.create("customresourcedefinitions", kinds[VOLCANO])


def test_killed_again_and_again(fragile: Arena, backend: Backend, log: Path) -> None:
    """Every pod gets a node, no node more than it has, and no group stays half bound."""
    rng = random.Random(7)
    for number in range(4):
        fragile.node(f"n{number}", cpu="16", pods=40)
    running = start(backend, NAME, log)
    singles, gangs = [], []
    try:
        for number in range(12):
            gang = fragile.group(f"g{number}", rng.choice((VOLCANO, COSCHEDULING)), 3)
            family = VOLCANO if _is_volcano(fragile, gang) else COSCHEDULING
            gangs.append([fragile.member(f"{gang}-{n}", gang, family, ONE) for n in range(3)])
            singles.append(fragile.pod(f"s{number}", ONE))
            if number % 3 == 2:
                time.sleep(rng.random() * 0.3)  # a random moment is what this is about
                running = again(running, backend, log)
        everything = [*singles, *(name for gang in gangs for name in gang)]
        for name in everything:
            fragile.where(name)
    finally:
        running.terminate()
        running.wait(20)
    nodes = [fragile.where(name) for name in everything]
    assert max(nodes.count(node) for node in set(nodes)) <= 16


def again(running: subprocess.Popen[bytes], backend: Backend, log: Path) -> subprocess.Popen[bytes]:
    running.send_signal(signal.SIGKILL)
    running.wait(20)
    return start(backend, NAME, log)


def bind(arena: Arena, name: str, node: str) -> None:
    path = arena.objects.path("v1", "pods", name) + "/binding"
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": node},
    }
    reply = arena.objects.backend.request("POST", path, body)
    assert reply.code == 201, reply.body


def _is_volcano(arena: Arena, name: str) -> bool:
    return arena.objects.find(f"{VOLCANO}/v1beta1", "podgroups", name) is not None
