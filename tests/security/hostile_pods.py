"""Pods that attack the node they run on: started, and asked what came of it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.isolation import Capabilities
from tests.backends import Backend, Node, add_node, ordinary_python, own_backend, own_scope
from tests.cluster.objects import Objects
from tests.cluster.pods.pods import Pods, python

Obj = dict[str, Any]

MODES = ("root", "user")
MAX_PROCESSES = 150
TRY = """
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def said(result):
    print("done" if result >= 0 else errno.errorcode[ctypes.get_errno()])
def call(number, *args):
    said(libc.syscall(number, *args))
def attempt(what):
    try:
        print("done", what())
    except OSError as err:
        print(errno.errorcode[err.errno])
def status(name):
    return open("/proc/self/status").read().split(name + ":")[1].split()[0]
"""
"""Before the attacker's own code: each attempt writes what came of it on a line."""


def hostile_node(backend: Backend, started: dict[str, Node], mode: str) -> Node:
    """A node of a mode as people start it, without any option that lets pods out."""
    if mode not in started:
        if Capabilities.detect("probe", highest=mode).mode != mode:  # type: ignore[arg-type]
            pytest.skip(f"pods cannot be isolated as {mode} here")
        ordinary = os.geteuid() == 0 and mode == "user"
        if ordinary and ordinary_python() is None:
            pytest.skip("an ordinary user cannot run our Python here")
        started[mode] = add_node(
            backend,
            mode,
            isolation=mode,
            ordinary=ordinary,
            options=(f"--max-processes={MAX_PROCESSES}",),
            open_to_cases=False,
        )
    return started[mode]


class Attacker(Pods):
    """Pods of a hostile tenant on one node."""

    def __init__(self, objects: Objects, node: Node) -> None:
        super().__init__(objects, node)
        self._count = 0

    def tries(self, code: str, *, context: Obj | None = None, **spec: Any) -> list[str]:
        """Run code in a pod; the lines that it wrote. ``context`` is the container's."""
        self._count += 1
        more = {"securityContext": context} if context is not None else {}
        mounts = spec.pop("mounts", None)
        more |= {"volumeMounts": mounts} if mounts else {}
        text = self.output(f"attacker-{self._count}", python(TRY + code, **more), **spec)
        return text.split("\n")[:-1]

    def victim(self, name: str = "victim", **more: Any) -> int:
        """Another tenant's pod that runs; its process as the machine sees it."""
        word = f"victim-{name}-{uuid.uuid4().hex}"
        code = f"import time; print('up', flush=True); time.sleep(600) # {word}"
        self.run(name, python(code, env=[{"name": "SECRET", "value": word}], **more))
        self.ready(name)
        (pid,) = processes(word)
        return pid

    def refused(self, container: Obj | None = None, **spec: Any) -> tuple[str, str, list[str]]:
        """Reason and message of a pod that was turned away, and its events."""
        self._count += 1
        name = f"attacker-{self._count}"
        self.run(name, {**python("print('ran')"), **(container or {})}, **spec)
        status = self.phase(name, "Failed")["status"]
        assert not status.get("containerStatuses") or "terminated" not in str(
            status["containerStatuses"][0].get("state")
        )
        return status["reason"], status["message"], [words for _, words in self.events(name)]


def processes(word: str) -> list[int]:
    """Processes of the machine with a word in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue  # it has ended
    return found


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own, so that nodes of other cases are not among its nodes."""
    with own_backend(tmp_path_factory.mktemp("hostile")) as backend:
        yield backend


@pytest.fixture(scope=own_scope)
def nodes(backend: Backend) -> Iterator[dict[str, Node]]:
    """Mode → its node, as far as started."""
    started: dict[str, Node] = {}
    yield started
    for node in started.values():
        node.stop()


@pytest.fixture(params=MODES)
def attacker(
    request: pytest.FixtureRequest, backend: Backend, nodes: dict[str, Node], objects: Objects
) -> Attacker:
    """A tenant with pods on a node of each mode in turn."""
    return Attacker(objects, hostile_node(backend, nodes, request.param))
